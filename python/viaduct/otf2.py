"""Recorded MPI programs: OTF2 archives, as Score-P writes them, become graphs of operations.

What a rank did between its MPI calls is computing, what it did in them is a message or a
collective, and how long that takes is what a simulated cluster says anew. The package `otf2` reads
the archives, and is imported only here: `pip install otf2`, or Debian's `python3-otf2`.

As a command it says what is in an archive, and writes it as a GOAL file::

    python -m viaduct.otf2 scorep-stencil/traces.otf2 stencil.goal
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from viaduct._errors import ScenarioError
from viaduct._graph import Graph, RankGroup, Step
from viaduct._study import Setting

__all__ = ["Archive", "read"]

_UNDEFINED_ID = 2**64 - 1
_NANOSECONDS = 10**9
# Tags of messages that stand for a collective; those of programs are not negative.
_COLLECTIVE_TAG = -1

# What each collective of MPI is here, by OTF2's name of it.
_COLLECTIVES = {
    "BARRIER": "barrier",
    "BCAST": "broadcast",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "REDUCE": "reduce",
    "ALLREDUCE": "all-reduce",
    "ALLGATHER": "all-gather",
    "ALLGATHERV": "all-gather",
    "ALLTOALL": "all-to-all",
    "ALLTOALLV": "all-to-all",
    "ALLTOALLW": "all-to-all",
    "REDUCE_SCATTER": "reduce-scatter",
    "REDUCE_SCATTER_BLOCK": "reduce-scatter",
}
# Those that are done as messages, of the sizes that were recorded.
_AS_MESSAGES = ("GATHERV", "SCATTERV", "SCAN", "EXSCAN")
_ONE_SIDED = ("RmaPut", "RmaGet", "RmaAtomic")

_Key = tuple[int, int]


@dataclass(frozen=True)
class Archive:
    """What an archive holds."""

    graph: Graph
    """What its ranks do, which stands where a `Traffic` does."""
    counts: tuple[tuple[str, str], ...]
    """What there is of each kind, and how much."""
    notes: tuple[str, ...]
    """What is not carried out as it was recorded."""


def read(path: str | PathLike[str], *, compute_scale: float = 1.0, **keys: Setting) -> Archive:
    """Read an archive: its anchor file, such as `traces.otf2`, or the folder that has it.

    Parameters
    ----------
    path : path
        The archive.
    compute_scale : float, optional
        What times of computations are multiplied by: 0.5 for a processor twice as fast.
    **keys : str or number
        Those of `viaduct.Graph`: algorithms of collectives, and keys of `[traffic]`.

    Raises
    ------
    ScenarioError
        The package is not there, or the archive cannot be read or carried out: where, and why.
    """
    if not 0 <= compute_scale < float("inf"):
        raise ScenarioError(f"error: compute_scale is {compute_scale}\nhelp: give 0 or more")
    try:
        import otf2
        from _otf2 import Error as LibraryError
    except ImportError as error:
        raise ScenarioError(
            "error: the package `otf2` is not installed: `pip install otf2`, or Debian's "
            "`python3-otf2`"
        ) from error
    anchor = Path(path)
    if anchor.is_dir():
        anchor /= "traces.otf2"
    if not anchor.is_file():
        raise _wrong(anchor, "there is no such file", "name the anchor file, such as traces.otf2")
    try:
        with otf2.reader.open(str(anchor)) as trace:
            reader = _Reader(otf2, anchor, trace)
            for location, event in trace.events:
                reader.take(location, event)
            return reader.finish(compute_scale, keys)
    except (LibraryError, otf2.error.Error, KeyError) as error:
        raise _wrong(
            anchor,
            f"the package `otf2` cannot read it: {error}",
            "it is no OTF2 archive, or a part of it is missing or cut off",
        ) from error


def _wrong(anchor: Path, problem: str, help: str) -> ScenarioError:
    return ScenarioError(f"error: {anchor}: {problem}\nhelp: {help}")


@dataclass(eq=False, slots=True)
class _Communicator:
    number: int
    name: str
    ranks: list[int] | None
    """None of one that each rank has for itself."""
    sides: tuple[list[int], list[int]] | None
    """Of one between two groups."""


@dataclass(slots=True)
class _Compute:
    ticks: int
    name: str


@dataclass(slots=True)
class _Message:
    sends: bool
    peer: int
    key: _Key
    """The number of its communicator, and its tag."""
    bytes: int
    name: str
    blocks: bool = True


@dataclass(slots=True)
class _Together:
    communicator: _Communicator
    operation: str
    root: int
    sent: int
    received: int
    name: str
    blocks: bool = True
    of_all: dict[int, _Together] = field(default_factory=dict)
    """The parts of all ranks, by rank: one dictionary for all of them."""


@dataclass(slots=True)
class _Wait:
    place: int
    """Of the step that it waits for."""


@dataclass(slots=True)
class _Begun:
    """What an MPI call began, and whose end has not been read."""

    name: str


_Recorded = _Compute | _Message | _Together | _Wait | _Begun


@dataclass(eq=False, slots=True)
class _Thread:
    """What one location recorded, and where its reading is."""

    rank: int
    steps: list[_Recorded] = field(default_factory=list)
    requests: dict[int, int] = field(default_factory=dict)
    """Where the steps of open requests are."""
    probed: dict[int, tuple[int, _Communicator, int]] = field(default_factory=dict)
    regions: list[str] = field(default_factory=list)
    call: str = ""
    """The MPI call that it is in; `depth` regions are open, that one and those within."""
    depth: int = 0
    last: int | None = None
    gap: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Time outside MPI since its last step, by the region that was on top."""

    def advance(self, time: int) -> None:
        """Count the time since its last event as computing, if it was in no MPI call."""
        if self.last is not None and not self.depth and time > self.last:
            self.gap[self.regions[-1] if self.regions else ""] += time - self.last
        self.last = time

    def add(self, step: _Recorded) -> int:
        """Add a step, behind one of what was computed before it; give its place."""
        self.compute()
        self.steps.append(step)
        return len(self.steps) - 1

    def compute(self) -> None:
        """Add what was computed since its last step, if anything was."""
        if self.gap:
            name = max(self.gap, key=lambda name: self.gap[name])
            self.steps.append(_Compute(sum(self.gap.values()), name))
            self.gap.clear()

    def begin(self, request: int) -> int:
        """Add a step of which its end will say more."""
        place = self.requests[request] = self.add(_Begun(self.call))
        return place

    def complete(self, request: int, step: _Message | _Together) -> None:
        """Say what a request was, and wait for it here."""
        place = self.requests.pop(request, None)
        if place is None:
            self.add(step)
            return
        begun = self.steps[place]
        if isinstance(begun, _Begun):
            step.name = begun.name
        step.blocks = False
        self.steps[place] = step
        self.add(_Wait(place))


