"""What a user holds goes to other processes and comes back the same."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import viaduct as via

SMALL = {"traffic.size": "64 B"}


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_a_study_of_every_origin_is_the_same_again(tmp_path: Path) -> None:
    torus = via.Network.torus([4, 4], rate="856 Mbit/s")
    graph = via.Network("a star of three")
    middle = graph.switch("middle")
    for name in ("a", "b", "c"):
        graph.link(graph.host(name), middle, rate="1 Gbit/s")
    traffic = via.Traffic(size="1 KiB", rate=1000, to=via.uniform())
    listed = via.Messages(time_us=[0, 1.000001, 3], source=[0, 1, 2], target=[1, 2, 0], bytes=64)
    (tmp_path / "graph.json").write_text(graph._network.node_link_json(), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(
        '[run]\nuntil = "1 ms"\n[network]\ntopology = "graph"\nfile = "graph.json"\n'
        '[links]\nrate = "1 Gbit/s"\n[traffic]\npattern = "uniform"\nrate = "1000/s"\n'
        'size = "64 B"\n',
        encoding="utf-8",
    )
    studies = [
        via.study("two-hosts", set=SMALL),
        via.study(tmp_path / "mine.toml"),
        via.parse_study(via.study("two-hosts").to_toml(), set=SMALL),
        torus.study(traffic, until="1 ms"),
        graph.study(traffic, until="1 ms"),
        graph.study(listed, until="1 ms"),
    ]
    dumped = [pickle.dumps(study) for study in studies]
    # Whoever reads it has none of the files.
    (tmp_path / "graph.json").unlink()
    (tmp_path / "mine.toml").unlink()
    for study, data in zip(studies, dumped, strict=True):
        copy = pickle.loads(data)
        assert copy.to_toml() == study.to_toml()
        assert copy.run(seed=3).digest == study.run(seed=3).digest
        # And again, with settings of the copy.
        assert again(copy).run(set={"run.seed": 5}).seed == 5
    sweep = via.study("four-hop")
    assert [again(point).point for point in sweep.points()[:3]] == [
        point.point for point in sweep.points()[:3]
    ]
    assert again(sweep).sweep == sweep.sweep


def test_a_result_has_its_numbers_and_tables_and_what_needs_the_run(tmp_path: Path) -> None:
    result = via.study("two-hosts", set=SMALL).run(seed=4)
    copy = again(again(result))
    assert (repr(copy), str(copy), copy.digest) == (repr(result), str(result), result.digest)
    assert copy.latency_us == result.latency_us
    for name in ("messages", "links", "series", "latency"):
        assert pyarrow.table(copy.table(name)) == pyarrow.table(result.table(name))
        assert copy.table(name).dictionary() == result.table(name).dictionary()
    # By running again.
    assert copy.why(message=3).text == result.why(message=3).text
    copy.save(tmp_path / "run")
    assert (tmp_path / "run" / "summary.json").exists()


def test_networks_messages_sweeps_and_errors_come_back() -> None:
    net = via.Network.torus([3, 3], hosts_per_switch=2, rate="1 Gbit/s", latency="20 ns")
    assert again(net).to_node_link() == net.to_node_link()
    assert again(net).description == net.description
    messages = via.Messages(
        time_ns=[5, 7.001],
        source=[0, 1],
        target=[1, 0],
        bytes=[64, 128],
        operation=["send", "write"],
    )
    assert again(messages)._native.csv() == messages._native.csv()
    traffic = via.Traffic(size="1 KiB", rate=10, to=via.hot_spot(1, 0.5))
    assert again(traffic).settings == traffic.settings
    sweep = via.sweep("two-hosts", size=["64 B", "1 KiB"], seeds=2, progress=False)
    copy = again(sweep)
    assert (str(copy), copy.document) == (str(sweep), sweep.document)
    assert pyarrow.table(copy) == pyarrow.table(sweep)
    for error in (
        via.AssumptionError("broken", sweep),
        via.SweepInterrupted("stopped", sweep),
        via.FabricError("refused", "Resource"),
        via.DescriptorError("failed", 3),
    ):
        copy = again(error)
        assert (type(copy), str(copy)) == (type(error), str(error))
    assert again(via.SweepInterrupted("stopped", sweep)).result.digest == sweep.digest


def test_a_result_is_read_by_another_process(tmp_path: Path) -> None:
    result = via.study("two-hosts", set=SMALL).run(seed=4)
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(result))
    program = (
        "import pickle, sys; result = pickle.load(open(sys.argv[1], 'rb')); "
        "print(result.digest, result.why(message=0).document['message']['message'])"
    )
    path = str(tmp_path / "result.pickle")
    told = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
    )
    assert told.stdout.split() == [result.digest, "0"]


def test_an_unfinished_network_says_what_is_missing() -> None:
    net = via.Network("unfinished")
    net.host("alone")
    with pytest.raises(via.ScenarioError, match="alone"):
        pickle.dumps(net)
