"""Networks made in Python, and traffic on them."""

import builtins
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import networkx
import numpy
import pyarrow
import pytest
import viaduct as via

SHORT: Any = {"until": "0.2 s", "warmup": "0.05 s"}
# What the study torus-1024 says beside rate, traffic and times.
STUDY = {
    "switches.delay": "0.5 us",
    "switches.cut_through": "80 B",
    "links.propagation": "25 ns",
    "links.model": "queues",
    "traffic.start": "run.warmup",
}
FOUR_HOPS = via.Traffic(size="32 KiB", rate="100/s", to=via.hops(4))


def torus_by_loops() -> via.Network:
    net = via.Network("16x16 torus, 4 hosts a switch")
    sw = [[net.switch(f"s{x}-{y}", ports=8) for y in range(16)] for x in range(16)]
    for x in range(16):
        for y in range(16):
            for h in range(4):
                host = net.host(f"n{x}-{y}-{h}", nic="giganet-clan")
                net.link(host, sw[x][y], rate="856 Mbit/s")
            net.link(sw[x][y], sw[(x + 1) % 16][y], rate="856 Mbit/s")
            net.link(sw[x][y], sw[x][(y + 1) % 16], rate="856 Mbit/s")
    return net


def torus_by_arrays(
    side: int, hosts: int = 4, dtype: Any = numpy.int64, rate: str = "856 Mbit/s"
) -> via.Network:
    net = via.Network(f"{side}x{side} torus")
    s = net.switches(side * side, ports=hosts + 4).reshape(side, side).astype(dtype)
    net.links(net.hosts(side * side * hosts), s.repeat(hosts), rate=rate)
    for axis in (0, 1):
        net.links(s, numpy.roll(s, -1, axis), rate=rate)
    return net


def test_a_torus_by_loops_is_the_study_to_the_bit() -> None:
    net = torus_by_loops()
    assert net.description == "torus of 16x16 switches, 4 hosts a switch"
    result = net.run(traffic=FOUR_HOPS, set=STUDY, seed=1, **SHORT)
    settings = {f"run.{key}": value for key, value in SHORT.items()}
    study = via.study("torus-1024", set=settings).run(seed=1)
    assert result.digest == study.digest
    assert result.latency_us == study.latency_us
    # The names are its own: the study's first dimension is y here.
    ours, theirs = result.why(message=17), study.why(message=17)
    assert ours.document["latency_ps"] == theirs.document["latency_ps"]
    turned = re.sub(r"([sn])(\d+)-(\d+)", r"\1\3-\2", theirs.text)
    assert ours.text == turned != theirs.text


@pytest.mark.parametrize("dtype", [numpy.int32, numpy.uint32, numpy.int64, numpy.uint64])
def test_arrays_of_any_width_make_the_same(dtype: Any) -> None:
    loops, arrays = torus_by_loops(), torus_by_arrays(16, dtype=dtype)
    assert arrays.run(traffic=FOUR_HOPS, seed=1, **SHORT).digest == (
        loops.run(traffic=FOUR_HOPS, seed=1, **SHORT).digest
    )


def test_a_large_network_takes_no_tables() -> None:
    # The guide has the million; shortest paths would take 8 GiB here already.
    net = torus_by_arrays(256)
    assert (net.host_count, net.switch_count, net.link_count) == (1 << 18, 1 << 16, 3 << 17)
    assert net.description == "torus of 256x256 switches, 4 hosts a switch"
    assert net.memory_bytes < 1000
    study = net.study(FOUR_HOPS, until="1 ms")
    assert study["network.dimensions"] == "[256, 256]"
    assert len(study.to_toml()) < 20_000