class _Reader:
    """Makes steps of events, and a graph of steps."""

    def __init__(self, library: Any, anchor: Path, trace: Any) -> None:
        self._library = library
        self._anchor = anchor
        self._ticks_per_second = trace.timer_resolution
        definitions = trace.definitions
        located: list[Any] = []
        for group in definitions.groups:
            is_of_mpi = group.paradigm == library.Paradigm.MPI
            if is_of_mpi and group.group_type == library.GroupType.COMM_LOCATIONS:
                located = list(group.members)
        if not located:
            raise _wrong(
                anchor,
                "it has no ranks of MPI",
                "record the program with MPI, as by `scorep mpicc`",
            )
        self._rank_at = {location: rank for rank, location in enumerate(located)}
        self._rank_of = {location.group: rank for rank, location in enumerate(located)}
        self._threads = {location: _Thread(rank) for rank, location in enumerate(located)}
        self._numbers = {comm: number for number, comm in enumerate(definitions.comms)}
        self._communicators: dict[Any, _Communicator] = {}
        # The collectives of each rank, in order: the n-th of a communicator is one for all.
        self._together: list[list[tuple[_Thread, int]]] = [[] for _ in located]
        self._left_out: Counter[str] = Counter()
        folder = anchor.with_suffix("")
        for location in definitions.locations if folder.is_dir() else ():
            file = folder / f"{location._ref}.evt"
            if location.number_of_events and not file.is_file():
                raise _wrong(
                    anchor,
                    f"the events of rank {self._rank_of.get(location.group)} are missing: {file}",
                    "copy the whole archive: the anchor file, its .def file and its folder",
                )

    def take(self, location: Any, event: Any) -> None:
        """Take the next event of a location."""
        thread = self._threads.get(location)
        if thread is None:
            rank = self._rank_of.get(location.group)
            if rank is None:
                return
            thread = self._threads[location] = _Thread(rank)
        thread.advance(event.time)
        kind = type(event).__name__
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(thread, event)
        elif kind in _ONE_SIDED:
            self._left_out["one-sided operations: they are left out"] += 1

    def _on_Enter(self, thread: _Thread, event: Any) -> None:
        self._enter(thread, event.region)

    def _on_CallingContextEnter(self, thread: _Thread, event: Any) -> None:
        self._enter(thread, event.calling_context.region)

    def _enter(self, thread: _Thread, region: Any) -> None:
        if thread.depth:
            thread.depth += 1
        elif region.paradigm == self._library.Paradigm.MPI:
            thread.depth = 1
            thread.call = region.name
        else:
            thread.regions.append(region.name)

    def _on_Leave(self, thread: _Thread, _event: Any) -> None:
        if thread.depth:
            thread.depth -= 1
        elif thread.regions:
            thread.regions.pop()

    _on_CallingContextLeave = _on_Leave

    def _on_BufferFlush(self, thread: _Thread, event: Any) -> None:
        # The recorder wrote events meanwhile: the program did nothing.
        thread.last = event.stop_time

    def _message(
        self, thread: _Thread, sends: bool, peer: int, of: _Communicator, tag: int, bytes: int
    ) -> _Message:
        ranks = [thread.rank] if of.ranks is None else of.ranks
        if of.sides is not None:
            ranks = of.sides[thread.rank in of.sides[0]]
        if peer >= len(ranks):
            verb = "sends to" if sends else "receives of"
            raise _wrong(
                self._anchor,
                f"rank {thread.rank} {verb} rank {peer} of {of.name}",
                f"that has ranks 0 to {len(ranks) - 1}",
            )
        return _Message(sends, ranks[peer], (of.number, tag), bytes, thread.call)

    def _send(self, thread: _Thread, event: Any) -> _Message:
        of = self._communicator(event.communicator)
        return self._message(thread, True, event.receiver, of, event.msg_tag, event.msg_length)

    def _receive(self, thread: _Thread, event: Any) -> _Message:
        of = self._communicator(event.communicator)
        return self._message(thread, False, event.sender, of, event.msg_tag, event.msg_length)

    def _on_MpiSend(self, thread: _Thread, event: Any) -> None:
        thread.add(self._send(thread, event))

    def _on_MpiIsend(self, thread: _Thread, event: Any) -> None:
        message = self._send(thread, event)
        message.blocks = False
        thread.requests[event.request_id] = thread.add(message)

    def _on_MpiIsendComplete(self, thread: _Thread, event: Any) -> None:
        place = thread.requests.pop(event.request_id, None)
        if place is not None:
            thread.add(_Wait(place))

    def _on_MpiRecv(self, thread: _Thread, event: Any) -> None:
        thread.add(self._receive(thread, event))

    def _on_MpiIrecvRequest(self, thread: _Thread, event: Any) -> None:
        thread.begin(event.request_id)

    def _on_MpiIrecv(self, thread: _Thread, event: Any) -> None:
        thread.complete(event.request_id, self._receive(thread, event))

    def _on_MpiProbe(self, thread: _Thread, event: Any) -> None:
        if event.message_id != _UNDEFINED_ID:
            of = self._communicator(event.communicator)
            thread.probed[event.message_id] = event.sender, of, event.tag

    def _on_MpiMrecv(self, thread: _Thread, event: Any) -> None:
        matched = thread.probed.pop(event.message_id, None)
        if matched is not None:
            thread.add(self._message(thread, False, *matched, event.msg_length))

    def _on_MpiImrecvRequest(self, thread: _Thread, event: Any) -> None:
        matched = thread.probed.pop(event.message_id, None)
        if matched is not None:
            # From here on it is known by its request; ids of messages are not negative.
            thread.probed[-1 - event.request_id] = matched
            thread.begin(event.request_id)

    def _on_MpiImrecv(self, thread: _Thread, event: Any) -> None:
        matched = thread.probed.pop(-1 - event.request_id, None)
        if matched is not None:
            message = self._message(thread, False, *matched, event.msg_length)
            thread.complete(event.request_id, message)

    def _on_MpiRequestCancelled(self, thread: _Thread, event: Any) -> None:
        place = thread.requests.pop(event.request_id, None)
        if place is not None:
            thread.steps[place] = _Begun(thread.call)

    def _on_MpiCollectiveEnd(self, thread: _Thread, event: Any) -> None:
        part = self._part(thread, event)
        if part is not None:
            self._together[thread.rank].append((thread, thread.add(part)))

    def _on_NonBlockingCollectiveRequest(self, thread: _Thread, event: Any) -> None:
        place = thread.begin(event.request_id)
        self._together[thread.rank].append((thread, place))

    def _on_NonBlockingCollectiveComplete(self, thread: _Thread, event: Any) -> None:
        part = self._part(thread, event)
        if part is None or event.request_id not in thread.requests:
            thread.requests.pop(event.request_id, None)
        else:
            thread.complete(event.request_id, part)

    def _part(self, thread: _Thread, event: Any) -> _Together | None:
        operation = str(event.collective_op).rsplit(".", 1)[-1]
        if operation not in _COLLECTIVES and operation not in _AS_MESSAGES:
            # Communicators and windows are made or given back.
            return None
        of = self._communicator(event.communicator)
        if of.sides is not None:
            raise _wrong(
                self._anchor,
                f"rank {thread.rank} does `{thread.call}` in {of.name}, which has two groups",
                "collectives are of one group of ranks here",
            )
        size = event.size_sent, event.size_received
        return _Together(of, operation, event.root, *size, thread.call)

    def _communicator(self, comm: Any) -> _Communicator:
        known = self._communicators.get(comm)
        if known is None:
            number = self._numbers[comm]
            ranks: list[int] | None = None
            sides = None
            if isinstance(comm, self._library.definitions.InterComm):
                sides = self._members(comm.groupA), self._members(comm.groupB)
            elif comm.group.group_type != self._library.GroupType.COMM_SELF:
                ranks = self._members(comm.group)
            known = _Communicator(number, comm.name or f"communicator {number}", ranks, sides)
            self._communicators[comm] = known
        return known

    def _members(self, group: Any) -> list[int]:
        return [self._rank_at[location] for location in group.members]

    def finish(self, compute_scale: float, keys: dict[str, Setting]) -> Archive:
        """Give the graph of all that was taken."""
        self._agree()
        messages: set[_Key] = set()
        for thread in self._threads.values():
            thread.compute()
            for place in thread.requests.values():
                if isinstance(thread.steps[place], _Begun):
                    self._left_out["requests that never ended: they are left out"] += 1
            for step in thread.steps:
                if isinstance(step, _Message):
                    messages.add(step.key)
                elif isinstance(step, _Together) and step.operation in _AS_MESSAGES:
                    messages.add((step.communicator.number, _COLLECTIVE_TAG))
        maker = _Maker(len(self._rank_at), messages, compute_scale / self._ticks_per_second, keys)
        processors: Counter[int] = Counter()
        for location, thread in self._threads.items():
            talks = any(isinstance(step, _Message | _Together) for step in thread.steps)
            if talks or location in self._rank_at:
                maker.add(thread, processors[thread.rank])
                processors[thread.rank] += 1
            else:
                self._left_out["threads without messages: they are left out"] += 1
        notes = [*maker.notes.items(), *self._left_out.items()]
        return Archive(
            maker.graph, maker.counted(), tuple(f"{count} {what}" for what, count in notes)
        )

    def _agree(self) -> None:
        """Find what each collective is on all of its ranks."""
        agreed: dict[tuple[_Communicator, int], dict[int, _Together]] = defaultdict(dict)
        for rank, parts in enumerate(self._together):
            done: Counter[_Communicator] = Counter()
            for thread, place in parts:
                part = thread.steps[place]
                if isinstance(part, _Together) and part.communicator.ranks is not None:
                    part.of_all = agreed[part.communicator, done[part.communicator]]
                    part.of_all[rank] = part
                    done[part.communicator] += 1
        for (communicator, number), of_all in agreed.items():
            first, part = next(iter(of_all.items()))
            for rank in communicator.ranks or ():
                other = of_all.get(rank)
                if other is None or other.operation != part.operation:
                    there = f"`{other.name}`" if other is not None else "not there"
                    raise _wrong(
                        self._anchor,
                        f"collective {number + 1} of {communicator.name} is `{part.name}` on "
                        f"rank {first}, and {there} on rank {rank}",
                        "all ranks of a communicator do the same collectives in the same order",
                    )


