"""Studies, runs and their errors."""

import math
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import viaduct as via

SHORT = {"run.until": "0.2 s", "run.warmup": "0.05 s"}
# Some minutes, if nothing stops it.
LONG = {"run.until": "3000 s"}


def viaduct(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "viaduct", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_package_and_command_compute_the_same(tmp_path: Path) -> None:
    result = via.study("torus-1024", set=SHORT).run(seed=5)
    result.save(tmp_path / "run")
    again = viaduct("rerun", str(tmp_path / "run"), "--quiet")
    assert again.returncode == 0, again.stdout + again.stderr
    assert result.digest in again.stdout

    # The schema of a plain run beside the saved one, the same to the file.
    direct = tmp_path / "direct"
    options = [f"--set={key}={value}" for key, value in SHORT.items()]
    ran = viaduct("run", "torus-1024", "--seed", "5", *options, "--out", str(direct), "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert (direct / "links.parquet").read_bytes() == (
        tmp_path / "run" / "links.parquet"
    ).read_bytes()


def test_seeds_and_settings_change_a_run_and_nothing_else_does() -> None:
    study = via.study("torus-1024", set=SHORT)
    first = study.run(seed=1)
    assert first.digest == study.run(seed=1).digest
    assert first.digest != study.run(seed=2).digest
    assert first.digest != study.run(seed=1, set={"traffic.size": "16 KiB"}).digest
    assert study["traffic.size"] == "32 KiB"
    assert first.hosts == 1024
    assert 0.0 < first.links_by_class["mesh"].utilisation_mean < 1.0
    total = sum(first.breakdown_us.values())
    assert math.isclose(total, first.latency_us.mean, rel_tol=1e-6)


def test_errors_have_the_texts_of_the_command() -> None:
    with pytest.raises(via.ScenarioError) as raised:
        via.study("torus-1024", set={"links.rate": "856 MByte/s"})
    shown = viaduct("run", "torus-1024", "--set", "links.rate=856 MByte/s")
    assert shown.returncode == 1
    assert str(raised.value) == shown.stderr.strip()
    assert 'did you mean "856 Mbit/s"?' in str(raised.value)
    assert isinstance(raised.value, via.Error)
    assert isinstance(raised.value, ValueError)

    with pytest.raises(
        via.ScenarioError, match=r"no study torus-1023.*\n.*did you mean torus-1024"
    ):
        via.study("torus-1023")


def test_a_value_that_is_no_setting_is_refused() -> None:
    study = via.study("four-hop")
    with pytest.raises(TypeError, match="one value"):
        study.run(set={"traffic.size": [64, 128]})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"seed is a whole number from 0"):
        study.run(seed=-1)
    with pytest.raises(KeyError, match=r"traffic\.sise"):
        study["traffic.sise"]


def test_a_sweep_is_run_point_by_point() -> None:
    text = via.study("torus-1024", set=SHORT).to_toml()
    sweep = via.parse_study(text + '\n[sweep]\n"traffic.rate" = ["50/s", "100/s"]\n')
    assert sweep.sweep == {"traffic.rate": ["50/s", "100/s"]}
    with pytest.raises(via.ScenarioError, match=r"sweep over traffic\.rate"):
        sweep.run()
    points = sweep.points()
    assert [point.point["traffic.rate"] for point in points] == ["50/s", "100/s"]
    posted = [point.run(seed=1).messages.posted for point in points]
    assert posted[0] < posted[1]
    # A setting goes over the point's, and leaves the point one.
    assert points[1].run(seed=1, set={"traffic.size": "1 KiB"}).messages.posted == posted[1]


def test_why_explains_a_message_of_the_run() -> None:
    result = via.study("torus-1024", set=SHORT).run(seed=3)
    slowest = result.why()
    assert math.isclose(slowest.document["latency_ps"] / 1e6, result.latency_us.max, rel_tol=1e-6)
    assert slowest.document["digest"] == result.digest
    assert "latency" in str(slowest)
    with pytest.raises(via.RunError, match=r"there is no message 999999999.*\n?.*numbers are 0 to"):
        result.why(999_999_999)
    with pytest.raises(TypeError):
        result.why(1, quantile=0.5)


def test_a_critical_path_adds_up_and_drawn_traffic_has_none() -> None:
    net = via.Network.single_switch(4, rate="1 Gbit/s", nic="rnic-gen4")
    result = net.run(traffic=via.collective("all-reduce", bytes="64 KiB"))
    path = result.critical_path()
    assert path.document["digest"] == result.digest
    assert sum(step["time_ps"] for step in path.document["steps"]) == path.document["makespan_ps"]
    assert result.application is not None
    assert path.document["makespan_ps"] / 1e6 == pytest.approx(result.application["makespan_us"])
    assert "critical path" in str(path)
    with pytest.raises(via.RunError, match=r"no graph of operations\nhelp: run a collective"):
        via.study("torus-1024", set=SHORT).run(seed=3).critical_path()


def test_progress_is_told_while_other_threads_run() -> None:
    ticks = 0
    is_over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_over.wait(0.001):
            ticks += 1

    seen: list[via.Progress] = []

    def enough(progress: via.Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise LookupError("seen enough")

    other = threading.Thread(target=tick)
    other.start()
    try:
        with pytest.raises(LookupError, match="seen enough"):
            via.study("torus-1024", set=LONG).run(progress=enough)
    finally:
        is_over.set()
        other.join()
    assert ticks > 20
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert 0.0 < fractions[0] < fractions[-1] < 1.0
    assert seen[0].until_s == 3000.0


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so does Python then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_interrupt_stops_with_what_there_is() -> None:
    first = threading.get_ident()
    is_over = threading.Event()

    def interrupt() -> None:
        # Once the run itself has begun: with no progress to tell, no Python code of it runs.
        while not is_over.wait(0.2):
            if sys._current_frames()[first].f_code is via.Study.run.__code__:
                is_over.wait(0.2)
                signal.pthread_kill(first, signal.SIGINT)
                return

    study = via.study("torus-1024", set=LONG)
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises(via.Interrupted) as raised:
            study.run(progress=False)
    finally:
        is_over.set()
        other.join()
    result = raised.value.result
    assert result.ended == "interrupted"
    assert 0.0 < result.simulated_s < 3000.0
    counts = result.messages
    assert counts.posted == counts.delivered + counts.dropped + counts.in_flight > 0
    assert not issubclass(via.Interrupted, Exception)


def test_command_has_the_exit_codes_and_starts_its_other_process() -> None:
    assert viaduct("run", "no-such-study").returncode == 1
    measured = viaduct("measure", "latency", "--on", "shm", "--sizes", "64", "--json")
    assert measured.returncode == 0, measured.stderr
    # It begins again with another environment.
    pool = viaduct(
        "measure", "latency", "--on", "shm", "--sizes", "64KiB", "--transfer", "pool", "--json"
    )
    assert pool.returncode == 0, pool.stderr
    assert '"pool"' in pool.stdout