def test_a_saved_network_runs_again(tmp_path: Path) -> None:
    net = torus_by_loops()
    net.link("s0-0", net.switch("lonely"), rate="1 Gbit/s", latency="3 us")
    with pytest.raises(via.ScenarioError, match=r"switch s0-0 needs 9 ports .* but has 8"):
        net.study(FOUR_HOPS, until="1 ms")
    for net in (via.Network.torus([4, 4], rate="1 Gbit/s"), torus_by_loops()):
        result = net.run(traffic=FOUR_HOPS, until="20 ms", seed=3, set={"traffic.hops": 1})
        result.save(tmp_path / net.title)
        again = subprocess.run(
            [sys.executable, "-m", "viaduct", "rerun", str(tmp_path / net.title), "--quiet"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert again.returncode == 0, again.stdout + again.stderr
        assert result.digest in again.stdout
        parsed = via.parse_study(net.study().to_toml())
        assert parsed.run().digest == result.digest


def test_a_study_of_a_network_takes_settings_and_sweeps() -> None:
    net = torus_by_arrays(4, rate="1 Gbit/s")
    traffic = via.Traffic(size="1 KiB", rate=1000, to=via.uniform())
    study = net.study(traffic, until="10 ms", seed=9, set={"hosts.prepost": 16})
    assert (study["links.rate"], study["hosts.prepost"], study["run.seed"]) == (
        "1 Gbit/s",
        "16",
        "9",
    )
    slow = study.run(set={"links.rate": "100 Mbit/s"})
    assert slow.latency_us.mean > 2 * study.run().latency_us.mean
    # What is not said again stays said.
    assert net.study()["hosts.prepost"] == "16"
    assert net.study(until="20 ms")["traffic.size"] == "1 KiB"
    # Routes by tables, not by the rule: other ways round, but as long ones.
    study = torus_by_loops().study(traffic, until="10 ms")
    assert study["network.routing"] == "rule"
    other = study.run(set={"network.routing": "shortest-path"})
    assert other.digest != study.run().digest


def test_a_preset_gives_what_a_network_leaves_out() -> None:
    net = via.Network("a switch", nic="ideal")
    net.links(net.hosts(2), net.switch(), latency="5 ns")
    traffic = via.Traffic(size="4096 B", rate="1000/s", to=via.pairs([(0, 1)]))
    assert "infiniband-edr" in via.network_models()
    study = net.study(traffic, until="1 ms", set={"links.preset": "infiniband-edr"})
    assert study["links.rate"] == "100 Gbit/s"
    assert study["switches.delay"] == "90 ns"
    assert study["links.propagation"] == study["links.host_propagation"] == "5 ns"


def test_rates_that_are_not_usual_stay_with_their_links() -> None:
    net = via.Network("two floors")
    floors = net.switches(2)
    hosts = net.hosts(6)
    net.links(hosts[:5], floors[[0, 0, 0, 1, 1]], rate="1 Gbit/s", latency="10 ns")
    net.link(hosts[5], floors[1], rate="10 Gbit/s", latency="10 ns")
    net.link("s0", "s1", rate="100 Mbit/s", latency="50 us")
    study = net.study(via.Traffic(size="1 KiB", rate=10, to=via.incast(5)), until="1 s")
    assert study["links.rate"] == "100 Mbit/s"
    assert study["links.host_rate"] == "1 Gbit/s"
    assert study["links.propagation"] == "10 ns"
    edges = via.parse_study(study.to_toml()).to_toml().split("edges")[1]
    assert edges.count("10000000000 bit/s") == 1
    assert edges.count("50000000 ps") == 1
    assert edges.count("rate") == 1


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        (via.hops(1), 16),
        (via.uniform(), 16),
        (via.transpose(), 16),
        (via.bit_reversal(), 16),
        (via.random_permutation(), 16),
        (via.neighbours(), 16),
        (via.hot_spot("n1-1-0", 0.5), 16),
        (via.incast("n1-1-0"), 16),
        (via.all_to_all(), 16),
        (via.pairs([(0, 1), ("n1-1-0", 2)]), 16),
    ],
    ids=lambda value: value.name if isinstance(value, via.Pattern) else "",
)
def test_every_pattern_runs(pattern: via.Pattern, hosts: int) -> None:
    net = via.Network.torus([4, 4], rate="1 Gbit/s")
    assert net.host_count == hosts
    traffic = via.Traffic(size="1 KiB", rate=1000, to=pattern)
    study = net.study(traffic, until="20 ms", seed=1)
    assert study["traffic.pattern"] == pattern.name
    result = study.run()
    assert result.messages.delivered == result.messages.posted > 0
    if pattern.hosts or pattern.pairs:
        with pytest.raises(TypeError, match="n1-1-0"):
            traffic.settings  # noqa: B018
        return
    again = via.parse_study(study.to_toml(), set=traffic.settings)
    assert again.run().digest == result.digest