class _Maker:
    """Makes a graph of the steps of threads, and counts what there is."""

    def __init__(
        self, ranks: int, messages: set[_Key], seconds_per_tick: float, keys: dict[str, Setting]
    ) -> None:
        self.graph = Graph(ranks, **keys)  # type: ignore[arg-type]
        self.notes: Counter[str] = Counter()
        self._seconds_per_tick = seconds_per_tick
        self._groups: dict[_Communicator, RankGroup] = {}
        self._counts: Counter[str] = Counter()
        self._amounts: Counter[str] = Counter()
        # Tags of one communicator stay as they are; those of several are numbered.
        of_one = len({number for number, _ in messages}) == 1
        of_one = of_one and all(tag != _COLLECTIVE_TAG for _, tag in messages)
        self._tags = {
            key: key[1] if of_one else place for place, key in enumerate(sorted(messages))
        }

    def counted(self) -> tuple[tuple[str, str], ...]:
        """Give what there is of each kind, and how much."""
        rows = [("ranks", f"{self.graph.ranks}")]
        for what in sorted(self._counts, key=lambda it: (it != "computations", it)):
            unit = "ns" if what == "computations" else "B"
            amount = f", {self._amounts[what]:,} {unit}" if self._amounts[what] else ""
            rows.append((what, f"{self._counts[what]:,}{amount}"))
        for communicator, group in self._groups.items():
            rows.append((f"process group {communicator.name}", f"{len(group.ranks)} ranks"))
        return tuple(rows)

    def _count(self, what: str, amount: int) -> None:
        self._counts[what] += 1
        self._amounts[what] += amount

    def add(self, thread: _Thread, processor: int) -> None:
        """Add the steps of a thread, one after the other."""
        rank = thread.rank
        last: list[Step] = []
        begun: dict[int, list[Step]] = {}
        for place, step in enumerate(thread.steps):
            match step:
                case _Begun():
                    continue
                case _Wait():
                    last = [*last, *begun.pop(step.place, ())]
                    continue
                case _Compute():
                    time = round(step.ticks * _NANOSECONDS * self._seconds_per_tick)
                    self._count("computations", time)
                    made = self.graph.compute(
                        rank, f"{time} ns", after=last, name=step.name, processor=processor
                    )
                    last = [made]
                    continue
                case _Message():
                    self._count("sends" if step.sends else "receives", step.bytes)
                    steps = [self._message(rank, step, last)]
                case _Together():
                    steps = self._together(rank, step, last)
            if step.blocks:
                last = steps or last
            else:
                begun[place] = steps

    def _message(self, rank: int, step: _Message, after: list[Step]) -> Step:
        call = self.graph.send if step.sends else self.graph.receive
        tag = self._tags[step.key]
        return call(rank, step.peer, step.bytes, tag=tag, after=after, name=step.name)

    def _together(self, rank: int, step: _Together, after: list[Step]) -> list[Step]:
        ranks = step.communicator.ranks
        if ranks is None or len(ranks) == 1:
            return []
        if step.operation in _AS_MESSAGES:
            self._count(step.operation.lower(), step.sent)
            return self._as_messages(rank, step, ranks, after)
        sent = [part.sent for part in step.of_all.values()]
        received = [part.received for part in step.of_all.values()]
        whole = max(sent)
        match step.operation:
            case "BARRIER":
                bytes = 0
            case "BCAST":
                bytes = max(received)
            case "GATHER":
                bytes = whole * len(ranks)
            case "SCATTER":
                bytes = max(received) * len(ranks)
            case "ALLREDUCE":
                # Recorded is a vector for each rank, or in place for each other rank.
                bytes = whole // (len(ranks) - (whole % len(ranks) != 0))
            case "ALLGATHER" | "ALLGATHERV":
                bytes = max(received)
            case "ALLTOALL" | "ALLTOALLV" | "ALLTOALLW":
                bytes = step.sent
            case _:
                bytes = whole
        shares = {"ALLGATHERV": sent, "REDUCE_SCATTER": received}.get(step.operation, [0])
        if step.operation in ("ALLTOALLV", "ALLTOALLW") or len(set(shares)) > 1:
            self.notes[
                "parts in collectives with shares of different sizes: done with equal ones"
            ] += 1
        collective = _COLLECTIVES[step.operation]
        self._count(collective, bytes)
        group = self._groups.get(step.communicator)
        if group is None:
            group = self.graph.group(ranks, step.communicator.name)
            self._groups[step.communicator] = group
        root = ranks[step.root] if step.root < len(ranks) else None
        made = self.graph.together(
            rank, collective, bytes, group=group, root=root, after=after, name=step.name
        )
        return [made]

    def _as_messages(
        self, rank: int, step: _Together, ranks: list[int], after: list[Step]
    ) -> list[Step]:
        """Make the messages of a collective whose shares were recorded."""
        key = step.communicator.number, _COLLECTIVE_TAG

        def message(sends: bool, peer: int, bytes: int, after: list[Step]) -> Step:
            return self._message(rank, _Message(sends, peer, key, bytes, step.name), after)

        if step.operation in ("SCAN", "EXSCAN"):
            # Recorded of the first rank are its own vector, if it gets one, and all that it sends.
            first = step.of_all[ranks[0]]
            bytes = first.received or first.sent // (len(ranks) - 1)
            place = ranks.index(rank)
            if place > 0:
                after = [message(False, ranks[place - 1], bytes, after)]
            if place + 1 < len(ranks):
                after = [message(True, ranks[place + 1], bytes, after)]
            return after
        gathers = step.operation == "GATHERV"
        root = ranks[step.root]
        if rank != root:
            return [message(gathers, root, step.sent if gathers else step.received, after)]
        return [
            message(not gathers, peer, part.sent if gathers else part.received, after)
            for peer, part in sorted(step.of_all.items())
            if peer != root
        ]


