"""Queue pairs of verbs, on simulated hosts and between processes."""

from collections.abc import Generator
from typing import Any, Literal

import pytest
import viaduct as via

Yields = Generator[via.Operation | None, Any, Any]
EVERYWHERE = pytest.mark.parametrize("on", ["sim:rnic-gen5", "shm"])
WAITS = pytest.mark.parametrize("wait", ["block", "poll"])


def run(
    asks: Any, owns: Any, on: str = "sim:rnic-gen5", wait: Literal["block", "poll"] = "block"
) -> dict[str, Any]:
    programs = {"asks": asks, "owns": owns}
    return via.cluster(on, programs, wait=wait).run(seed=1).returned


@EVERYWHERE
@WAITS
@pytest.mark.parametrize("kind", ["rc", "uc"])
def test_sends_come_with_their_bytes_and_numbers(
    wait: Literal["block", "poll"], kind: str, on: str
) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(kind=kind, inline_bytes=16), host.region(64)
        told = yield pair.connect("owns", private_data=b"from asks")
        assert (told, pair.peer, pair.state) == (b"from owns", "owns", "RTS")
        region[:16] = bytes(range(16))
        numbers = [
            pair.post_send(region, 4),
            pair.post_send(region, 8, offset=2, immediate=7),
            pair.post_send(region, 16, inline=True),
        ]
        done = []
        for _ in numbers:
            done.append((yield pair.send_done()))
        assert [each.request for each in done] == numbers == [0, 1, 2]
        assert [(each.opcode, each.length) for each in done] == [
            ("send", 4),
            ("send", 8),
            ("send", 16),
        ]
        assert done[0].region is region
        return repr(done[1])

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(kind=kind), host.region(96)
        assert pair.state == "INIT"
        for place in range(3):
            pair.post_receive(region, 32, offset=32 * place)
        told = yield pair.accept(private_data=b"from owns")
        assert (told, pair.peer) == (b"from asks", "asks")
        done = []
        for _ in range(3):
            done.append((yield pair.receive_done()))
        assert bytes(region[32:40]) == bytes(range(2, 10))
        return [(each.opcode, each.length, each.immediate) for each in done]

    assert run(asks, owns, on, wait) == {
        "asks": "<viaduct work completion: request 1, send, 8 bytes>",
        "owns": [("receive", 4, None), ("receive", 8, 7), ("receive", 16, None)],
    }