def test_every_pattern_of_the_command_has_a_function() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "viaduct", "keys", "traffic"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    made = [via.hops(1), via.hot_spot(0, 0.1), via.incast(0), via.pairs([(0, 1)])]
    made += [
        via.uniform(),
        via.transpose(),
        via.bit_reversal(),
        via.random_permutation(),
        via.neighbours(),
        via.all_to_all(),
    ]
    line = next(line for line in shown.splitlines() if "straight-line" in line)
    listed = line[line.index("straight-line") :].split("pairs")[0] + "pairs"
    assert {pattern.name for pattern in made} == set(
        listed.replace(",", " ").replace("|", " ").split()
    )


def test_networkx_there_and_back(tmp_path: Path) -> None:
    net = via.Network("campus", parallel_links=True)
    net.switch("north side", ports=8)
    net.switch("south <&> side")
    for index in range(3):
        net.link(net.host(f"pc{index}"), "north side", rate="1 Gbit/s")
    net.link(net.host("server"), "south <&> side", rate="10 Gbit/s", latency="0.5 us")
    net.link("north side", "south <&> side", rate="100 Mbit/s", latency="50 us")
    net.link("north side", "south <&> side", rate="200 Mbit/s")
    graph = net.to_networkx()
    assert isinstance(graph, networkx.MultiGraph)
    assert graph.nodes["north side"] == {"kind": "switch", "ports": 8}
    written = json.dumps(net.to_node_link())
    for again in (
        via.Network.from_networkx(graph),
        via.Network.from_node_link(json.loads(written)),
    ):
        assert json.dumps(again.to_node_link()) == written
    net.write_node_link(tmp_path / "net.json")
    assert json.dumps(via.Network.from_node_link(tmp_path / "net.json").to_node_link()) == written
    net.write_graphml(tmp_path / "net.graphml")
    assert json.dumps(via.Network.from_graphml(tmp_path / "net.graphml").to_node_link()) == written
    read = networkx.read_graphml(tmp_path / "net.graphml", force_multigraph=True)
    assert via.Network.from_networkx(read).link_count == net.link_count
    assert read.nodes["south <&> side"] == {"kind": "switch"}
    traffic = via.Traffic(size="1 KiB", rate=100, to=via.incast("server"))
    digest = net.run(traffic=traffic, until="20 ms").digest
    assert via.Network.from_networkx(graph).run(traffic=traffic, until="20 ms").digest == digest
    (tmp_path / "net.txt").write_text("hosts a b\na x\nb x\n")
    assert via.Network.from_edge_list(tmp_path / "net.txt").description == "one switch with 2 hosts"


def test_a_directed_graph_keeps_its_directions() -> None:
    ring = networkx.cycle_graph(3, create_using=networkx.DiGraph)
    net = via.Network.from_networkx(ring, hosts_per_switch=1, rate="1 Gbit/s")
    assert net.link_count == 3 + 2 * 3
    assert net.to_networkx().is_directed()
    result = net.run(
        traffic=via.Traffic(size="64 B", rate=1000, to=via.pairs([(1, 0)])), until="20 ms"
    )
    # Round by way of 2: there is no link from 1 to 0.
    busy = pyarrow.table(result.links).to_pylist()
    # Up from host 1, down to host 0, then 1 -> 2 and 2 -> 0, the second and third between switches.
    assert [row["link"] for row in busy if row["wire_bytes"]] == [1, 3, 7, 8]


def test_grids_of_networkx_are_recognised() -> None:
    torus = networkx.grid_2d_graph(4, 5, periodic=True)
    net = via.Network.from_networkx(torus, hosts_per_switch=2, rate="1 Gbit/s")
    assert net.description == "torus of 5x4 switches, 2 hosts a switch"
    assert net.name_of(3) == "n0-1-1"
    torus.edges[(0, 0), (0, 1)]["weight"] = 2
    study = via.Network.from_networkx(torus, hosts_per_switch=2, rate="1 Gbit/s").study(
        via.Traffic(size="1 KiB", rate=10, to=via.hops(1)), until="1 s"
    )
    assert "edge weight (1 time)" in study.warnings


MIXED = """
[run]
until = "0.1 s"

[network]
topology = "switch"
hosts = 8

[links]
rate = "400 Gbit/s"

[hosts]
nic = "rnic-gen3"

[[host_group]]
hosts = "2, 5-6"
nic = "rnic-gen5"

[[host_group]]
hosts = "7"
nic = "rnic-gen4"

[traffic]
pattern = "uniform"
rate = "500/s"
size = "8 KiB"
"""
UNIFORM = via.Traffic(size="8 KiB", rate="500/s", to=via.uniform())


