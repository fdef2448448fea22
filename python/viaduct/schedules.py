"""Messages of collective operations at fixed times, made with NumPy: `viaduct.Messages`."""

from __future__ import annotations

from viaduct._messages import Messages

__all__ = ["all_to_all", "ring_all_reduce"]


def ring_all_reduce(hosts: int, bytes: int, step_us: float, *, start_us: float = 0.0) -> Messages:
    """Sum `bytes` bytes over hosts 0 to `hosts` - 1 in a ring.

    In each of 2 (`hosts` - 1) steps every host sends a part, `bytes` / `hosts` rounded up, to the
    host after it; `step_us` lies between two steps, however long a part is on its way.

    Examples
    --------
    >>> import viaduct as via
    >>> via.schedules.ring_all_reduce(8, 1 << 20, step_us=400)
    <viaduct 112 messages>
    """
    import numpy

    _check(hosts)
    steps = 2 * (hosts - 1)
    source = numpy.tile(numpy.arange(hosts), steps)
    step = numpy.arange(steps).repeat(hosts)
    return Messages(
        time_us=start_us + step * step_us,
        source=source,
        target=(source + 1) % hosts,
        bytes=-(-bytes // hosts),
    )


def all_to_all(hosts: int, bytes: int, step_us: float = 0.0, *, start_us: float = 0.0) -> Messages:
    """Send `bytes` bytes from each of hosts 0 to `hosts` - 1 to each other one.

    In step k, from 1, a host sends to the k-th after it; `step_us` lies between two steps, 0 posts
    all at once.

    Examples
    --------
    >>> import viaduct as via
    >>> via.schedules.all_to_all(8, 4096, step_us=50)
    <viaduct 56 messages>
    """
    import numpy

    _check(hosts)
    source = numpy.tile(numpy.arange(hosts), hosts - 1)
    step = numpy.arange(hosts - 1).repeat(hosts)
    return Messages(
        time_us=start_us + step * step_us,
        source=source,
        target=(source + 1 + step) % hosts,
        bytes=bytes,
    )


def _check(hosts: int) -> None:
    if hosts < 2:
        raise ValueError(f"hosts = {hosts}; messages need at least 2")
