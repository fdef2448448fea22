"""Programs on hosts of several adapters."""

from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import pytest
import viaduct as via

Yields = Generator[via.Operation | None, Any, Any]

STUDY = """
[run]
until = "1 s"
[network]
topology = "rail"
rails = 3
servers = 2
servers_per_unit = 2
spines = 1
[links]
rate = "400 Gbit/s"
propagation = "10 ns"
[switches]
delay = "100 ns"
[hosts]
nic = "rnic-gen5"
adapters = 3
buses = "own"
[traffic]
pattern = "uniform"
size = "8 B"
rate = "1/s"
"""


@pytest.fixture
def rails(tmp_path: Path) -> str:
    path = tmp_path / "rails.toml"
    path.write_text(STUDY)
    return f"sim:rnic-gen5@{path}"


def run(on: str, wait: Literal["block", "poll"] = "block", **programs: Any) -> dict[str, Any]:
    return via.cluster(on, programs, wait=wait, traffic=False).run().returned


@pytest.mark.parametrize("wait", ["block", "poll"])
def test_a_message_takes_as_long_by_each_adapter(
    rails: str, wait: Literal["block", "poll"]
) -> None:
    def took(adapter: int) -> tuple[float, float]:
        def sends(host: via.Host) -> Yields:
            own = host.at_adapter(adapter)
            vi, pair, region = own.vi(), own.queue_pair(), own.region(4096)
            buffer = own.buffer(4096)
            yield vi.connect("takes")
            yield pair.connect("takes", port="pair")
            yield host.sleep("1 ms")
            began_us = host.now_us
            vi.post_send(buffer, 4096)
            yield vi.send_done()
            by_vi_us = host.now_us - began_us
            pair.post_send(region, 4096)
            yield pair.send_done()
            return by_vi_us, host.now_us - began_us

        def takes(host: via.Host) -> Yields:
            own = host.at_adapter(adapter)
            vi, pair, region = own.vi(), own.queue_pair(), own.region(4096)
            vi.post_receive(own.buffer(4096))
            pair.post_receive(region, 4096)
            yield vi.accept()
            yield pair.accept(port="pair")
            yield vi.receive_done()
            yield pair.receive_done()

        returned: tuple[float, float] = run(rails, wait, sends=sends, takes=takes)["sends"]
        return returned

    assert took(1) == took(0)
    assert took(2) == took(0)


def test_two_adapters_send_at_the_same_time(rails: str) -> None:
    size = 1 << 20

    def took_us(adapters: list[int]) -> float:
        def sends(host: via.Host) -> Yields:
            ends = [host.at_adapter(adapter) for adapter in adapters]
            pairs = [end.queue_pair() for end in ends]
            regions = [end.region(size) for end in ends]
            for number, pair in enumerate(pairs):
                yield pair.connect("takes", port=str(number))
            yield host.sleep("1 ms")
            began_us = host.now_us
            for pair, region in zip(pairs, regions, strict=True):
                pair.post_send(region, size)
            yield host.all(*[pair.send_done() for pair in pairs])
            return host.now_us - began_us

        def takes(host: via.Host) -> Yields:
            pairs = []
            for number, adapter in enumerate(adapters):
                end = host.at_adapter(adapter)
                pair = end.queue_pair()
                pair.post_receive(end.region(size), size)
                yield pair.accept(port=str(number))
                pairs.append(pair)
            yield host.all(*[pair.receive_done() for pair in pairs])

        returned: float = run(rails, sends=sends, takes=takes)["sends"]
        return returned

    alone_us = took_us([1])
    assert took_us([1, 1]) > 1.8 * alone_us
    # The one processor is woken for both.
    assert took_us([1, 2]) < 1.25 * alone_us


def test_what_is_of_one_adapter_is_not_of_another(rails: str) -> None:
    def program(host: via.Host) -> Yields:
        second = host.at_adapter(1)
        assert (host.adapters, host.adapter, second.adapters, second.adapter) == (3, 0, 3, 1)
        assert (second.name, second.number, second.names) == (host.name, host.number, host.names)
        assert repr(second) == "<viaduct host a, adapter 1>"
        vi, pair = second.vi(), second.queue_pair()
        with pytest.raises(ValueError, match="another host or adapter"):
            vi.post_receive(host.buffer(64))
        with pytest.raises(ValueError, match="another host or adapter"):
            pair.post_receive(host.region(64), 64)
        with pytest.raises(via.FabricError):
            second.vi(receive_completions=host.completion_queue(8))
        with pytest.raises(ValueError, match="another host or adapter"):
            second.queue_pair(shared_receive_queue=host.shared_receive_queue())
        # Each view of an adapter is the same one.
        vi.post_receive(second.at_adapter(2).at_adapter(1).buffer(64))
        with pytest.raises(ValueError, match="a has no adapter 3: there are 3, numbers 0 to 2"):
            second.at_adapter(3)
        yield None

    run(rails, a=program)


def test_a_host_of_one_adapter_says_so() -> None:
    def program(host: via.Host) -> Yields:
        assert (host.adapters, host.adapter) == (1, 0)
        assert repr(host.at_adapter(0)) == repr(host)
        with pytest.raises(ValueError, match="has no adapter 1: there is one, number 0"):
            host.at_adapter(1)
        yield None

    for on in ["sim:clan-pio", "shm"]:
        via.cluster(on, {"a": program}).run()