def star(nics: list[str | None], nic: str | None = None) -> via.Network:
    """Make hosts on one switch, each with its own hardware."""
    net = via.Network("star", nic=nic)
    switch = net.switch()
    for own in nics:
        net.link(net.host(nic=own), switch, rate="400 Gbit/s")
    return net


def test_hosts_that_differ_are_groups_of_the_study() -> None:
    fast, faster = "rnic-gen4", "rnic-gen5"
    mixed = star([None, None, faster, None, None, faster, faster, fast], "rnic-gen3")
    written = via.parse_study(MIXED).run(seed=1)
    made = mixed.run(traffic=UNIFORM, until="0.1 s", seed=1)
    assert made.digest == written.digest
    # One host at a time and many at once are the same.
    arrays = via.Network("arrays", nic="rnic-gen3")
    added = [arrays.hosts(2), arrays.hosts(1, nic=faster), arrays.hosts(2)]
    added += [arrays.hosts(2, nic=faster), arrays.hosts(1, nic=fast)]
    arrays.links(numpy.concatenate(added), arrays.switch(), rate="400 Gbit/s")
    assert arrays.run(traffic=UNIFORM, until="0.1 s", seed=1).digest == made.digest
    # Run as it is written out, too, and other than with one kind of hosts.
    text = mixed.study(UNIFORM, until="0.1 s").to_toml()
    assert re.findall(r'(?<=^hosts = ").*(?=")', text, re.MULTILINE) == ["2, 5-6", "7"]
    digests = {
        star([nic] * 8).run(traffic=UNIFORM, until="0.1 s", seed=1).digest
        for nic in ("rnic-gen3", fast, faster)
    }
    assert len(digests | {made.digest}) == 4


def test_the_first_hardware_named_is_that_of_hosts_that_name_none() -> None:
    run: Any = {"traffic": UNIFORM, "until": "0.1 s", "seed": 1}
    named_late = star([None, "rnic-gen3", None, "rnic-gen5"]).run(**run)
    named_first = star([None, None, None, "rnic-gen5"], "rnic-gen3").run(**run)
    assert named_late.digest == named_first.digest
    # `hosts.nic` is the network's: hosts with hardware of their own keep it.
    net = star([None, None, None, "rnic-gen5"], "rnic-gen4")
    assert net.run(**run, set={"hosts.nic": "rnic-gen3"}).digest == named_first.digest


def test_hosts_that_do_not_understand_each_other_are_refused() -> None:
    net = star([None, "rnic-gen4", None], "giganet-clan")
    text = error_of(lambda: net.study(UNIFORM, until="0.1 s"))
    assert "the adapters of some hosts do not understand those of others" in text
    assert 'nic = "rnic-gen4"' in text
    unknown = star([None, "rnic-gen9", None], "rnic-gen4")
    text = error_of(lambda: unknown.study(UNIFORM, until="0.1 s"))
    assert 'nic = "rnic-gen9"' in text and "rnic-gen" in text.split("help:")[1]


def error_of(call: Any) -> str:
    with pytest.raises(via.ScenarioError) as raised:
        call()
    return str(raised.value)