@EVERYWHERE
@WAITS
def test_writes_reads_and_atomics_reach_a_region(wait: Literal["block", "poll"], on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(64)
        target = yield pair.connect("owns")
        region[:8] = b"abcdefgh"
        pair.post_write(region, target, 4, offset=2, target_offset=8)
        pair.post_read(region, target, 8, offset=16, source_offset=8)
        pair.post_fetch_add(region, target, 2**64 - 1, offset=24)
        pair.post_compare_swap(region, target, 41, 99, offset=32)
        opcodes = []
        for _ in range(4):
            opcodes.append((yield pair.send_done()).opcode)
        assert opcodes == ["write", "read", "fetch and add", "compare and swap"]
        pair.post_write(region, target, 0, immediate=1)
        yield pair.send_done()
        words = [int.from_bytes(region[at : at + 8], "little") for at in (24, 32)]
        return bytes(region[16:24]), words

    def owns(host: via.Host) -> Yields:
        region = host.region(16, remote_write=True, remote_read=True, remote_atomic=True)
        region[:8] = (42).to_bytes(8, "little")
        pair = host.queue_pair()
        pair.post_receive(region, 0)
        yield pair.accept(private_data=region.remote())
        done = yield pair.receive_done()
        return done.opcode, done.immediate, int.from_bytes(region[:8], "little"), bytes(region[8:])

    assert run(asks, owns, on, wait) == {
        "asks": (b"cdef\0\0\0\0", [42, 41]),
        "owns": ("receive of a write", 1, 99, b"cdef\0\0\0\0"),
    }


@EVERYWHERE
def test_what_a_region_does_not_let_is_refused_and_flushes_the_rest(on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(64)
        target = yield pair.connect("owns")
        pair.post_read(region, target, 8)
        pair.post_send(region, 8)
        with pytest.raises(via.DescriptorError, match="request 0: remote access error") as refused:
            yield pair.send_done()
        with pytest.raises(via.FlushedError, match="request 1: work request flushed"):
            yield pair.send_done()
        return refused.value.status, pair.state

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(64, remote_write=True)
        yield pair.accept(private_data=region.remote())
        yield host.sleep("200 ms")

    assert run(asks, owns, on)["asks"] == (10, "ERR")


@EVERYWHERE
def test_a_peer_without_a_receive_fails_the_send(on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(rnr_retry=2), host.region(8)
        yield pair.connect("owns")
        pair.post_send(region)
        with pytest.raises(via.DescriptorError, match="receiver-not-ready retry counter exceeded"):
            yield pair.send_done()
        return pair.state

    def owns(host: via.Host) -> Yields:
        pair = host.queue_pair()
        yield pair.accept()
        yield host.sleep("200 ms")

    assert run(asks, owns, on)["asks"] == "ERR"


@EVERYWHERE
def test_a_program_that_ends_sends_what_it_posted(on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(1 << 20)
        yield pair.connect("owns")
        region[-1] = 7
        pair.post_send(region)

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(1 << 20)
        pair.post_receive(region)
        yield pair.accept()
        done = yield pair.receive_done()
        return done.length, region[-1]

    assert run(asks, owns, on)["owns"] == (1 << 20, 7)


@EVERYWHERE
def test_a_peer_that_has_left_is_told_of(on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(ack_timeout=1, retry_count=1), host.region(8)
        yield pair.connect("owns")
        yield host.sleep("200 ms")
        pair.post_send(region)
        with pytest.raises(via.DescriptorError, match="transport retry counter exceeded"):
            yield pair.send_done()
        return True

    def owns(host: via.Host) -> Yields:
        yield host.queue_pair().accept()

    assert run(asks, owns, on)["asks"] is True


@WAITS
def test_a_wait_has_a_limit(wait: Literal["block", "poll"]) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(8)
        yield pair.connect("owns")
        began_us = host.now_us
        with pytest.raises(via.TimeLimitError, match="20 us passed without a receive on its queue"):
            yield pair.receive_done(timeout="20 us")
        assert 19.99 < host.now_us - began_us < 30
        # What comes later is not lost.
        pair.post_receive(region)
        return (yield pair.receive_done()).length

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(8)
        yield pair.accept()
        yield host.sleep("100 us")
        pair.post_send(region, 3)
        yield pair.send_done()

    assert run(asks, owns, wait=wait)["asks"] == 3


def test_programs_that_wait_for_ever_are_named() -> None:
    def asks(host: via.Host) -> Yields:
        pair = host.queue_pair()
        yield pair.connect("owns")
        yield pair.receive_done()

    def owns(host: via.Host) -> Yields:
        pair = host.queue_pair()
        yield pair.accept()
        yield pair.receive_done()

    with pytest.raises(via.DeadlockError, match="asks waits for a receive on its queue pair with"):
        run(asks, owns)


@EVERYWHERE
def test_what_is_posted_wrongly_is_refused_with_words(on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(receive_depth=1, inline_bytes=4), host.region(8)
        large = host.region(4096)
        with pytest.raises(via.FabricError) as early:
            pair.post_send(region)
        assert early.value.code == "EINVAL"
        target = yield pair.connect("owns")
        with pytest.raises(ValueError, match="8 bytes from 4 on are not in a region of 8 bytes"):
            pair.post_send(region, 8, offset=4)
        with pytest.raises(TypeError, match=r"region\.remote\(\) gave: 16 bytes"):
            pair.post_write(region, 7)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="16 bytes, not 3"):
            pair.post_write(region, b"abc")
        with pytest.raises(via.FabricError) as long:
            # An adapter may give more room than was asked for.
            pair.post_send(large, inline=True)
        assert long.value.code == "EINVAL"
        pair.post_receive(region)
        with pytest.raises(via.FabricError) as full:
            pair.post_receive(region)
        assert full.value.code == "ENOMEM"
        pair.post_write(region, target)
        yield pair.send_done()
        return len(region)

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(8, remote_write=True)
        with pytest.raises(ValueError, match="private data has at most 256 bytes, not 257"):
            pair.accept(private_data=bytes(257))
        yield pair.accept(private_data=region.remote())
        with pytest.raises(ValueError, match='kind is "rc"'):
            host.queue_pair(kind="xrc")
        with pytest.raises(via.FabricError) as large:
            host.queue_pair(send_depth=1 << 20)
        # It stays until the write has come.
        yield host.sleep("200 ms")
        return large.value.code

    assert run(asks, owns, on)["owns"] == "EINVAL"


def test_where_there_are_no_queue_pairs_it_is_said() -> None:
    def program(host: via.Host) -> str:
        with pytest.raises(via.FabricError) as refused:
            host.queue_pair()
        return refused.value.code

    assert via.cluster("sim:clan-pio", [program]).run().returned["host0"] == "EOPNOTSUPP"


def told(host: via.Host, vi: via.Vi, pair: via.QueuePair) -> Yields:
    """Tell the address of a queue pair over a VI, and be told the peer's."""
    own = host.buffer(24)
    own[:] = pair.address()
    vi.post_receive(host.buffer(24))
    yield vi.connect("owns") if host.name == "asks" else vi.accept()
    vi.post_send(own)
    done = yield vi.receive_done()
    yield vi.send_done()
    return bytes(done.buffer[:])


@EVERYWHERE
@WAITS
@pytest.mark.parametrize("kind", ["rc", "uc"])
def test_programs_that_know_their_numbers_connect_in_two_steps(
    kind: str, wait: Literal["block", "poll"], on: str
) -> None:
    def asks(host: via.Host) -> Yields:
        vi, pair, region = host.vi(), host.queue_pair(kind=kind), host.region(64)
        pair.post_receive(region, 32)
        peer = yield from told(host, vi, pair)
        assert peer != pair.address()
        with pytest.raises(via.FabricError, match="EINVAL"):
            pair.ready_to_send()
        pair.ready_to_receive(peer)
        states = [pair.state]
        pair.ready_to_send()
        states.append(pair.state)
        yield pair.receive_done()
        region[32:35] = b"yes"
        pair.post_send(region, 3, offset=32)
        yield pair.send_done()
        return states, bytes(region[:5])

    def owns(host: via.Host) -> Yields:
        vi, pair, region = host.vi(), host.queue_pair(kind=kind), host.region(64)
        pair.post_receive(region, 32)
        pair.ready_to_receive((yield from told(host, vi, pair)))
        pair.ready_to_send()
        # What is not reliable finds the peer ready.
        yield host.sleep("100 ms")
        region[32:37] = b"ready"
        pair.post_send(region, 5, offset=32)
        yield pair.send_done()
        yield pair.receive_done()
        return bytes(region[:3])

    assert run(asks, owns, on, wait) == {"asks": (["RTR", "RTS"], b"ready"), "owns": b"yes"}


@EVERYWHERE
@WAITS
def test_datagrams_go_to_an_address_and_back_to_their_source(
    wait: Literal["block", "poll"], on: str
) -> None:
    def asks(host: via.Host) -> Yields:
        vi, pair = host.vi(), host.queue_pair(kind="ud", queue_key=7)
        region, answers = host.region(64), host.region(128)
        assert pair.state == "RTS"
        with pytest.raises(ValueError, match="connects with nobody"):
            pair.connect("owns")
        with pytest.raises(via.FabricError, match="EINVAL"):
            pair.post_send(region)
        peer = yield from told(host, vi, pair)
        pair.post_receive(answers)
        region[:8] = b"question"
        # Another key is dropped, and its sender is not told.
        pair.post_send(region, 8, to=peer[:20] + bytes(4))
        pair.post_send(region, 8, immediate=5, to=peer)
        for _ in range(2):
            assert (yield pair.send_done()).source is None
        done = yield pair.receive_done()
        return done.length, bytes(answers[40:46]), done.source == peer

    def owns(host: via.Host) -> Yields:
        vi, region = host.vi(), host.region(128)
        pair = host.queue_pair(kind="ud", queue_key=7)
        pair.post_receive(region, 100, offset=8)
        peer = yield from told(host, vi, pair)
        done = yield pair.receive_done()
        came = done.length, done.immediate, bytes(region[48:56]), done.source == peer
        region[:6] = b"answer"
        pair.post_send(region, 6, to=done.source)
        yield pair.send_done()
        return came

    assert run(asks, owns, on, wait) == {
        "asks": (46, b"answer", True),
        "owns": (48, 5, b"question", True),
    }


@EVERYWHERE
@WAITS
def test_queue_pairs_share_their_receives(wait: Literal["block", "poll"], on: str) -> None:
    def asks(host: via.Host) -> Yields:
        region = host.region(8)
        for port, length in (("b", 2), ("a", 1), ("a", 3)):
            pair = host.queue_pair()
            yield pair.connect("owns", port=port)
            pair.post_send(region, length)
            yield pair.send_done()

    def owns(host: via.Host) -> Yields:
        shared, region = host.shared_receive_queue(depth=3), host.region(24)
        posted = [shared.post_receive(region, 8, offset=place) for place in (0, 8, 16)]
        with pytest.raises(via.FabricError) as full:
            shared.post_receive(region)
        pairs = [host.queue_pair(shared_receive_queue=shared) for _ in range(3)]
        with pytest.raises(via.FabricError) as own:
            pairs[0].post_receive(region)
        came = []
        for pair, port in zip(pairs, ("b", "a", "a"), strict=True):
            yield pair.accept(port=port)
            done = yield pair.receive_done()
            assert done.region is region
            came.append((done.request, done.length))
        return posted, full.value.code, own.value.code, came

    assert run(asks, owns, on, wait)["owns"] == (
        [0, 1, 2],
        "ENOMEM",
        "EINVAL",
        [(0, 2), (1, 1), (2, 3)],
    )


@EVERYWHERE
@WAITS
def test_queue_pairs_complete_in_one_queue(wait: Literal["block", "poll"], on: str) -> None:
    def asks(host: via.Host) -> Yields:
        region = host.region(8)
        queue = host.shared_completion_queue(depth=8)
        pairs = [host.queue_pair(send_completions=queue) for _ in range(2)]
        for pair, port in zip(pairs, ("a", "b"), strict=True):
            yield pair.connect("owns", port=port)
        pairs[1].post_send(region, 3)
        first = yield queue.done()
        pairs[0].post_send(region, 1)
        pairs[0].post_send(region, 2)
        second = yield queue.done()
        third = yield queue.done()
        with pytest.raises(via.TimeLimitError, match="a completion of one of its queue pairs"):
            yield queue.done(timeout="1 ms")
        with pytest.raises(ValueError, match="its sends complete in a shared completion queue"):
            pairs[0].send_done()
        return [
            (pairs.index(pair), done.request, done.length) for pair, done in (first, second, third)
        ]

    def owns(host: via.Host) -> Yields:
        queue, region = host.shared_completion_queue(), host.region(24)
        pairs = {}
        for port in ("a", "b"):
            pair = host.queue_pair(send_completions=queue, receive_completions=queue)
            for _ in range(2):
                pair.post_receive(region)
            yield pair.accept(port=port)
            pairs[pair.number] = port
        came = []
        for _ in range(3):
            pair, done = yield queue.done()
            came.append((pairs[pair.number], done.opcode, done.length))
        return came

    assert run(asks, owns, on, wait) == {
        "asks": [(1, 0, 3), (0, 0, 1), (0, 1, 2)],
        "owns": [("b", "receive", 3), ("a", "receive", 1), ("a", "receive", 2)],
    }


@EVERYWHERE
@WAITS
def test_an_error_in_a_shared_queue_says_whose_and_which(
    wait: Literal["block", "poll"], on: str
) -> None:
    def asks(host: via.Host) -> Yields:
        queue, region = host.shared_completion_queue(), host.region(8)
        pairs = []
        for port in ("a", "b"):
            pair = host.queue_pair(send_completions=queue, receive_completions=queue)
            target = yield pair.connect("owns", port=port)
            pairs.append(pair)
        # An error says the queue pair and the request alone.
        pairs[1].post_receive(region, 4, offset=4)
        pairs[1].post_write(region, target, 8, target_offset=64)
        with pytest.raises(
            via.DescriptorError, match=r"^request 1: remote access error"
        ) as refused:
            yield queue.done()
        with pytest.raises(via.FlushedError, match=r"^request 0: ") as flushed:
            yield queue.done()
        return [each.value.queue_pair is pairs[1] for each in (refused, flushed)]

    def owns(host: via.Host) -> Yields:
        region = host.region(8, remote_write=True)
        for port in ("a", "b"):
            pair = host.queue_pair()
            yield pair.accept(port=port, private_data=region.remote())
        about, what = yield host.event()
        return about is pair, what

    assert run(asks, owns, on, wait) == {
        "asks": [True, True],
        "owns": (True, "access of the peer refused"),
    }


@EVERYWHERE
@WAITS
def test_a_limit_of_shared_receives_is_told_once(wait: Literal["block", "poll"], on: str) -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(8)
        yield pair.connect("owns")
        for _ in range(3):
            pair.post_send(region)
            yield pair.send_done()

    def owns(host: via.Host) -> Yields:
        other, shared = host.shared_receive_queue(), host.shared_receive_queue(depth=4)
        region = host.region(8)
        for _ in range(4):
            shared.post_receive(region)
        with pytest.raises(via.FabricError, match="EINVAL"):
            shared.set_limit(5)
        pair = host.queue_pair(shared_receive_queue=shared)
        shared.set_limit(3)
        with pytest.raises(via.TimeLimitError, match="without an event of its RDMA adapter"):
            yield host.event(timeout="1 ms")
        yield pair.accept()
        about, what = yield host.event()
        for _ in range(3):
            yield pair.receive_done()
        with pytest.raises(via.TimeLimitError):
            yield host.event(timeout="1 ms")
        return about is shared, about is other, what

    assert run(asks, owns, on, wait)["owns"] == (True, False, "shared receive queue limit reached")


def test_addresses_are_for_datagrams_and_have_24_bytes() -> None:
    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(), host.region(8)
        yield pair.connect("owns")
        with pytest.raises(ValueError, match="leave out `to`"):
            pair.post_send(region, to=pair.address())
        with pytest.raises(ValueError, match=r"queue_pair\.address\(\) gave: 24 bytes, not 3"):
            pair.ready_to_receive(b"abc")

    def owns(host: via.Host) -> Yields:
        pair = host.queue_pair()
        yield pair.accept()

    assert run(asks, owns)["asks"] is None


@pytest.mark.parametrize("wait", ["poll"])
def test_half_a_round_takes_what_measure_says(wait: Literal["poll"]) -> None:
    rounds = 100

    def asks(host: via.Host) -> Yields:
        pair, region = host.queue_pair(inline_bytes=8), host.region(8)
        pair.post_receive(region)
        yield pair.connect("owns")
        began_us = host.now_us
        for _ in range(rounds):
            pair.post_send(region, inline=True)
            yield pair.receive_done()
            pair.post_receive(region)
            yield pair.send_done()
        return (host.now_us - began_us) / rounds / 2

    def owns(host: via.Host) -> Yields:
        pair, region = host.queue_pair(inline_bytes=8), host.region(8)
        pair.post_receive(region)
        yield pair.accept()
        for _ in range(rounds):
            yield pair.receive_done()
            pair.post_send(region, inline=True)
            pair.post_receive(region)
            yield pair.send_done()

    # `viaduct measure send-latency --on sim:rnic-gen5` says 0.846 us.
    assert run(asks, owns, wait=wait)["asks"] == pytest.approx(0.846, rel=0.005)
