"""Sweeps: the same rows wherever they are made, and as the command makes them."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest
import viaduct as via

SMALL = """
[run]
until = "20 ms"
warmup = "2 ms"

[network]
topology = "torus"
dimensions = [4, 4]
hosts_per_switch = 2

[links]
rate = "856 Mbit/s"

[traffic]
pattern = "uniform"
rate = "2000/s"
size = "1 KiB"
"""
RATES = [500, 1000, 1500]
# One of them fails: no preset has this name.
NICS = ["ideal", "giganet-clam", "giganet-clan"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "small.toml"
    path.write_text(SMALL, encoding="ascii")
    return path


def swept(small: Path, **options: Any) -> via.Sweep:
    return via.sweep(small, set={"hosts.nic": NICS}, rate=RATES, seeds=2, **options)


@pytest.fixture(scope="module")
def local(small: Path) -> via.Sweep:
    return swept(small, threads=2)


def rows(sweep: via.Sweep) -> list[tuple[Any, ...]]:
    return polars.DataFrame(sweep).rows()


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.mark.parametrize("executor", [processes, lambda: ThreadPoolExecutor(2)])
def test_an_executor_gives_the_rows_of_threads(
    executor: Callable[[], Executor], small: Path, local: via.Sweep
) -> None:
    with executor() as pool:
        elsewhere = swept(small, executor=pool)
        # With a width, the results say how many seeds are made.
        widths = [
            via.sweep(small, rate=RATES, seeds=40, until_width="0.5%", executor=each)
            for each in (pool, None)
        ]
    assert rows(elsewhere) == rows(local)
    assert elsewhere.digest == local.digest
    assert elsewhere.document == local.document
    assert str(elsewhere) == str(local)
    assert rows(widths[0]) == rows(widths[1])
    assert 9 < len(widths[0]) < 120


def test_a_network_made_here_is_swept_anywhere() -> None:
    net = via.Network("a ring with a slow link")
    ring = [net.switch(f"s{index}") for index in range(5)]
    for index, switch in enumerate(ring):
        rate = "100 Mbit/s" if index == 2 else "1 Gbit/s"
        net.link(switch, ring[(index + 1) % 5], rate=rate)
        net.link(net.host(f"h{index}"), switch, rate="1 Gbit/s")
    net.study(via.Traffic(size="1 KiB", rate=200, to=via.uniform()), until="50 ms")
    here = via.sweep(net, rate=[200, 400], seeds=2)
    with ThreadPoolExecutor(2) as pool:
        assert rows(via.sweep(net, rate=[200, 400], seeds=2, executor=pool)) == rows(here)
    alone = net.study(seed=2, set={"traffic.rate": "400/s"}).run()
    assert rows(here)[3][here.columns.index("digest")] == alone.digest


@pytest.mark.parametrize("executor", [processes, lambda: ThreadPoolExecutor(2)])
def test_a_list_of_messages_is_swept_anywhere(executor: Callable[[], Executor]) -> None:
    net = via.Network("a ring with a slow link")
    ring = [net.switch(f"s{index}") for index in range(5)]
    for index, switch in enumerate(ring):
        rate = "100 Mbit/s" if index == 2 else "1 Gbit/s"
        net.link(switch, ring[(index + 1) % 5], rate=rate)
        net.link(net.host(f"h{index}"), switch, rate="1 Gbit/s")
    hosts = numpy.arange(500) % 5
    messages = via.Messages(
        time_us=numpy.arange(500) * 40.0,
        source=hosts,
        target=(hosts + 1 + numpy.arange(500) // 5 % 4) % 5,
        bytes=numpy.arange(500) % 7 * 100,
    )
    study = net.study(messages, until="30 ms")
    values = {"links.rate": ["1 Gbit/s", "2 Gbit/s"], "hosts.nic": ["ideal", "giganet-clan"]}
    here = via.sweep(study, values, seeds=2)
    with executor() as pool:
        assert rows(via.sweep(study, values, seeds=2, executor=pool)) == rows(here)
    frame = polars.DataFrame(here)
    assert frame["status"].unique().to_list() == ["done"]
    assert frame["posted_messages"].unique().to_list() == [500]
    alone = study.run(seed=2, set={"links.rate": "2 Gbit/s", "hosts.nic": "giganet-clan"})
    assert frame["digest"][-1] == alone.digest


def test_dask_gives_the_rows_of_threads(small: Path, local: via.Sweep) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert rows(swept(small, executor=client.get_executor())) == rows(local)


BY_MPI = """
import sys
import polars
import viaduct as via
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        assert pool.num_workers == 2
        sweep = via.sweep(
            sys.argv[1], set={"hosts.nic": sys.argv[3].split()},
            rate=[int(rate) for rate in sys.argv[4].split()], seeds=2, executor=pool,
        )
    polars.DataFrame(sweep).write_parquet(sys.argv[2])
