"""Traffic: what hosts send, to whom, how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from viaduct import _arguments, _native
from viaduct._study import Setting

Host = int | str
"""A host: its number, or on a `Network` also its name."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """To whom each host sends; `hops`, `uniform` and the other functions make it."""

    name: str
    """As `traffic.pattern` has it."""
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    """What else it needs, by key of `[traffic]`."""
    hosts: Mapping[str, Host] = field(default_factory=dict)
    """The hosts that it names, by key."""
    pairs: tuple[tuple[Host, Host], ...] = ()

    def keys(self, number: Callable[[Host], int]) -> dict[str, object]:
        """Give the keys of `[traffic]`; `number` gives the number of a host."""
        keys: dict[str, object] = {"pattern": self.name, **self.numbers}
        keys.update((key, number(host)) for key, host in self.hosts.items())
        if self.name == "pairs":
            keys["pairs"] = [[number(source), number(target)] for source, target in self.pairs]
        return keys


def hops(count: int) -> Pattern:
    """Send to the corresponding host so many switches away, straight in a random direction.

    It needs a chain, mesh or torus, generated or recognised: `Network.description` says it.
    """
    return Pattern("straight-line", {"hops": _arguments.whole("hops", count, 1, None)})


def uniform() -> Pattern:
    """Send to any other host, all alike."""
    return Pattern("uniform")


def transpose() -> Pattern:
    """Of n x n hosts, let host (row, column) send to host (column, row)."""
    return Pattern("transpose")


def bit_reversal() -> Pattern:
    """Send to the host whose number has the bits in reverse order."""
    return Pattern("bit-reversal")


def random_permutation() -> Pattern:
    """Send to one other host each, drawn from the seed; nobody receives from two."""
    return Pattern("random-permutation")


def neighbours() -> Pattern:
    """Send to the corresponding hosts of the neighbouring switches in turn; as `hops` needs it."""
    return Pattern("neighbours")


def hot_spot(host: Host, fraction: float) -> Pattern:
    """Send this share of the messages, 0 to 1, to one host, the others to any."""
    return Pattern("hot-spot", {"fraction": fraction}, {"hot": host})


def incast(target: Host) -> Pattern:
    """Send all to one host."""
    return Pattern("incast", hosts={"target": target})


def all_to_all() -> Pattern:
    """Send to every other host in turn."""
    return Pattern("all-to-all")


def pairs(pairs: Iterable[tuple[Host, Host]]) -> Pattern:
    """Send from and to the hosts given; who is named several times takes the targets in turn."""
    listed = [tuple(pair) if isinstance(pair, Iterable) else (pair,) for pair in pairs]
    for pair in listed:
        if len(pair) != 2:
            raise TypeError(f"pairs are of a source and a target, as in (0, 1), not {pair!r}")
    return Pattern("pairs", pairs=tuple((pair[0], pair[1]) for pair in listed))


class Traffic:
    """What hosts send: to whom, how large, how often.

    Parameters
    ----------
    to : Pattern
        `hops(4)`, `uniform()`, `transpose()`, `bit_reversal()`, `random_permutation()`,
        `neighbours()`, `hot_spot(host, fraction)`, `incast(target)`, `all_to_all()` or
        `pairs(...)`.
    size : str, optional
        Of a message, or their mean: `"32 KiB"`.
    rate : str or number, optional
        Messages a second and process; a number is a rate a second.
    interval : str, optional
        In its place: mean time between two messages of a process.
    **keys : str or number
        Any other key of `[traffic]`, which `viaduct keys traffic` lists: `arrivals="ping-pong"`,
        `size_distribution="pareto"`, `start="run.warmup"`.

    Examples
    --------
    >>> import viaduct as via
    >>> traffic = via.Traffic(size="32 KiB", rate=100, to=via.hops(4))
    >>> traffic.settings["traffic.rate"]
    '100/s'
    >>> via.study("torus-1024", set=traffic.settings)["traffic.pattern"]
    'straight-line'
    """

    __slots__ = ("_keys", "to")

    def __init__(
        self,
        *,
        to: Pattern,
        size: str | None = None,
        rate: str | float | None = None,
        interval: str | None = None,
        **keys: Setting,
    ) -> None:
        if not isinstance(to, Pattern):
            raise TypeError(f"to is a pattern such as viaduct.uniform(), not {to!r}")
        self.to = to
        _arguments.quantity("size", size, "32 KiB")
        _arguments.quantity("interval", interval, "10 us")
        if rate is not None and not isinstance(rate, (str, int, float)):
            rate = float(rate) if hasattr(rate, "__float__") else rate
        if isinstance(rate, bool) or not isinstance(rate, (str, int, float, type(None))):
            raise TypeError(
                "rate is a number of messages a second and process, as in 100, or a text, as in "
                f'"100/s", not {_arguments.shown(rate)}'
            )
        known = _native.Study.keys("traffic")
        for key in keys:
            if key not in known:
                raise TypeError(f"traffic has no key {key!r}; its keys are {', '.join(known)}")
        if rate is not None and not isinstance(rate, str):
            rate = f"{rate}/s"
        given = {"size": size, "rate": rate, "interval": interval}
        self._keys: dict[str, Setting] = {
            key: value for key, value in given.items() if value is not None
        }
        self._keys |= keys

    def __repr__(self) -> str:
        """Give pattern and keys."""
        keys = "".join(f", {key}={value!r}" for key, value in self._keys.items())
        return f"<viaduct traffic to {self.to.name}{keys}>"

    def keys(self, number: Callable[[Host], int]) -> dict[str, object]:
        """Give the keys of `[traffic]`; `number` gives the number of a host."""
        return {**self.to.keys(number), **self._keys}

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings for `study(..., set=...)`; hosts must be numbers."""
        keys = self.keys(_number)
        return {f"traffic.{key}": _setting(value) for key, value in keys.items()}


def _number(host: Host) -> int:
    if isinstance(host, str):
        raise TypeError(f"a host of a study has a number, not the name {host!r}")
    return int(host)


def _setting(value: object) -> Setting:
    return value if isinstance(value, (str, int, float)) else str(value)
