"""Traces of training steps, made here byte by byte."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import viaduct as via


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def attribute(name: str, value: bytes) -> bytes:
    return text(10, text(1, name.encode()) + value)


def trace(*nodes: bytes) -> bytes:
    metadata = text(2, text(1, b"schema") + text(29, b"1.1.1-chakra.0.0.4"))
    return b"".join(varint(len(message)) + message for message in (metadata, *nodes))


def step(microseconds: int, size: int) -> bytes:
    """A computation, and an all-reduce that waits for it."""
    compute = number(1, 7) + text(2, b"gemm") + number(3, 4) + number(7, microseconds)
    kernel = number(1, 9) + number(3, 7) + text(5, varint(7))
    kernel += attribute("comm_type", number(9, 0)) + attribute("comm_size", number(9, size))
    return trace(compute, kernel)


def net() -> via.Network:
    return via.Network.single_switch(4, rate="100 Gbit/s", nic="rnic-gen4")


def makespan(result: via.Result) -> float:
    assert result.application is not None
    return float(result.application["makespan_us"])


def test_a_trace_takes_its_computation_and_its_collective(tmp_path: Path) -> None:
    (tmp_path / "step.et").write_bytes(step(250, 1 << 20))
    result = net().run(traffic=via.trace(tmp_path / "step.et"))
    alone = net().run(traffic=via.collective("all-reduce", bytes="1 MiB"))
    assert makespan(result) == pytest.approx(250 + makespan(alone), abs=0.01)
    assert result.application is not None
    assert result.application["ranks"] == 4
    other = via.trace(tmp_path / "step.et", all_reduce="recursive-doubling", compute_scale=2)
    alone = net().run(
        traffic=via.collective("all-reduce", bytes="1 MiB", algorithm="recursive-doubling")
    )
    assert makespan(net().run(traffic=other)) == pytest.approx(500 + makespan(alone), abs=0.01)


def test_files_of_all_ranks_are_found_by_what_stands_before(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"step.{rank}.et").write_bytes(gzip.compress(step(100 * rank, 4096)))
    result = net().run(traffic=via.trace(str(tmp_path / "step")))
    assert result.application is not None
    assert result.application["waited_for_us"]["max_rank"] != 0
    assert makespan(result) > 300
    (tmp_path / "step.2.et").write_bytes(gzip.compress(step(100, 4096))[:-9])
    with pytest.raises(via.ScenarioError, match=r"step\.2\.et: the file by gzip ends too early"):
        net().run(traffic=via.trace(str(tmp_path / "step")))


def test_a_trace_of_simgrid_takes_its_operations_and_its_collective(tmp_path: Path) -> None:
    lines = "{0} init\n{0} compute 5e4\n{0} allreduce 4000 0\n{0} finalize\n"
    (tmp_path / "all.txt").write_text("".join(lines.format(rank) for rank in range(4)))
    file = tmp_path / "all.txt"
    fast, slow = (
        makespan(net().run(traffic=via.trace(file, format="simgrid", operations_per_second=rate)))
        for rate in (1e9, 5e8)
    )
    assert slow == pytest.approx(fast + 50)
    with pytest.raises(via.ScenarioError, match=r"set traffic\.operations_per_second"):
        net().run(traffic=via.trace(file, format="simgrid"))
    with pytest.raises(TypeError, match=r"format is 'chakra' or 'simgrid', not 'otf2'"):
        via.trace(file, format="otf2")


def test_a_program_by_name_is_that_of_the_study_file(tmp_path: Path) -> None:
    keys = 'program = "nas-cg"\nclass = "S"\niterations = 1\noperations_per_second = 30e6\n'
    (tmp_path / "cg.toml").write_text(
        '[network]\ntopology = "switch"\nhosts = 4\n[links]\nrate = "856 Mbit/s"\n'
        f'[hosts]\nnic = "giganet-clan"\n[traffic]\narrivals = "program"\n{keys}'
    )
    of_file = via.study(tmp_path / "cg.toml").run()
    net = via.Network.single_switch(4, rate="856 Mbit/s", nic="giganet-clan")
    gradients = via.program("nas-cg", operations_per_second=30e6, class_="S", iterations=1)
    result = net.run(traffic=gradients)
    assert result.digest == of_file.digest
    assert makespan(result) == makespan(of_file)
    sort = via.program("radix-sort", operations_per_second=1e7, ranks=3, keys=100)
    application = net.run(traffic=sort).application
    assert application is not None
    assert application["ranks"] == 3


def test_what_is_no_program_is_told() -> None:
    with pytest.raises(TypeError, match=r"name is a program, as in 'nas-cg', not 3"):
        via.program(3, operations_per_second=1e6)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"traffic has no key 'size_of_grid'"):
        via.program("nas-mg", operations_per_second=1e6, size_of_grid=3)
    with pytest.raises(via.ScenarioError, match=r"no 3 ranks: it has powers of two, as 2 and 4"):
        net().run(traffic=via.program("nas-mg", operations_per_second=1e6, ranks=3))
    shown = via.program("linpack", operations_per_second=1e6, order=100)
    assert repr(shown) == (
        "<viaduct program program='linpack', operations_per_second=1000000.0, order=100>"
    )


def test_what_is_no_trace_is_told() -> None:
    with pytest.raises(TypeError, match=r"file is the path of a trace, not 3"):
        via.trace(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"traffic has no key 'scale'"):
        via.trace("step.et", scale=3)
    with pytest.raises(via.ScenarioError, match=r"no file such as nothing\.0\.et"):
        net().run(traffic=via.trace("nothing"))
    assert (
        repr(via.trace("a.et", compute_scale=2)) == "<viaduct trace file='a.et', compute_scale=2>"
    )