"""


def test_mpi_gives_the_rows_of_threads(
    small: Path, local: via.Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("Open MPI is not installed")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    script, table = tmp_path / "by_mpi.py", tmp_path / "by_mpi.parquet"
    script.write_text(BY_MPI, encoding="ascii")
    words = [str(small), str(table), " ".join(NICS), " ".join(map(str, RATES))]
    python = [sys.executable, "-m", "mpi4py.futures"]
    ran = subprocess.run(
        [mpiexec, "--oversubscribe", "-n", "3", *python, script, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert polars.read_parquet(table).rows() == rows(local)


def test_the_command_leaves_the_same_table_and_goes_on(
    small: Path, local: via.Sweep, tmp_path: Path
) -> None:
    kept = swept(small, directory=tmp_path / "kept", executor=ThreadPoolExecutor(2))
    words = [f"--set=hosts.nic={','.join(NICS)}", f"--set=traffic.rate={','.join(map(str, RATES))}"]
    command = [sys.executable, "-m", "viaduct", "sweep"]
    subprocess.run(
        [*command, small, *words, "--seeds=2", "--out", tmp_path / "command", "--quiet"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    tables = [tmp_path / name / "sweep.parquet" for name in ("kept", "command")]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    stored = polars.read_parquet(tables[0])
    assert stored.columns == kept.columns == local.columns
    assert stored.rows() == rows(kept) == rows(local)
    # All is made, and the files alone say so.
    journal = (tmp_path / "kept" / "journal.jsonl").read_bytes()
    assert rows(swept(small, directory=tmp_path / "kept")) == rows(local)
    resumed = subprocess.run(
        [*command, "--resume", tmp_path / "kept", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "0 runs on" in resumed.stdout
    assert (tmp_path / "kept" / "journal.jsonl").read_bytes() == journal
    with pytest.raises(via.RunError, match=r"another sweep is in"):
        via.sweep(small, rate=[1], directory=tmp_path / "kept")


def test_a_failed_cell_is_a_row_with_its_reason(local: via.Sweep) -> None:
    frame = polars.DataFrame(local)
    failed = frame.filter(polars.col("status") == "failed")
    assert failed["hosts_nic"].to_list() == ["giganet-clam"] * 6
    assert "giganet-clan" in failed["reason"][0]
    assert failed["latency_mean_us"].null_count() == 6
    done = frame.filter(polars.col("status") == "done")
    assert done["latency_mean_us"].null_count() == 0
    assert done["traffic_rate_per_s"].unique().sort().to_list() == RATES
    assert [cell["status"] for cell in local.cells].count("failed") == 3
    assert "failed: " in str(local)


def test_a_run_of_a_sweep_is_the_run_of_its_point(small: Path, local: via.Sweep) -> None:
    row = polars.DataFrame(local).row(-1, named=True)
    point = via.study(small, set={"hosts.nic": "giganet-clan", "traffic.rate": 1500})
    run = point.run(seed=row["seed"])
    assert row["digest"] == run.digest
    assert row["latency_mean_us"] == run.latency_us.mean


def test_values_are_taken_as_python_has_them(small: Path) -> None:
    study = via.study(small, set={"traffic.size": "64 B"})
    sweep = via.sweep(
        study,
        {"network.dimensions": [[4, 4], (2, 8)], "run.drain": [True, False]},
        rate=numpy.array([500, 1000]),
        prepost=range(1, 3),
        seed=7,
    )
    sets = [tuple(cell["set"].values()) for cell in sweep.cells]
    assert len(sets) == 16
    assert sets[0] == ("[4, 4]", "true", "500/s", "1")
    assert sets[-1] == ("[2, 8]", "false", "1000/s", "2")
    assert polars.DataFrame(sweep)["seed"].unique().to_list() == [7]
    text = via.sweep(study, rate="500..1500:500", size="64 B,1 KiB")
    assert len(text) == 6


def test_a_study_with_a_sweep_of_its_own_runs_over_that() -> None:
    text = SMALL + '\n[sweep]\n"traffic.rate" = ["500/s", "1000/s"]\n'
    sweep = via.sweep(via.parse_study(text))
    assert [cell["set"] for cell in sweep.cells] == [
        {"traffic.rate": "500/s"},
        {"traffic.rate": "1000/s"},
    ]


class Net:
    """What makes a study."""

    def study(self) -> via.Study:
        return via.parse_study(SMALL)


def test_what_makes_a_study_is_swept() -> None:
    sweep = via.sweep(Net(), rate=RATES)
    assert rows(sweep) == rows(via.sweep(via.parse_study(SMALL), rate=RATES))


def test_what_cannot_be_swept_is_refused(small: Path) -> None:
    with pytest.raises(via.ScenarioError, match=r"did you mean `traffic\.rate`"):
        via.sweep(small, {"traffic.rat": [1, 2]})
    with pytest.raises(via.ScenarioError, match=r"no study torus-1023"):
        via.sweep("torus-1023", rate=[1, 2])
    with pytest.raises(via.ScenarioError, match=r"each point is run with the same seeds"):
        via.sweep(small, {"run.seed": [1, 2]})
    with pytest.raises(ValueError, match=r"traffic.rate has no value"):
        via.sweep(small, rate=[])
    with pytest.raises(ValueError, match=r"until_width is a share above 0"):
        via.sweep(small, rate=[1], until_width=0)
    with pytest.raises(ValueError, match=r"seeds is a whole number from 1"):
        via.sweep(small, rate=[1], seeds=0)
    with pytest.raises(TypeError, match=r"no method `submit`: int; give one like"):
        via.sweep(small, rate=[1], executor=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not of float"):
        via.sweep(1.5, rate=[1])  # type: ignore[arg-type]


class Broken(ThreadPoolExecutor):
    """Loses a worker."""

    def submit(self, *_call: Any, **_arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(MemoryError("a worker has gone"))
        return future


def test_a_worker_that_fails_is_told(small: Path) -> None:
    with pytest.raises(via.RunError, match=r"worker .* failed: MemoryError: a worker has gone"):
        via.sweep(small, rate=[1], executor=Broken())


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so does Python then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor])
def test_interrupt_stops_with_what_there_is(
    executor: Callable[[int], Executor] | None, small: Path, tmp_path: Path
) -> None:
    first = threading.get_ident()
    is_sent = False

    def interrupt(progress: via.SweepProgress) -> None:
        nonlocal is_sent
        # Once some runs were made; it is this thread's own signal.
        if progress.made > 4 and not is_sent:
            is_sent = True
            signal.pthread_kill(first, signal.SIGINT)

    # Minutes, if nothing stops it.
    options: dict[str, Any] = {"set": {"run.until": "100 ms"}, "rate": "2000", "seeds": 20_000}
    pool = executor(2) if executor else None
    with pytest.raises(via.SweepInterrupted) as raised:
        via.sweep(
            small, **options, executor=pool, directory=tmp_path / "stopped", progress=interrupt
        )
    if pool is not None:
        pool.shutdown()
    sweep = raised.value.result
    assert 4 < len(sweep) < 20_000
    assert len(sweep) + sweep.runs_not_begun == 20_000
    assert f"{sweep.runs_not_begun} runs left" in str(raised.value)
    assert polars.DataFrame(sweep)["status"].unique().to_list() == ["done"]
    lines = (tmp_path / "stopped" / "journal.jsonl").read_bytes().count(b"\n")
    assert lines == len(sweep)


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor(2)])
def test_progress_comes_to_its_end(pool: Executor | None, small: Path) -> None:
    seen: list[via.SweepProgress] = []
    via.sweep(small, rate=RATES, seeds=4, executor=pool, progress=seen.append)
    made = [progress.made for progress in seen]
    assert made == sorted(made)
    assert (seen[-1].made, seen[-1].asked, seen[-1].fraction) == (12, 12, 1.0)
    with pytest.raises(LookupError):
        via.sweep(small, rate=RATES, executor=pool, progress=_raise)


def _raise(_progress: via.SweepProgress) -> None:
    raise LookupError("seen enough")
