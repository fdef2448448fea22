"""Recorded MPI programs, in archives that the package `otf2` writes here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import otf2 as library
import pytest
import viaduct as via
from otf2.enums import CollectiveOp, GroupType, Paradigm
from viaduct import otf2

WORLD, HALF = "MPI_COMM_WORLD", "half"


class Recorder:
    """Writes what one rank does; a tick is a microsecond."""

    def __init__(
        self, archive: Any, location: Any, regions: dict[str, Any], comms: Any, window: Any
    ) -> None:
        self._writer = archive.event_writer_from_location(location)
        self._regions = regions
        self.comms, self.window = comms, window
        self.is_first = location.name == "Master thread"
        self.rank = location.group._ref
        self.time = 1_000 * (self.rank + 1)
        self._writer.enter(self.time, regions["main"])

    def call(self, name: str, took: int = 5, **event: Any) -> None:
        """An MPI call that took so long, and its event at its end."""
        self._writer.enter(self.time, self._regions["MPI_" + name])
        self.time += took
        for kind, values in event.items():
            getattr(self._writer, kind)(self.time, *values)
        self._writer.leave(self.time, self._regions["MPI_" + name])

    def collective(self, op: Any, sent: int, received: int, comm: str = WORLD) -> None:
        end = (op, self.comms[comm], 0, sent, received)
        self.call("Coll", mpi_collective_begin=(), mpi_collective_end=end)

    def compute(self, took: int, region: str = "main") -> None:
        if region != "main":
            self._writer.enter(self.time, self._regions[region])
        self.time += took
        if region != "main":
            self._writer.leave(self.time, self._regions[region])

    def flush(self, took: int) -> None:
        self._writer.buffer_flush(self.time, self.time + took)
        self.time += took

    def end(self) -> None:
        self._writer.leave(self.time, self._regions["main"])


CALLS = ("Send", "Isend", "Recv", "Irecv", "Wait", "Coll")


def record(folder: Path, ranks: int, what: Callable[[Recorder], None], threads: int = 1) -> Path:
    with library.writer.open(str(folder), timer_resolution=10**6) as archive:
        definitions = archive.definitions
        names = {"main": Paradigm.USER, "solve": Paradigm.USER}
        names |= {f"MPI_{call}": Paradigm.MPI for call in CALLS}
        regions = {
            name: definitions.region(name, paradigm=paradigm) for name, paradigm in names.items()
        }
        root = definitions.system_tree_node("cluster")
        groups = [
            definitions.location_group(f"MPI Rank {rank}", system_tree_parent=root)
            for rank in range(ranks)
        ]
        locations = [definitions.location("Master thread", group=group) for group in groups]
        definitions.group(
            "", group_type=GroupType.COMM_LOCATIONS, paradigm=Paradigm.MPI, members=locations
        )
        of = {
            name: definitions.group(
                "", group_type=GroupType.COMM_GROUP, paradigm=Paradigm.MPI, members=members
            )
            for name, members in {WORLD: locations, HALF: locations[ranks // 2 :]}.items()
        }
        comms = {name: definitions.comm(name, group=group) for name, group in of.items()}
        window = definitions.rma_win("window", comm=comms[WORLD])
        others = [
            definitions.location(f"thread {thread}", group=group)
            for group in groups
            for thread in range(1, threads)
        ]
        for location in locations + others:
            recorder = Recorder(archive, location, regions, comms, window)
            what(recorder)
            recorder.end()
    return folder / "traces.otf2"


def goal(archive: otf2.Archive, folder: Path) -> list[str]:
    archive.graph.write(folder / "out.goal")
    lines = (folder / "out.goal").read_text().splitlines()
    return [line for line in lines if line not in ("}",) and not line.startswith("rank")]


def stencil(rank: Recorder) -> None:
    """Begins a message each way, computes meanwhile, and sums up."""
    other, world = 1 - rank.rank, rank.comms[WORLD]
    rank.compute(100)
    rank.call("Irecv", mpi_irecv_request=(7,))
    rank.call("Isend", mpi_isend=(other, world, 3, 80_000, 8))
    rank.compute(400, "solve")
    rank.compute(50)
    rank.call("Wait", 200, mpi_irecv=(other, world, 3, 80_000, 7))
    rank.call("Wait", mpi_isend_complete=(8,))
    rank.flush(10_000)
    rank.compute(20)
    rank.collective(CollectiveOp.ALLREDUCE, 2 * 8, 2 * 8)


def test_time_outside_mpi_is_computing_and_what_is_begun_goes_on_meanwhile(tmp_path: Path) -> None:
    archive = otf2.read(record(tmp_path / "run", 2, stencil), all_reduce="recursive-doubling")
    assert archive.notes == ()
    assert dict(archive.counts) == {
        "ranks": "2",
        # 100, 450 and 20 us of each rank; what the recorder wrote is no time of the program.
        "computations": "6, 1,140,000 ns",
        "all-reduce": "2, 16 B",
        "receives": "2, 160,000 B",
        "sends": "2, 160,000 B",
        f"process group {WORLD}": "2 ranks",
    }
    lines = goal(archive, tmp_path)
    own = lines[: lines.index("// MPI_Coll")]
    assert [line for line in own if "requires" not in line] == [
        *("num_ranks 2", "// main", "l1: calc 100000"),
        *("// MPI_Irecv", "l2: recv 80000b from 1 tag 3"),
        *("// MPI_Isend", "l3: send 80000b to 1 tag 3"),
        *("// solve", "l4: calc 450000", "// main", "l5: calc 20000"),
    ]
    waits = [line for line in lines[: len(lines) // 2 + 1] if "requires" in line]
    assert waits[:6] == [
        *("l2 requires l1", "l3 requires l1", "l4 requires l1"),
        *("l5 requires l2", "l5 requires l3", "l5 requires l4"),
    ]
    net = via.Network.single_switch(2, rate="100 Gbit/s", nic="rnic-gen4")
    result = net.run(traffic=archive.graph)
    assert result.application is not None
    assert 570 < result.application["makespan_us"] < 640
    half = otf2.read(tmp_path / "run", compute_scale=0.5)
    assert dict(half.counts)["computations"] == "6, 570,000 ns"


def test_each_collective_has_the_bytes_that_were_recorded(tmp_path: Path) -> None:
    p, b = 4, 1_000

    def what(rank: Recorder) -> None:
        root = rank.rank == 0
        rank.collective(CollectiveOp.BARRIER, 0, 0)
        rank.collective(CollectiveOp.BCAST, p * b if root else 0, b)
        rank.collective(CollectiveOp.REDUCE, b, p * b if root else 0)
        rank.collective(CollectiveOp.GATHER, b, p * b if root else 0)
        rank.collective(CollectiveOp.SCATTER, p * b if root else 0, b)
        rank.collective(CollectiveOp.ALLREDUCE, p * b, p * b)
        # In place, with a vector that three ranks' worth of bytes can be told from four's.
        rank.collective(CollectiveOp.ALLREDUCE, (p - 1) * 1_001, (p - 1) * 1_001)
        rank.collective(CollectiveOp.ALLGATHER, p * b, p * b)
        rank.collective(CollectiveOp.ALLTOALL, p * b, p * b)
        rank.collective(CollectiveOp.REDUCE_SCATTER_BLOCK, p * b, p * b)
        rank.collective(CollectiveOp.CREATE_HANDLE, 0, 0)
        if rank.rank >= 2:
            rank.collective(CollectiveOp.ALLREDUCE, 2 * 77, 2 * 77, HALF)

    archive = otf2.read(record(tmp_path / "run", p, what))
    assert archive.notes == ()
    assert dict(archive.counts) == {
        "ranks": "4",
        "all-gather": f"4, {4 * p * b:,} B",
        "all-reduce": f"10, {4 * b + 4 * 1_001 + 2 * 77:,} B",
        "all-to-all": f"4, {4 * p * b:,} B",
        "barrier": "4",
        "broadcast": f"4, {4 * b:,} B",
        "gather": f"4, {4 * p * b:,} B",
        "reduce": f"4, {4 * b:,} B",
        "reduce-scatter": f"4, {4 * p * b:,} B",
        "scatter": f"4, {4 * p * b:,} B",
        f"process group {WORLD}": "4 ranks",
        f"process group {HALF}": "2 ranks",
    }


def test_shares_that_differ_become_messages_or_are_told(tmp_path: Path) -> None:
    def what(rank: Recorder) -> None:
        me = rank.rank
        rank.collective(CollectiveOp.GATHERV, 10 * (me + 1), 60 if me == 0 else 0)
        rank.collective(CollectiveOp.SCATTERV, 60 if me == 0 else 0, 10 * (me + 1))
        rank.collective(CollectiveOp.SCAN, (3 - me) * 8, (me + 1) * 8)
        rank.collective(CollectiveOp.EXSCAN, (2 - me) * 9, me * 9)
        rank.collective(CollectiveOp.ALLTOALLV, 30, 30)

    archive = otf2.read(record(tmp_path / "run", 3, what))
    assert archive.notes == (
        "3 parts in collectives with shares of different sizes: done with equal ones",
    )
    lines = goal(archive, tmp_path)
    sends = [line.split(": ")[1] for line in lines if ": send" in line]
    assert [send for send in sends if not send.startswith("send 10b to")] == [
        *("send 20b to 1", "send 30b to 2", "send 8b to 1", "send 9b to 1"),
        *("send 20b to 0", "send 8b to 2", "send 9b to 2"),
        "send 30b to 0",
    ]


def test_collectives_that_are_begun_and_probed_messages_are_those_of_their_request(
    tmp_path: Path,
) -> None:
    def what(rank: Recorder) -> None:
        world, other = rank.comms[WORLD], 1 - rank.rank
        rank.call("Coll", non_blocking_collective_request=(1,))
        rank.collective(CollectiveOp.BARRIER, 0, 0)
        rank.compute(10)
        end = (CollectiveOp.ALLREDUCE, world, 0, 2 * 4, 2 * 4, 1)
        rank.call("Wait", non_blocking_collective_complete=end)
        rank.call("Isend", mpi_isend=(other, world, 5, 64, 2))
        rank.call("Irecv", mpi_irecv_request=(3,))
        rank.call("Wait", mpi_request_cancelled=(3,))
        rank.call("Wait", mpi_probe=(other, world, 5, 99))
        if rank.rank == 0:
            rank.call("Recv", mpi_mrecv=(99, 64))
        else:
            rank.call("Irecv", mpi_imrecv_request=(99, 4))
            rank.call("Wait", mpi_imrecv=(4, 64))
        rank.call("Isend", mpi_isend=(other, world, 5, 65, 11))
        rank.call("Wait", mpi_request_cancelled=(11,))
        rank.call("Irecv", mpi_irecv_request=(6,))

    archive = otf2.read(record(tmp_path / "run", 2, what))
    assert archive.notes == ("2 requests that never ended: they are left out",)
    counts = dict(archive.counts)
    assert (counts["sends"], counts["receives"]) == ("2, 128 B", "2, 128 B")
    names = [line for line in goal(archive, tmp_path) if line.startswith("// ")]
    assert names[:2] == ["// MPI_Coll", "// main"]
    net = via.Network.single_switch(2, rate="100 Gbit/s", nic="rnic-gen4")
    assert net.run(traffic=archive.graph).application is not None


def test_threads_with_messages_have_a_processor_and_what_is_left_out_is_told(
    tmp_path: Path,
) -> None:
    def what(rank: Recorder) -> None:
        rank.compute(30)
        if rank.is_first:
            rank.call("Wait", rma_put=(rank.window, 1 - rank.rank, 8, 1))
        elif rank.rank == 0:
            rank.call("Send", mpi_send=(1, rank.comms[WORLD], 0, 8))
        else:
            rank.call("Recv", mpi_recv=(0, rank.comms[WORLD], 0, 8))

    def only_first(rank: Recorder) -> None:
        if rank.is_first:
            what(rank)

    archive = otf2.read(record(tmp_path / "talking", 2, what, threads=2))
    assert archive.notes == ("2 one-sided operations: they are left out",)
    lines = goal(archive, tmp_path)
    assert [line for line in lines if "calc" in line] == [
        *("l1: calc 30000", "l2: calc 30000 cpu 1") * 2,
    ]
    archive = otf2.read(record(tmp_path / "silent", 2, only_first, threads=2))
    assert archive.notes == (
        "2 one-sided operations: they are left out",
        "2 threads without messages: they are left out",
    )


def test_what_is_wrong_is_said_with_its_rank(tmp_path: Path) -> None:
    def differs(rank: Recorder) -> None:
        op = CollectiveOp.BARRIER if rank.rank == 0 else CollectiveOp.ALLREDUCE
        rank.collective(CollectiveOp.BARRIER, 0, 0)
        rank.collective(op, 0, 0)

    def fewer(rank: Recorder) -> None:
        if rank.rank == 0:
            rank.collective(CollectiveOp.BARRIER, 0, 0)

    def beyond(rank: Recorder) -> None:
        rank.call("Send", mpi_send=(2, rank.comms[WORLD], 0, 8))

    for name, what, said in [
        (
            "differs",
            differs,
            rf"collective 2 of {WORLD} is `MPI_Coll` on rank 0, and `MPI_Coll` on rank 1",
        ),
        ("fewer", fewer, rf"collective 1 of {WORLD} is `MPI_Coll` on rank 0, and not there on"),
        ("beyond", beyond, rf"rank 0 sends to rank 2 of {WORLD}\nhelp: that has ranks 0 to 1"),
    ]:
        with pytest.raises(via.ScenarioError, match=said):
            otf2.read(record(tmp_path / name, 2, what))
    with pytest.raises(via.ScenarioError, match="give 0 or more"):
        otf2.read(tmp_path / "differs", compute_scale=-1)


def test_ranks_of_no_mpi_are_told(tmp_path: Path) -> None:
    with library.writer.open(str(tmp_path / "run"), timer_resolution=10**6) as archive:
        definitions = archive.definitions
        root = definitions.system_tree_node("host")
        group = definitions.location_group("process", system_tree_parent=root)
        writer = archive.event_writer_from_location(definitions.location("thread", group=group))
        writer.enter(1, definitions.region("main"))
    with pytest.raises(via.ScenarioError, match="it has no ranks of MPI"):
        otf2.read(tmp_path / "run")


def command(*arguments: object) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "viaduct.otf2", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_the_command_counts_and_writes_or_says_what_is_missing(tmp_path: Path) -> None:
    anchor = record(tmp_path / "run", 2, stencil)
    code, said, warned = command(anchor, tmp_path / "stencil.goal", "--all-reduce", "ring")
    assert (code, warned) == (0, "")
    assert said.splitlines()[:2] == [
        "ranks                  2",
        "computations           6, 1,140,000 ns",
    ]
    assert (tmp_path / "stencil.goal").read_text().startswith("num_ranks 2\n")
    code, _, error = command(anchor, tmp_path / "no" / "stencil.goal")
    assert (code, error.split(":")[0]) == (1, "error")
    code, _, error = command(tmp_path / "nowhere.otf2")
    assert (code, "there is no such file" in error) == (1, True)

    cut = Path(shutil.copytree(tmp_path / "run", tmp_path / "cut"))
    (cut / "traces" / "1.evt").write_bytes((cut / "traces" / "1.evt").read_bytes()[:40])
    code, _, error = command(cut)
    assert code == 1
    assert error.splitlines()[0].startswith(f"error: {cut}/traces.otf2: the package `otf2` cannot")
    assert "[OTF2]" not in error
    (cut / "traces" / "1.evt").unlink()
    code, _, error = command(cut)
    assert (code, "the events of rank 1 are missing" in error) == (1, True)


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "otf2", None)
    with pytest.raises(via.ScenarioError) as raised:
        otf2.read(tmp_path)
    assert str(raised.value) == (
        "error: the package `otf2` is not installed: `pip install otf2`, or Debian's `python3-otf2`"
    )
