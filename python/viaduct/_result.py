"""The result of a run: plain numbers, units in their names."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Self

from viaduct import _arguments, _html, _native
from viaduct._errors import RunError


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of the whole run: posted = delivered + dropped + in flight."""

    posted: int
    delivered: int
    dropped: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Latency:
    """One-way latency of the messages posted after warm-up, in microseconds.

    All but `count` are NaN if nothing was measured, and `ci95` also if the run was too short.
    """

    count: int
    mean: float
    ci95: float
    """Half width of the 95 % confidence interval of the mean."""
    sd: float
    min: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    floor: float
    """No message of the smallest size over the shortest path can be faster."""
    no_interval: str | None
    """Why there is no interval; none if there is one."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How busy a set of servers was between warm-up and end, as shares of 1."""

    count: int
    utilisation_mean: float
    utilisation_max: float


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Whether the measured part was steady."""

    state: str
    """`steady`, `transient`, `overloaded`, or `unknown` for too short a run."""
    warmup_needed_s: float | None
    """A warm-up that would do, where the given one is too short."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The deepest that queues of one kind became."""

    queue: str
    depth_max: int
    place: int
    """Number of the host or link."""


@dataclass(frozen=True, slots=True)
class Warning:
    """Something that you should know of a run."""

    text: str
    help: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the time of a message or an application went; its text is what `viaduct why` prints."""

    text: str
    document: dict[str, Any]
    """The object of `viaduct why --json`."""

    def __str__(self) -> str:
        """Give the text."""
        return self.text

    def _repr_html_(self) -> str:
        return _html.preformatted(self.text)


@dataclass(frozen=True, slots=True)
class Interfaces:
    """How often what happened on interfaces with endpoints, and on the processors beside them."""

    remaps: int
    """Endpoints moved into a frame."""
    refusals: int
    """Messages refused for the time being."""
    retransmissions: int
    """Messages sent again."""
    switches: int
    """Processors given from one rank to another."""
    blocks: int
    """Waits in which a rank blocked."""


class Made:
    """A run of this process, or what was kept of one that was pickled.

    What is pickled are the summary, its table on the screen and the tables.
    """

    __slots__ = ("_kept",)

    _kept: tuple[str, str, dict[str, _native.Table]] | None

    def _whole(self) -> _native.Run | _native.Accounted:
        raise NotImplementedError

    def _keep(self) -> tuple[str, str, dict[str, _native.Table]]:
        if self._kept is None:
            tables = {name: self.table(name) for name in TABLES}
            self._kept = (self.summary_json(), self.text(), tables)
        return self._kept

    def summary_json(self) -> str:
        return self._kept[0] if self._kept else self._whole().summary_json()

    def text(self) -> str:
        return self._kept[1] if self._kept else self._whole().text()

    def table(self, name: str) -> _native.Table:
        if self._kept:
            return self._kept[2][name]
        table = self._whole().table(name)
        assert table is not None
        return table

    def save(self, path: str, force: bool) -> None:
        raise NotImplementedError

    def why(self, message: int | None, quantile: float | None) -> tuple[str, str]:
        raise NotImplementedError

    def critical_path(self) -> tuple[str, str]:
        raise NotImplementedError


class _Run(Made):
    """Of a study: what takes the whole run is made by running again, the same to the bit."""

    __slots__ = ("_native", "_study")

    def __init__(
        self,
        study: _native.Study,
        native: _native.Run | None,
        kept: tuple[str, str, dict[str, _native.Table]] | None = None,
    ) -> None:
        self._study = study
        self._native = native
        self._kept = kept

    def __reduce__(self) -> tuple[Any, ...]:
        return _Run, (self._study, None, self._keep())

    def save(self, path: str, force: bool) -> None:
        self._whole().save(path, force)

    def why(self, message: int | None, quantile: float | None) -> tuple[str, str]:
        return self._whole().why(message, quantile, None)

    def critical_path(self) -> tuple[str, str]:
        return self._whole().critical_path(None)

    def _whole(self) -> _native.Run:
        if self._native is None:
            assert self._kept is not None
            before = json.loads(self._kept[0])
            native = self._study.run(before["seed"], None)
            if json.loads(native.summary_json())["digest"] != before["digest"]:
                raise RunError(
                    "error: the run was interrupted or made by another version, and comes out "
                    "otherwise when it is made again\n"
                    "help: save it, or ask why, in the process that made it"
                )
            self._native = native
        return self._native


TABLES = ("messages", "links", "series", "queues", "latency", "ranks")
"""Names of the tables of a run."""


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of one run.

    Equal scenarios and seeds give equal results to the bit, which `digest` tells; only `wall_s` and
    `events_per_s` differ.
    """

    study: str
    seed: int
    version: str
    digest: str
    """Hash of every message and the final counts."""
    level: str
    """How the network was computed, a value of `links.model`; or `held`, where packets of
    interfaces with endpoints hold their whole ways."""
    hosts: int
    switches: int
    simulated_s: float
    warmup_s: float
    ended: str
    """`finished`, `message_count`, `event_count`, `interrupted`, `deadlock` or `stalled`."""
    steady_state: SteadyState
    messages: Counts
    latency_us: Latency
    breakdown_us: dict[str, float]
    """Mean time in each stage, in the order in which a message meets them."""
    links_by_class: dict[str, Usage]
    """`mesh`, `host_up`, `host_down`, `tree_up`, `tree_down`; those there are."""
    buses: Usage
    drops: dict[str, int]
    """Messages lost, by cause."""
    queue_depths: list[QueueDepth]
    delivered_bytes: int
    offered_messages_per_s: float | None
    """Posted a second between warm-up and end of traffic; none if the run is too short to tell."""
    carried_messages_per_s: float | None
    """Delivered or dropped a second in the same time."""
    is_unstable: bool
    """Whether more was offered than carried, so that latency grows with the length of the run."""
    events: int
    wall_s: float
    events_per_s: float
    state_bytes: int
    warnings: list[Warning]
    violations: list[str]
    """Checks of the run on itself that failed, and how it came to a standstill; not empty only in
    `AssumptionError.result`."""
    application: dict[str, Any] | None
    """The result of a graph of operations, as in `summary.json`; None if the study has no graph."""
    interfaces: Interfaces | None
    """Of hosts whose interfaces have endpoints; else None."""
    _run: Made

    @classmethod
    def _of(cls, study: _native.Study, run: _native.Run) -> Self:
        return cls._from(_Run(study, run))

    @classmethod
    def _from(cls, run: Made) -> Self:
        summary: dict[str, Any] = json.loads(run.summary_json())
        latency: dict[str, Any] = {
            name: float("nan") if value is None and name != "no_interval" else value
            for name, value in summary["latency_us"].items()
        }
        same = {
            name: summary[name]
            for name in (
                "study seed version digest level hosts switches simulated_s warmup_s ended "
                "breakdown_us drops delivered_bytes offered_messages_per_s carried_messages_per_s "
                "is_unstable events wall_s events_per_s state_bytes violations"
            ).split()
        }
        interfaces = summary.get("interfaces")
        return cls(
            **same,
            interfaces=None if interfaces is None else Interfaces(**interfaces),
            steady_state=SteadyState(**summary["steady_state"]),
            messages=Counts(**summary["messages"]),
            latency_us=Latency(**latency),
            links_by_class={name: Usage(**usage) for name, usage in summary["links"].items()},
            buses=Usage(**summary["buses"]),
            queue_depths=[QueueDepth(**depth) for depth in summary["queue_depths"]],
            application=summary.get("application"),
            warnings=[Warning(**warning) for warning in summary["warnings"]],
            _run=run,
        )

    def __repr__(self) -> str:
        """Give the study, its seed and the mean latency."""
        mean = f"{self.latency_us.mean:.4g} us" if self.latency_us.count else "nothing measured"
        return f"<viaduct result of {self.study}, seed {self.seed}: {mean}, digest {self.digest}>"

    def __str__(self) -> str:
        """Give the table that `viaduct run` shows."""
        return self._run.text().rstrip("\n")

    def _repr_html_(self) -> str:
        latency, number = self.latency_us, _html.number
        rows = [
            ("mean latency, us", f"{number(latency.mean)} +- {number(latency.ci95)}"),
            ("standard deviation, us", latency.sd),
            ("p50, us", latency.p50),
            ("p99, us", latency.p99),
            ("p99.9, us", latency.p999),
            ("unloaded, us", latency.floor),
        ]
        for name, usage in self.links_by_class.items():
            mean, most = 100 * usage.utilisation_mean, 100 * usage.utilisation_max
            busy = f"{number(mean)} (most {number(most)})"
            rows.append((f"{name.replace('_', ' ')} links busy, %", busy))
        counts = self.messages
        rows += [
            ("messages posted", counts.posted),
            ("messages delivered", counts.delivered),
            ("messages dropped", counts.dropped),
            ("messages in flight", counts.in_flight),
            ("steady state", self.steady_state.state),
            ("digest", self.digest),
        ]
        caption = f"{self.study}: {self.hosts} hosts, {self.switches} switches, seed {self.seed}"
        warnings = "; ".join(warning.text for warning in self.warnings)
        note = f"Warnings: {warnings}" if warnings else ""
        return _html.table(caption, ("quantity", "value"), rows, note)

    def table(self, name: str) -> _native.Table:
        """Give a table, which libraries of data frames read through `__arrow_c_stream__`.

        Parameters
        ----------
        name : str
            `messages` (a sample), `links`, `series` (windows of time), `queues` (of links, in these
            windows), `latency` (its distribution) or `ranks` (of a graph of operations).

        Examples
        --------
        >>> import viaduct as via
        >>> import pyarrow
        >>> result = via.study("four-hop", set={"traffic.size": "64 B"}).run()
        >>> pyarrow.table(result.table("latency")).column_names
        ['quantile_fraction', 'latency_us']
        """
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r}; tables are {', '.join(TABLES)}")
        return self._run.table(name)

    @property
    def sample(self) -> _native.Table:
        """An even sample of the messages, one per row."""
        return self.table("messages")

    @property
    def links(self) -> _native.Table:
        """Each directed link."""
        return self.table("links")

    @property
    def series(self) -> _native.Table:
        """The run over time, in windows of equal length."""
        return self.table("series")

    @property
    def latency_distribution(self) -> _native.Table:
        """Quantiles of the latency."""
        return self.table("latency")

    def why(self, message: int | None = None, *, quantile: float | None = None) -> Explanation:
        """Say where every picosecond of one message went; this runs the scenario twice.

        Parameters
        ----------
        message : int, optional
            Its number in order of posting, as in the column `message` of `sample`.
        quantile : float, optional
            In its place: the measured message that this share of all, 0 to 1, is not slower than.
            Without both the slowest is explained.

        Raises
        ------
        RunError
            If there is no such message.

        Examples
        --------
        >>> import viaduct as via
        >>> explanation = via.study("four-hop", set={"traffic.size": "64 B"}).run().why(message=3)
        >>> explanation.document["message"]["message"]
        3
        """
        if message is not None and quantile is not None:
            raise TypeError("give either message or quantile, not both")
        if message is not None:
            message = _arguments.whole("message", message, 0, 2**64 - 1)
        if isinstance(quantile, str) or (quantile is not None and not 0.0 <= quantile <= 1.0):
            raise ValueError(f"quantile is a share from 0 to 1, not {quantile!r}")
        text, document = self._run.why(message, quantile)
        return Explanation(text, json.loads(document))

    def critical_path(self) -> Explanation:
        """Say what the application waited for, step by step; this runs the scenario twice.

        Raises
        ------
        RunError
            If the traffic is no graph of operations.

        Examples
        --------
        >>> import viaduct as via
        >>> net = via.Network.single_switch(4, rate="1 Gbit/s")
        >>> result = net.run(traffic=via.collective("barrier"))
        >>> steps = result.critical_path().document["steps"]
        >>> [step["kind"] for step in steps]
        ['eager', 'eager']
        """
        text, document = self._run.critical_path()
        return Explanation(text, json.loads(document))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the run directory, as `viaduct run --out` does; `viaduct rerun` repeats it.

        Parameters
        ----------
        path : str or path
            Where to write it. The same run that is there is replaced.
        force : bool, optional
            Whether a run of another study, or with other settings or another seed, is replaced as
            well.

        Raises
        ------
        OSError
            If it cannot be written there, or another run is there.
        """
        self._run.save(os.fspath(path), force)
