"""Programs as generators, on simulated hosts and between processes."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator
from typing import Any

import pytest
import viaduct as via

Yields = Generator[via.Operation | None, Any, Any]
BOTH = pytest.mark.parametrize("on", ["sim:clan-pio", "sim:rnic-gen4", "shm"])


def pinger(host: via.Host, rounds: int = 10, to: str = "ponger") -> Yields:
    vi = host.vi()
    buffer, answer = host.buffers(2, 64)
    vi.post_receive(answer)
    yield vi.connect(to)
    began_us = host.now_us
    for number in range(rounds):
        buffer[0] = number
        vi.post_send(buffer, 1, immediate=number)
        done = yield vi.receive_done()
        assert (bytes(done.data), done.immediate) == (bytes([number ^ 255]), None)
        vi.post_receive(done.buffer)
        yield vi.send_done()
    return (host.now_us - began_us) / rounds / 2


def ponger(host: via.Host, rounds: int = 10) -> Yields:
    vi = host.vi()
    # One for the next question, while the buffer of the last one carries its answer.
    for buffer in host.buffers(2, 64):
        vi.post_receive(buffer)
    yield vi.accept()
    for number in range(rounds):
        done = yield vi.receive_done()
        assert done.immediate == number
        done.buffer[0] ^= 255
        vi.post_send(done.buffer, done.length)
        yield None
        sent = yield vi.send_done()
        vi.post_receive(sent.buffer)
    # The other one leaves first.
    with pytest.raises(via.FlushedError):
        yield vi.receive_done()
    return "left"


PAIR = {"pinger": pinger, "ponger": ponger}


@BOTH
def test_the_same_programs_run_on_every_fabric(on: str) -> None:
    result = via.cluster(on, PAIR).run()
    assert result.returned["ponger"] == "left"
    assert result.returned["pinger"] > 0
    assert 0 < result.ended_us["pinger"] <= result.end_us
    if on != "shm":
        assert result.counts["messages"] == 20


def test_a_simulated_run_is_the_same_each_time_to_the_bit() -> None:
    def talker(host: via.Host) -> Yields:
        other = host.names[1 - host.rank]
        vi = host.vi()
        vi.post_receive(host.buffer(4096))
        yield vi.connect(other) if host.rank == 0 else vi.accept()
        vi.post_send(host.buffer(4096))
        yield host.all(vi.send_done(), vi.receive_done())
        yield host.sleep("1 ms")
        return host.now_us

    results = [
        via.cluster("sim:rnic-gen4@torus-1024", {0: talker, 513: talker}).run(seed=3)
        for _ in range(2)
    ]
    assert results[0] == results[1]
    assert list(results[0].returned) == ["host0", "host513"]


@BOTH
def test_a_peer_writes_into_a_window_and_tells(on: str) -> None:
    def target(host: via.Host) -> Yields:
        vi = host.vi(rdma_write=True)
        window = host.window(1000)
        vi.post_receive(host.buffer(0))
        yield vi.accept()
        token = host.buffer(16)
        token[:] = window.remote()
        vi.post_send(token)
        done = yield vi.receive_done()
        assert (done.is_remote_write, done.immediate, done.length) == (True, 7, 5)
        return bytes(window[100:106])

    def initiator(host: via.Host) -> Yields:
        vi = host.vi(rdma_write=True)
        vi.post_receive(host.buffer(16))
        yield vi.connect("target")
        remote = (yield vi.receive_done()).data
        data = host.buffer(64)
        data[:5] = b"hello"
        with pytest.raises(via.FabricError, match="not inside a remote buffer of 1000 bytes"):
            vi.post_write(data, remote, offset=990)
        assert not data.is_posted
        vi.post_write(data, remote, 5, offset=100, immediate=7)
        yield vi.send_done()

    programs = {"initiator": initiator, "target": target}
    assert via.cluster(on, programs).run().returned["target"] == b"hello\0"


@BOTH
def test_a_queue_tells_of_many_vis(on: str) -> None:
    clients = 3

    def server(host: via.Host) -> Yields:
        queue = host.completion_queue(64)
        vis = []
        for client in range(clients):
            vi = host.vi(receive_completions=queue)
            vi.post_receive(host.buffer(8))
            vis.append((yield vi.accept(port=f"for {client}")))
        seen = []
        for _ in range(clients):
            vi, kind = yield queue.done()
            assert kind == "receive"
            done = yield vi.receive_done()
            seen.append((vis.index(vi), bytes(done.data)))
        with pytest.raises(TimeoutError, match="passed without an entry"):
            yield queue.done(timeout="1 ms")
        return sorted(seen)

    def client(host: via.Host) -> Yields:
        vi = yield host.connect("host0", port=f"for {host.rank - 1}")
        buffer = host.buffer(1)
        buffer[0] = host.rank
        vi.post_send(buffer)

    result = via.cluster(on, [server, *[client] * clients]).run()
    assert result.returned["host0"] == [(0, b"\1"), (1, b"\2"), (2, b"\3")]


@BOTH
def test_a_ring_connects_both_ways_at_once(on: str) -> None:
    def member(host: via.Host) -> Yields:
        after, before = host.vi(), host.vi()
        before.post_receive(host.buffer(8))
        following = host.names[(host.rank + 1) % len(host.names)]
        yield host.all(before.accept(), after.connect(following))
        buffer = host.buffer(8)
        buffer[0] = host.rank
        after.post_send(buffer)
        (done, _) = yield host.all(before.receive_done(), after.send_done())
        return done.buffer[0]

    result = via.cluster(on, [member] * 4).run()
    assert list(result.returned.values()) == [3, 0, 1, 2]


def test_computing_and_sleeping_take_the_time_that_is_said() -> None:
    def program(host: via.Host) -> Yields:
        times = [host.now_us]
        yield host.compute("3 us")
        times.append(host.now_us)
        host.compute(2e-6)
        times.append(host.now_us)
        yield host.sleep("10 us")
        times.append(host.now_us)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    result = via.cluster("sim:clan-pio", [program]).run()
    assert result.returned["host0"] == pytest.approx([3, 2, 10], abs=0.02)


@BOTH
def test_what_a_program_raises_is_raised_with_its_host(on: str) -> None:
    def wrong(host: via.Host) -> Yields:
        yield host.sleep("1 us")
        raise KeyError("no such thing")

    def waits(host: via.Host) -> Yields:
        yield host.accept()

    with pytest.raises(KeyError) as raised:
        via.cluster(on, {"bad": wrong, "good": waits}).run()
    text = "".join(traceback.format_exception(raised.value))
    assert "in the program of host bad, at " in text
    assert 'raise KeyError("no such thing")' in text


def test_programs_that_wait_for_each_other_are_named() -> None:
    def program(host: via.Host) -> Yields:
        vi = host.vi()
        vi.post_receive(host.buffer(8))
        yield vi.connect("right") if host.rank == 0 else vi.accept()
        yield vi.receive_done()

    with pytest.raises(via.DeadlockError) as raised:
        via.cluster("sim:clan-pio", {"left": program, "right": program}).run()
    text = str(raised.value)
    assert "left waits for a receive on its VI to right since " in text
    assert "right waits for a receive on its VI from left since " in text

    with pytest.raises(via.DeadlockError, match=r"\w+ waits for a receive on its VI"):
        via.cluster("shm", {"left": program, "right": program}).run(timeout="300 ms")


def test_a_wait_can_be_limited_and_the_program_goes_on() -> None:
    def program(host: via.Host) -> Yields:
        with pytest.raises(via.TimeLimitError) as raised:
            yield host.accept(timeout="20 us")
        assert raised.value.code == "Timeout"
        with pytest.raises(via.FabricError, match="accepts no connection") as refused:
            yield host.connect("host1", timeout="1 ms")
        assert refused.value.code == "NoMatch"
        with pytest.raises(via.FabricError, match="no descriptor is posted"):
            yield host.vi().receive_done()
        return host.now_us

    def idle(host: via.Host) -> Yields:
        yield host.sleep("10 ms")

    when_us = via.cluster("sim:clan-pio", [program, idle]).run().returned["host0"]
    assert 1000 < when_us < 2000


def test_a_posted_buffer_is_the_fabrics() -> None:
    kept: list[Any] = []

    def program(host: via.Host) -> Yields:
        vi = host.vi()
        buffer = host.buffer(16)
        view = memoryview(buffer)
        vi.post_receive(buffer)
        assert buffer.is_posted
        with pytest.raises(BufferError, match="the buffer is posted"):
            memoryview(buffer)
        with pytest.raises(BufferError, match="cannot be posted again"):
            vi.post_receive(buffer)
        # An older view is harmless, whatever becomes of the buffer.
        kept.extend([vi, view])
        yield None

    via.cluster("sim:clan-pio", [program]).run()
    vi, view = kept
    view[:5] = b"hello"
    assert bytes(view[:6]) == b"hello\0"
    with pytest.raises(via.FabricError, match="while it runs"):
        vi.post_receive(view.obj)
    kept.clear()
    del vi
    assert view[0] == ord("h")


def test_what_is_wrong_is_said_where_it_is() -> None:
    def yields_a_function(host: via.Host) -> Yields:
        yield host.accept  # type: ignore[misc]

    with pytest.raises(TypeError, match="is it to be called"):
        via.cluster("sim:clan-pio", [yields_a_function]).run()

    def long(host: via.Host) -> Yields:
        yield host.accept(port="a name that is too long")

    with pytest.raises(ValueError, match="at most 16 bytes, not 23"):
        via.cluster("sim:clan-pio", [long]).run()

    def unknown(host: via.Host) -> Yields:
        yield host.connect("nobody")

    with pytest.raises(ValueError, match='no program runs on a host called "nobody"'):
        via.cluster("sim:clan-pio", [unknown]).run()

    def twice(host: via.Host) -> Yields:
        nap = host.sleep("1 us")
        yield nap
        yield nap

    with pytest.raises(RuntimeError, match="was yielded before"):
        via.cluster("sim:clan-pio", [twice]).run()

    def forgets(host: via.Host) -> Yields:
        host.sleep("1 us")
        yield None

    with pytest.warns(RuntimeWarning, match="never waited for: the end of a sleep of 1 us"):
        via.cluster("sim:clan-pio", [forgets]).run()

    with pytest.raises(ValueError, match="ms"):
        via.cluster("shm", [forgets]).run(timeout="10")
    with pytest.raises(via.ScenarioError, match="clan"):
        via.cluster("sim:clan-pi", [forgets]).run()
    with pytest.raises(ValueError, match="no fabric 'ethernet'"):
        via.cluster("ethernet", [forgets])
    with pytest.raises(ValueError, match="the network has hosts 0 to "):
        via.cluster("sim:clan-pio@four-hop", {9999: forgets}).run()


def test_a_process_that_dies_is_named() -> None:
    def dies(host: via.Host) -> Yields:
        os.kill(os.getpid(), signal.SIGKILL)
        yield None

    with pytest.raises(
        via.ProgramError, match="process of dies ended without a word, with code -9"
    ):
        via.cluster("shm", {"dies": dies}).run()


def test_a_value_that_cannot_be_passed_on_is_named() -> None:
    def returns_a_function(host: via.Host) -> Yields:
        yield None
        return lambda: None

    with pytest.raises(via.ProgramError, match="host0 returned"):
        via.cluster("shm", [returns_a_function]).run()


def test_ctrl_c_ends_a_simulation() -> None:
    def busy(host: via.Host) -> Yields:
        while True:
            yield host.sleep("1 us")

    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        via.cluster("sim:clan-pio", [busy]).run()
    assert time.monotonic() - began < 10


@BOTH
def test_a_program_knows_who_came(on: str) -> None:
    def server(host: via.Host) -> Yields:
        vis = []
        for _ in range(2):
            vi = host.vi()
            vi.post_receive(host.buffer(8))
            assert vi.peer is None
            vis.append((yield vi.accept()))
        heard = {}
        for vi in vis:
            name = vi.peer
            assert f"from {name}" in repr(vi)
            heard[name] = bytes((yield vi.receive_done()).data)
            # Who has left is known still.
            with pytest.raises(via.FlushedError):
                vi.post_receive(host.buffer(8))
                yield vi.receive_done()
            assert vi.peer == name
            vi.disconnect()
            assert vi.peer is None
        return heard

    def client(host: via.Host) -> Yields:
        vi = yield host.connect("server")
        assert vi.peer == "server" and "to server" in repr(vi)
        buffer = host.buffer(8)
        buffer[: len(host.name)] = host.name.encode()
        vi.post_send(buffer, len(host.name))
        yield vi.send_done()

    programs = {"server": server, "ann": client, "bob": client}
    assert via.cluster(on, programs).run().returned["server"] == {"ann": b"ann", "bob": b"bob"}


def queued_ponger(host: via.Host, rounds: int = 10) -> Yields:
    queue = host.completion_queue(64)
    vi = host.vi(send_completions=queue, receive_completions=queue)
    for buffer in host.buffers(2, 64):
        vi.post_receive(buffer)
    yield vi.accept()
    for number in range(rounds):
        while (yield queue.done())[1] == "send":
            vi.post_receive((yield vi.send_done()).buffer)
        done = yield vi.receive_done(timeout="1 s")
        assert done.immediate == number
        done.buffer[0] ^= 255
        vi.post_send(done.buffer, done.length)
    yield queue.done()
    yield vi.send_done()


@BOTH
@pytest.mark.parametrize("second", [ponger, queued_ponger])
def test_programs_that_poll_do_what_others_do(on: str, second: Any) -> None:
    cluster = via.cluster(on, {"pinger": pinger, "ponger": second}, wait="poll")
    polled = cluster.run()
    assert polled.returned["pinger"] > 0
    if on != "shm":
        slept = via.cluster(on, {"pinger": pinger, "ponger": second}).run()
        assert polled.returned["pinger"] < slept.returned["pinger"]
        assert polled.counts["messages"] == slept.counts["messages"]
        assert polled.counts["wake_ups"] < slept.counts["wake_ups"]


def test_polling_costs_what_the_command_measures() -> None:
    command = [sys.executable, "-m", "viaduct", "measure", "latency", "--on", "sim:clan-pio"]
    words = [*command, "--sizes", "64", "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    rows = json.loads(ran.stdout)["rows"]
    ours = via.cluster("sim:clan-pio", {"pinger": whole, "ponger": echo}, wait="poll").run()
    assert ours.returned["pinger"] == pytest.approx(rows[0]["half_rtt_us"]["median"], rel=0.08)


def whole(host: via.Host) -> Yields:
    """Measures nearly as the command does, which posts its receives while nobody waits."""
    vi = host.vi()
    send, *receives = host.buffers(3, 64)
    for buffer in receives:
        vi.post_receive(buffer)
    yield vi.connect("ponger")
    for number in range(120):
        if number == 20:
            began_us = host.now_us
        vi.post_send(send)
        done = yield vi.receive_done()
        vi.post_receive(done.buffer)
        yield vi.send_done()
    return (host.now_us - began_us) / 100 / 2


def echo(host: via.Host) -> Yields:
    vi = host.vi()
    send, *receives = host.buffers(3, 64)
    for buffer in receives:
        vi.post_receive(buffer)
    yield vi.accept()
    for _ in range(120):
        done = yield vi.receive_done()
        vi.post_send(send)
        vi.post_receive(done.buffer)
        yield vi.send_done()


@pytest.mark.parametrize("on", ["sim:clan-pio", "shm"])
def test_polling_ends_by_its_limit_and_knows_a_deadlock(on: str) -> None:
    def late(host: via.Host) -> Yields:
        vi = yield host.connect("silent")
        vi.post_receive(host.buffer(8))
        with pytest.raises(via.TimeLimitError, match="2 ms passed without a receive"):
            yield vi.receive_done(timeout="2 ms")
        first, second = vi.receive_done(timeout="1 ms"), host.sleep("100 us")
        with pytest.raises(via.TimeLimitError):
            yield host.all(first, second)

    def silent(host: via.Host) -> Yields:
        vi = yield host.accept()
        vi.post_receive(host.buffer(8))
        with pytest.raises(via.FlushedError):
            yield vi.receive_done()

    via.cluster(on, {"late": late, "silent": silent}, wait="poll").run()
    if on != "shm":
        with pytest.raises(via.DeadlockError, match="silent waits for a receive on its VI from"):
            via.cluster(on, {"late": stays, "silent": silent}, wait="poll").run()
    with pytest.raises(ValueError, match='wait is "block" or "poll", not'):
        via.cluster(on, {"late": late}, wait="spin")  # type: ignore[arg-type]


def stays(host: via.Host) -> Yields:
    vi = yield host.connect("silent")
    vi.post_receive(host.buffer(8))
    yield vi.receive_done()