@contextmanager
def _said() -> Iterator[list[str]]:
    """Keep what OTF2's library writes to the screen, and give the problem in its first line."""
    first: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield first
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines = file.read().decode(errors="replace").splitlines()
            first.extend(line.split(" error: ")[-1] for line in lines[:1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Say what is in an archive, and write it as a GOAL file; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m viaduct.otf2",
        description="Say what is in an OTF2 archive, and write it as a GOAL file.",
    )
    parser.add_argument("archive", help="its anchor file, such as traces.otf2, or its folder")
    parser.add_argument("goal", nargs="?", help="the GOAL file to write")
    parser.add_argument(
        "--compute-scale",
        type=float,
        metavar="X",
        help="what times of computations are multiplied by, if not 1",
    )
    for collective in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        parser.add_argument(
            f"--{collective}", metavar="ALGORITHM", help=f"how each {collective} is done"
        )
    given = vars(parser.parse_args(arguments))
    archive, goal = given.pop("archive"), given.pop("goal")
    keys = {key: value for key, value in given.items() if value is not None}
    said: list[str] = []
    try:
        with _said() as said:
            recorded = read(archive, **keys)
        if goal is not None:
            recorded.graph.write(goal)
    except (ScenarioError, OSError) as error:
        text = str(error) if isinstance(error, ScenarioError) else f"error: {error}"
        print(
            text, *(f"note: the library says: {line}" for line in said), sep="\n", file=sys.stderr
        )
        return 1
    for what, count in recorded.counts:
        print(f"{what:<22} {count}")
    for note in recorded.notes:
        print(f"warning: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
