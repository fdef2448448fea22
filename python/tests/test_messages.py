"""Traffic given message by message."""

import array
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
import viaduct as via


def switch(hosts: int = 4) -> via.Network:
    return via.Network.single_switch(hosts, rate="1 Gbit/s")


def rows(result: via.Result) -> list[tuple[float, int, int, int]]:
    table = pyarrow.table(result.table("messages")).sort_by("message").to_pydict()
    columns = (table[name] for name in ("posted_us", "source_host", "target_host", "size_bytes"))
    return list(zip(*columns, strict=True))


LISTED: Any = {"source": [2, 0, 0], "target": [1, 3, 1], "bytes": [5, 6, 7]}


def test_messages_are_posted_at_their_times_in_the_order_given() -> None:
    result = switch().run(traffic=via.Messages(time_us=[1.5, 3, 3], **LISTED), until="1 ms")
    assert rows(result) == [(1.5, 2, 1, 5), (3, 0, 3, 6), (3, 0, 1, 7)]


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ({"time_ns": numpy.array([1500, 3000, 3000], "u4")}, numpy.array),
        ({"time_us": numpy.array([1.5, 3, 3], "f4")}, numpy.array),
        ({"time_ms": (0.0015, 0.003, 0.003)}, tuple),
        ({"time_s": [1.5e-6, 3e-6, 3e-6]}, lambda numbers: array.array("H", numbers)),
    ],
)
def test_any_unit_and_kind_of_array_is_taken(times: Any, kind: Any) -> None:
    listed = {key: kind(numbers) for key, numbers in LISTED.items()}
    result = switch().run(traffic=via.Messages(**times, **listed), until="1 ms")
    same = switch().run(traffic=via.Messages(time_us=[1.5, 3, 3], **LISTED), until="1 ms")
    assert result.digest == same.digest


def test_what_a_rate_posted_runs_again_from_arrays_and_from_a_file(tmp_path: Path) -> None:
    net = via.Network.torus([4, 4], hosts_per_switch=2, rate="856 Mbit/s")
    drawn = via.Traffic(size="4 KiB", rate=2000, to=via.uniform())
    by_rate = net.run(traffic=drawn, until="20 ms")
    table = pyarrow.table(by_rate.table("messages")).to_pandas()
    messages = via.Messages(
        time_us=table["posted_us"].to_numpy(),
        source=table["source_host"].to_numpy(),
        target=table["target_host"].to_numpy(),
        bytes=table["size_bytes"].to_numpy(),
    )
    assert len(messages) == by_rate.messages.posted > 500
    study = net.study(messages, until="20 ms")
    assert study.run().digest == by_rate.digest
    assert via.parse_study(study.to_toml()).run().digest == by_rate.digest
    messages.write(tmp_path / "messages.csv")
    file = str(tmp_path / "messages.csv")
    traffic = {"traffic.arrivals": "list", "traffic.file": file}
    assert net.run(traffic=drawn, set=traffic, until="20 ms").digest == by_rate.digest


def test_a_million_messages_take_seconds() -> None:
    count = 1_000_000
    random = numpy.random.default_rng(1)
    source = random.integers(0, 1000, count)
    started = time.perf_counter()
    messages = via.Messages(
        time_us=random.uniform(0, 1e6, count),
        source=source,
        target=(source + random.integers(1, 1000, count)) % 1000,
        bytes=64,
    )
    study = switch(1000).study(messages, until="1 s", set={"hosts.prepost": 1})
    assert study["traffic.arrivals"] == "list"
    assert time.perf_counter() - started < 20


def test_processes_of_a_host_have_numbers_of_their_own() -> None:
    messages = via.Messages(time_us=[0, 0], source=[7, 0], target=[0, 6], bytes=1)
    result = switch().run(traffic=messages, until="1 ms", set={"hosts.processes": 2})
    assert sorted(rows(result)) == [(0, 0, 3, 1), (0, 3, 0, 1)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bytes": [1, 2]}, "3 times, 3 sources, 3 targets, 2 sizes"),
        ({"bytes": [1, -2, 3]}, "bytes[1] = -2; it must lie within 0 to"),
        ({"time_us": [0, float("nan"), 1]}, "time[1] = NaN; it must lie within 0 to"),
        ({"source": ["a", "b", "c"]}, "sources and targets are whole numbers, not"),
        ({"source": [0.5, 1, 2]}, "sources and targets are whole numbers, not"),
        ({"target": [1, 4, 1]}, "message 2 (counted from 1): target 4 does not exist"),
        ({"target": [1, 0, 1]}, "message 2 (counted from 1): 0 sends to itself"),
        ({"time_us": [1e3, 1e3, 1e3]}, "no message of the list would be posted"),
    ],
)
def test_what_is_wrong_is_said(change: Any, said: str) -> None:
    with pytest.raises(via.ScenarioError) as error:
        switch().run(
            traffic=via.Messages(**{"time_us": [0, 1, 2], **LISTED, **change}), until="1 ms"
        )
    assert said in str(error.value)


def test_each_message_may_be_of_another_operation() -> None:
    kinds = ["read", "write", "send"]
    listed = via.Messages(
        time_us=[1, 2, 3], operation=kinds, reliability="reliable-delivery", **LISTED
    )
    result = switch().run(traffic=listed, until="1 ms")
    assert result.messages.delivered == 3
    assert "time_us,source,target,bytes,operation" in listed._native.csv()
    with pytest.raises(via.ScenarioError, match="no remote reads at unreliable delivery"):
        reads = via.Messages(time_us=[1, 2, 3], operation="read", **LISTED)
        switch().run(traffic=reads, until="1 ms")
    with pytest.raises(via.ScenarioError, match="`reed` is no operation"):
        via.Messages(time_us=[1, 2, 3], operation="reed", **LISTED)
    with pytest.raises(via.ScenarioError, match="3 times, 2 operations"):
        via.Messages(time_us=[1, 2, 3], operation=["read", "send"], **LISTED)


def test_one_unit_of_time_is_given() -> None:
    with pytest.raises(TypeError, match="not none"):
        via.Messages(**LISTED)
    with pytest.raises(TypeError, match="not time_us, time_s"):
        via.Messages(time_us=[0], time_s=[0], **LISTED)
    with pytest.raises(TypeError, match="not \\['rate'\\]"):
        via.Messages(time_us=[0, 0, 0], rate=3, **LISTED)


def test_schedules_have_each_step_of_the_operation() -> None:
    ring = via.schedules.ring_all_reduce(4, 1001, step_us=100, start_us=5)
    posted = rows(switch().run(traffic=ring, until="10 ms"))
    assert sorted(posted) == [
        (5 + 100 * step, host, (host + 1) % 4, 251) for step in range(6) for host in range(4)
    ]
    exchange = via.schedules.all_to_all(4, 64, step_us=10)
    posted = rows(switch().run(traffic=exchange, until="10 ms"))
    assert sorted(posted) == [
        (10 * (k - 1), host, (host + k) % 4, 64) for k in (1, 2, 3) for host in range(4)
    ]
    with pytest.raises(ValueError, match="hosts = 1"):
        via.schedules.all_to_all(1, 64)


def test_a_list_that_asks_too_much_is_warned_of() -> None:
    every = numpy.arange(40)
    listed: Any = {"source": 2 * (every % 2), "target": every * 0 + 1, "bytes": 5000}
    heavy = switch().study(via.Messages(time_us=20 * every, **listed), until="5 ms")
    assert "the list gives link s0 -> n0-1 more than it can do" in heavy.warnings
    light = switch().study(via.Messages(time_us=45 * every, **listed), until="5 ms")
    assert light.warnings == ""