def test_mistakes_say_what_is_wrong_and_what_instead() -> None:
    net = via.Network("slips")
    switch, host = net.switch("s0", ports=1), net.host("n0")
    assert "there is no host 7\nhelp: there are 1" in error_of(lambda: net.link(7, switch))
    assert "there is no switch 1" in error_of(lambda: net.link(host, switch + 1))
    assert "no node is named s1" in error_of(lambda: net.link("n0", "s1"))
    assert "named n0 already" in error_of(lambda: net.host("n0"))
    assert "link from s0 to itself" in error_of(lambda: net.link(switch, switch))
    assert "had no" not in error_of(lambda: net.link(host, switch, rate="-1 Mbit/s"))
    assert 'rate = "-1 Mbit/s"' in error_of(lambda: net.link(host, switch, rate="-1 Mbit/s"))
    assert "per second" in error_of(lambda: net.link(host, switch, rate="1 Gbps")) or (
        "did you mean" in error_of(lambda: net.link(host, switch, rate="1 Gbps"))
    )
    assert "latency" in error_of(lambda: net.link(host, switch, latency="fast"))
    assert "dtype float64" in error_of(lambda: net.links(numpy.array([0.0]), switch))
    assert "2 nodes are to be linked with 3" in error_of(lambda: net.links([0, 0], [1, 1, 1]))
    assert "link 1 of the list: there is no host 5" in error_of(
        lambda: net.links([0, 5], [switch, switch])
    )
    assert "there is no host" in error_of(lambda: net.link(-1, switch))
    assert net.link_count == 0
    assert "has no ports" in error_of(lambda: net.switch(ports=0))
    assert "the host n0 has no link" in error_of(lambda: net.description)
    net.link(host, switch)
    net.link(net.host(), switch)
    assert "s0 needs 2 ports" in error_of(lambda: net.description)
    with pytest.raises(TypeError, match='nic is a text, as in "giganet-clan", not 4'):
        net.hosts(2, nic=4)  # type: ignore[arg-type]
    assert net.host_count == 2
    wired = via.Network("apart")
    wired.links(wired.hosts(2), wired.switches(2), rate="1 Gbit/s")
    traffic = via.Traffic(size="1 KiB", rate=10, to=via.uniform())
    assert "`traffic` was not said" in error_of(lambda: wired.study(until="1 s"))
    assert "cannot exchange messages" in error_of(lambda: wired.study(traffic, until="1 s"))
    wired.link("s0", "s1")
    assert "the links between switches have no rate" in error_of(lambda: wired.study())
    assert "s0 is a switch" in error_of(
        lambda: wired.study(via.Traffic(size="1 KiB", rate=10, to=via.incast("s0")))
    )
    tree = via.Network.fat_tree(2, 2, rate="1 Gbit/s")
    hops = via.Traffic(size="1 KiB", rate=10, to=via.hops(1))
    assert "the pattern does not fit" in error_of(lambda: tree.study(hops, until="1 s"))
    slip = via.Traffic(size="1 KiBit", rate=10, to=via.uniform())
    text = error_of(lambda: tree.study(slip, until="1 s"))
    assert 'size = "1 KiBit"' in text
    with pytest.raises(TypeError, match=r"traffic has no key 'sise'; its keys are .* size"):
        tree.study(via.Traffic(sise="1 KiB", rate=1, to=via.uniform()))
    with pytest.raises(TypeError, match="to is a pattern"):
        via.Traffic(to="uniform")  # type: ignore[arg-type]
    graph = networkx.path_graph(2)
    assert "the node 0 has no kind" in error_of(lambda: via.Network.from_networkx(graph))
    data = {"nodes": [{"id": "a", "kind": "router"}], "edges": []}
    text = error_of(lambda: via.Network.from_node_link(data))
    assert "neither host nor switch" in text and "node-link data:1:" in text


def test_without_numpy_ranges_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def no_numpy(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", no_numpy)
    net = via.Network("a star")
    hub = net.switch()
    hosts = net.hosts(5)
    assert hosts == range(5)
    assert net.switches(2) == range(2**30 + 1, 2**30 + 3)
    net.links(hosts, hub, rate="1 Gbit/s")
    assert net.link_count == 5


def test_links_without_a_rate_are_refused_in_words_of_python() -> None:
    traffic = via.Traffic(size="1 KiB", rate=100, to=via.uniform())
    with pytest.raises(via.ScenarioError, match="the links have no rate\nhelp: give rate="):
        via.Network.single_switch(3).study(traffic, until="1 ms")
    net = via.Network.torus([3, 3])
    with pytest.raises(via.ScenarioError, match="the links between switches have no rate") as said:
        net.study(traffic, until="1 ms")
    preset = {"links.preset": "infiniband-edr"}
    assert f"set={preset}".replace("'", '"') in str(said.value)
    assert net.study(traffic, until="1 ms", set=preset)["links.preset"] == "infiniband-edr"
    assert net.study(traffic, until="1 ms", set={"links.rate": "1 Gbit/s"})["links.rate"]


if __name__ == "__main__":
    # What a million hosts cost, for the guide.
    begun = time.perf_counter()
    million = torus_by_arrays(512)
    built = time.perf_counter()
    million.study(FOUR_HOPS, until="1 ms")
    studied = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"built {built - begun:.2f} s, study {studied - built:.2f} s, peak {peak} KiB")
