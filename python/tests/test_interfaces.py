"""Applications on hosts whose interfaces have endpoints."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
import viaduct as via

STUDY = """\
[network]
topology = "switch"
hosts = 8
[links]
rate = "1280 Mbit/s"
[hosts]
nic = "{nic}"
[traffic]
{traffic}
"""
COLLECTIVE = 'arrivals = "collective"\ncollective = "all-reduce"\nbytes = "4 KiB"'
PROGRAM = (
    'arrivals = "program"\nprogram = "nas-cg"\nclass = "S"\niterations = 1\n'
    "operations_per_second = 30e6"
)
GOAL = """arrivals = "goal"
file = "two.goal"
[files]
"two.goal" = '''
num_ranks 2
rank 0 {
a: send 100b to 1 tag 3
b: calc 5000
}
rank 1 {
a: recv 100b from 0 tag 3
}
'''"""


def net(nic: str = "am-myrinet") -> via.Network:
    return via.Network.single_switch(8, rate="1280 Mbit/s", nic=nic)


def of_command(text: str, tmp_path: Path) -> dict[str, object]:
    """What `viaduct run --json` tells of a study."""
    (tmp_path / "study.toml").write_text(text)
    command = [sys.executable, "-m", "viaduct", "run", "study.toml", "--json", "--quiet"]
    out = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    told: dict[str, object] = json.loads(out.stdout)
    return told


@pytest.mark.parametrize("nic", ["am-myrinet", "gam-myrinet"])
@pytest.mark.parametrize("traffic", [COLLECTIVE, PROGRAM, GOAL], ids=["collective", "cg", "goal"])
def test_a_study_gives_what_the_command_gives(nic: str, traffic: str, tmp_path: Path) -> None:
    text = STUDY.format(nic=nic, traffic=traffic)
    told = of_command(text, tmp_path)
    result = via.parse_study(text).run()
    same = ["digest", "level", "application", "hosts", "ended", "events", "breakdown_us"]
    assert {key: getattr(result, key) for key in same} == {key: told[key] for key in same}
    assert result.level == "held"
    assert told["interfaces"] == {
        key: getattr(result.interfaces, key) for key in via.Interfaces.__dataclass_fields__
    }
    kept = pickle.loads(pickle.dumps(result))
    assert (kept.digest, kept.interfaces) == (result.digest, result.interfaces)


def test_objects_give_what_the_study_file_gives(tmp_path: Path) -> None:
    graph = via.Graph(2)
    graph.send(0, 1, "100 B", tag=3)
    graph.compute(0, "5 us")
    graph.receive(1, 0, "100 B", tag=3)
    cg = via.program("nas-cg", operations_per_second=30e6, class_="S", iterations=1)
    for traffic, text in [
        (via.collective("all-reduce", bytes="4 KiB"), COLLECTIVE),
        (cg, PROGRAM),
        (graph, GOAL),
    ]:
        of_file = via.parse_study(STUDY.format(nic="am-myrinet", traffic=text)).run()
        result = net().run(traffic=traffic)
        assert result.digest == of_file.digest
        assert result.application is not None and of_file.application is not None
        assert result.application["makespan_us"] == of_file.application["makespan_us"]


def test_ranks_and_links_are_tables() -> None:
    result = net().run(traffic=via.collective("all-reduce", bytes="4 KiB"))
    ranks, links = pyarrow.table(result.table("ranks")), pyarrow.table(result.links)
    assert result.application is not None and result.interfaces is not None
    assert ranks.num_rows == 8
    assert max(ranks["span_us"].to_pylist()) == pytest.approx(result.application["makespan_us"])
    # Eight hosts, each with a link to the switch and one from it, all of which carried as much.
    assert len(set(links["wire_bytes"].to_pylist())) == 1 and links.num_rows == 16
    assert result.latency_us.count == result.messages.delivered > 0
    assert len(pyarrow.table(result.latency_distribution)) > 0
    assert result.interfaces.remaps == 8


def test_a_sweep_goes_over_bytes_and_interfaces() -> None:
    study = net().study(via.collective("all-reduce", bytes="4 KiB"))
    swept = via.sweep(
        study, {"traffic.bytes": ["1 KiB", "4 KiB"], "hosts.nic": ["am-myrinet", "gam-myrinet"]}
    )
    spans = dict(enumerate(pyarrow.table(swept)["makespan_us"].to_pylist()))
    alone = net().run(traffic=via.collective("all-reduce", bytes="4 KiB")).application
    assert alone is not None
    assert spans[2] == alone["makespan_us"]
    assert spans[1] < spans[0] < spans[2] and spans[1] < spans[3] < spans[2]


def test_the_critical_path_is_told() -> None:
    result = net().run(traffic=via.collective("all-reduce", bytes="4 KiB"))
    path = result.critical_path().document
    assert result.application is not None
    assert path["makespan_ps"] / 1e6 == result.application["makespan_us"]


def test_a_request_is_explained() -> None:
    result = net().run(traffic=via.collective("all-reduce", bytes="4 KiB"))
    slowest = result.why().document
    assert slowest["latency_ps"] / 1e6 == pytest.approx(result.latency_us.max)
    assert sum(stage["time_ps"] for stage in slowest["stages"]) == slowest["latency_ps"]
    assert result.why(slowest["message"]["message"]).document["stages"] == slowest["stages"]


def test_what_interfaces_cannot_do_is_refused_as_the_command_refuses_it(tmp_path: Path) -> None:
    collective = via.collective("all-reduce", bytes="4 KiB")
    for key, value, words in [
        ("hosts.processors", "2", "a host with endpoints has one processor for its ranks"),
        ("hosts.adapters", "2", "endpoints find one interface at their host"),
        ("traffic.reliability", "unreliable", "endpoints have a transport of their own"),
    ]:
        with pytest.raises(via.ScenarioError) as told:
            net().run(traffic=collective, set={key: value})
        # It is said at the setting that has to go.
        assert words in str(told.value) and f"{key}={value}" in str(told.value)
        (tmp_path / "study.toml").write_text(STUDY.format(nic="am-myrinet", traffic=COLLECTIVE))
        command = [
            sys.executable,
            "-m",
            "viaduct",
            "check",
            "study.toml",
            "--set",
            f"{key}={value}",
        ]
        out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert out.returncode == 1 and words in out.stderr
    with pytest.raises(via.ScenarioError, match="interfaces with endpoints have no VIs"):
        net().run(traffic=via.Traffic(size="1 KiB", rate=100, to=via.uniform()), until="1 ms")
