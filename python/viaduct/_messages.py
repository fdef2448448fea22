"""Traffic message by message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from viaduct import _native
from viaduct._study import Setting

_FILE = "messages.csv"
_UNITS_PS = {"time_ns": 1e3, "time_us": 1e6, "time_ms": 1e9, "time_s": 1e12}


class Messages:
    """Traffic as a list: who sends how many bytes to whom, and when.

    It stands where a `Traffic` does on a `Network`. A message is posted at its time, whatever
    became of the earlier ones; those of one host at one time go in the order given.

    Parameters
    ----------
    time_ns, time_us, time_ms, time_s : array
        One of them: times from the start of the traffic, in any order.
    source, target : array
        Numbers of hosts; with several processes a host, of processes: host times processes a host,
        plus the process's number on its host.
    bytes : array or int
        Payloads, or one for all.
    operation : str or sequence of str
        What each message is, or one for all: `"send"`, `"write"` or `"write-with-immediate"` for a
        remote write, `"read"` for a remote read, which needs a reliable level.
    **keys : str or number
        `start`, `stop` and `reliability` of `[traffic]`: what is due at `stop` or later is not
        posted.

    Arrays are NumPy's, anything else with a buffer, or sequences of numbers.

    Raises
    ------
    ScenarioError
        If the arrays differ in length or a number is out of its range. Hosts are looked at when
        the network is known.

    Examples
    --------
    >>> import viaduct as via
    >>> messages = via.Messages(time_us=[0, 0, 10], source=[0, 1, 2], target=[3, 3, 3], bytes=4096)
    >>> messages
    <viaduct 3 messages>
    >>> net = via.Network.single_switch(4, rate="1 Gbit/s")
    >>> net.run(traffic=messages, until="1 ms").messages.delivered
    3
    """

    __slots__ = ("_keys", "_native")

    def __init__(
        self,
        *,
        source: Any,
        target: Any,
        bytes: Any,
        operation: str | Sequence[str] = "send",
        time_ns: Any = None,
        time_us: Any = None,
        time_ms: Any = None,
        time_s: Any = None,
        **keys: Setting,
    ) -> None:
        times = {"time_ns": time_ns, "time_us": time_us, "time_ms": time_ms, "time_s": time_s}
        given = {unit: time for unit, time in times.items() if time is not None}
        if len(given) != 1:
            names = ", ".join(given) or "none"
            raise TypeError(f"one of time_ns, time_us, time_ms and time_s is given, not {names}")
        if others := keys.keys() - {"start", "stop", "reliability"}:
            raise TypeError(
                f"beside the arrays there are start, stop and reliability, not {sorted(others)}"
            )
        ((unit, time),) = given.items()
        unit_ps = _UNITS_PS[unit]
        self._native = _native.Messages(time, unit_ps, source, target, bytes, operation)
        self._keys = keys

    def __len__(self) -> int:
        """Give the number of messages."""
        return len(self._native)

    def __repr__(self) -> str:
        """Give the number of messages."""
        return f"<viaduct {len(self)} messages>"

    def keys(self, number: Callable[[int | str], int]) -> dict[str, object]:
        """Give the keys of `[traffic]`; hosts have numbers already."""
        return {"arrivals": "list", "file": _FILE, **self._keys}

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file that a study names: `arrivals = "list"` and `file` in `[traffic]`."""
        Path(path).write_text(self._native.csv(), encoding="ascii")
