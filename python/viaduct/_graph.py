"""Graphs of operations, made by loops."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from viaduct import _arguments, _native
from viaduct._applications import Application
from viaduct._errors import ScenarioError
from viaduct._study import Setting

_FILE = "graph.goal"


class Step(NamedTuple):
    """A step of a graph, for others to wait for."""

    rank: int
    place: int


class RankGroup(NamedTuple):
    """Ranks that do collectives together."""

    number: int
    ranks: tuple[int, ...]


class Graph(Application):
    """What ranks do, step by step: it stands where a `Traffic` does.

    Each step belongs to a rank and may wait for earlier ones of it. Collectives are done by the
    algorithms given here; what the n-th of a group is on one of its ranks, it is on all.

    Parameters
    ----------
    ranks : int
        How many; rank 0 is on host 0, and so on.
    all_reduce, all_gather, reduce_scatter, all_to_all : str, optional
        Algorithms: `"ring"`, `"double-tree"`, ...; the first that each has if left out.
    pieces : int, optional
        In how many pieces a half goes through a double tree.
    group_ranks : int, optional
        How many ranks, one after the other, are a group of a hierarchical all-reduce.
    **keys : str or number
        Any other key of `[traffic]`: `placement="random"`, `eager="unlimited"`.

    Examples
    --------
    >>> import viaduct as via
    >>> graph = via.Graph(4)
    >>> for rank in range(4):
    ...     computed = graph.compute(rank, "250 us")
    ...     summed = graph.together(rank, "all-reduce", "1 MiB", after=computed)
    >>> graph
    <viaduct graph of 4 ranks, 8 steps>
    >>> net = via.Network.single_switch(4, rate="100 Gbit/s", nic="rnic-gen4")
    >>> net.run(traffic=graph).application["ranks"]
    4
    """

    __slots__ = ("_all", "_native", "_ranks")

    _arrivals = "goal"

    def __init__(
        self,
        ranks: int,
        *,
        all_reduce: str | None = None,
        all_gather: str | None = None,
        reduce_scatter: str | None = None,
        all_to_all: str | None = None,
        pieces: int | None = None,
        group_ranks: int | None = None,
        **keys: Setting,
    ) -> None:
        super().__init__({"file": _FILE, **keys})
        algorithms = {
            "all_reduce": all_reduce,
            "all_gather": all_gather,
            "reduce_scatter": reduce_scatter,
            "all_to_all": all_to_all,
        }
        given = [(name, word) for name, word in algorithms.items() if word is not None]
        self._native = _native.Graph(ranks, given, pieces, group_ranks)
        self._ranks = ranks
        self._all: RankGroup | None = None

    def __repr__(self) -> str:
        """Give the counts."""
        ranks, steps = self._native.counts
        return f"<viaduct graph of {ranks} ranks, {steps} steps>"

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self._ranks

    @property
    def operations(self) -> int:
        """How many sends, receives and computations it is made of."""
        return self._native.operations()

    def compute(
        self,
        rank: int,
        time: str,
        *,
        after: Step | Iterable[Step] = (),
        name: str = "",
        processor: int = 1,
    ) -> Step:
        """Keep a processor of a rank busy, once what it waits for has ended.

        Processor 0 handles the messages of its host; the others do nothing else.
        """
        _arguments.quantity("time", time, "900 us")
        places = self._places(rank, after)
        return Step(rank, self._native.compute(rank, time, processor, name, places))

    def send(
        self,
        rank: int,
        to: int,
        bytes: int | str,
        *,
        tag: int = 0,
        after: Step | Iterable[Step] = (),
        name: str = "",
    ) -> Step:
        """Send a message, which a `receive` of the other rank with the same tag takes."""
        places = self._places(rank, after)
        return Step(rank, self._native.send(rank, to, bytes, tag, name, places))

    def receive(
        self,
        rank: int,
        source: int,
        bytes: int | str,
        *,
        tag: int = 0,
        after: Step | Iterable[Step] = (),
        name: str = "",
    ) -> Step:
        """Take a message of another rank: it ends when the message is there."""
        places = self._places(rank, after)
        return Step(rank, self._native.receive(rank, source, bytes, tag, name, places))

    def group(self, ranks: Iterable[int], name: str = "") -> RankGroup:
        """Make a group of ranks that do collectives together."""
        members = tuple(ranks)
        shown = name or f"{len(members)} ranks from {members[0] if members else '?'} on"
        return RankGroup(self._native.group(list(members), shown), members)

    def together(
        self,
        rank: int,
        collective: str,
        bytes: int | str = 0,
        *,
        group: RankGroup | None = None,
        root: int | None = None,
        after: Step | Iterable[Step] = (),
        name: str = "",
    ) -> Step:
        """Take part in a collective of a group, or of all ranks; each member says so.

        `bytes` are the vector, as of `viaduct.collective`; `root` is a rank.
        """
        if group is None:
            self._all = self._all or self.group(range(self._ranks), "all ranks")
            group = self._all
        places = self._places(rank, after)
        number = group.number
        return Step(
            rank, self._native.together(rank, collective, bytes, number, root, name, places)
        )

    def write(self, path: str | PathLike[str]) -> None:
        """Write a GOAL file, which a study names by `arrivals = "goal"`, and LogGOPSim reads."""
        Path(path).write_text(self._native.goal(), encoding="ascii")

    def _places(self, rank: int, after: Step | Iterable[Step]) -> list[int]:
        steps = [after] if isinstance(after, Step) else list(after)
        for step in steps:
            if step.rank != rank:
                raise ScenarioError(
                    f"error: a step of rank {rank} waits for one of rank {step.rank}\n"
                    "help: what another rank did is known by a message, or a collective"
                )
        return [step.place for step in steps]
