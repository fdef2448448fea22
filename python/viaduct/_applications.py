"""Applications: what ranks do, step by step, in place of traffic that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath

from viaduct import _arguments, _native
from viaduct._study import Setting
from viaduct._traffic import Host, _number, _setting


class Application:
    """What all processes do until they have done it: it stands where a `Traffic` does."""

    __slots__ = ("_keys",)

    _arrivals = ""

    def __init__(self, keys: Mapping[str, Setting]) -> None:
        known = _native.Study.keys("traffic")
        for key in keys:
            if key not in known:
                raise TypeError(f"traffic has no key {key!r}; its keys are {', '.join(known)}")
        self._keys = dict(keys)

    def __repr__(self) -> str:
        """Give its keys."""
        keys = ", ".join(f"{key}={value!r}" for key, value in self._keys.items())
        return f"<viaduct {type(self).__name__.lower()} {keys}>"

    def keys(self, number: Callable[[Host], int]) -> dict[str, object]:
        """Give the keys of `[traffic]`; no host is named in them."""
        return {"arrivals": self._arrivals, **self._keys}

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings for `study(..., set=...)`."""
        return {f"traffic.{key}": _setting(value) for key, value in self.keys(_number).items()}


class Collective(Application):
    """What ranks do together, by name; `collective` makes it."""

    __slots__ = ()

    _arrivals = "collective"


class Program(Application):
    """What the ranks of a parallel program do; `program` makes it."""

    __slots__ = ()

    _arrivals = "program"


class Trace(Application):
    """What was recorded of a training step; `trace` makes it."""

    __slots__ = ()

    _arrivals = "chakra"


class SimgridTrace(Trace):
    """What was recorded of an MPI program for SimGrid; `trace` makes it."""

    __slots__ = ()

    _arrivals = "simgrid"


def collective(
    name: str, *, bytes: str | None = None, algorithm: str | None = None, **keys: Setting
) -> Collective:
    """Let all processes do a collective operation: it stands where a `Traffic` does.

    Parameters
    ----------
    name : str
        `"barrier"`, `"broadcast"`, `"reduce"`, `"gather"`, `"scatter"`, `"all-reduce"`,
        `"all-gather"`, `"reduce-scatter"` or `"all-to-all"`.
    bytes : str, optional
        The vector: of an all-gather all that a rank gets, of a reduce-scatter and an all-to-all
        all that it has, of a gather and a scatter all that the root gets or has; 1 MiB if left out.
    algorithm : str, optional
        How: `"ring"`, `"recursive-doubling"`, ...; the first that the collective has if left out.
    **keys : str or number
        Any other key of `[traffic]`: `ranks=64`, `eager="unlimited"`, `placement="random"`.

    Examples
    --------
    >>> import viaduct as via
    >>> net = via.Network.torus([4, 4], rate="856 Mbit/s")
    >>> result = net.run(traffic=via.collective("all-reduce", bytes="64 KiB"))
    >>> result.application["operations_ended"], result.application["collective"]["algorithm"]
    (960, 'ring')
    """
    if not isinstance(name, str):
        raise TypeError(f"name is a collective, as in 'all-reduce', not {_arguments.shown(name)}")
    _arguments.quantity("bytes", bytes, "16 MiB")
    given = {"collective": name, "bytes": bytes, "algorithm": algorithm}
    return Collective({key: value for key, value in given.items() if value is not None} | keys)


def program(
    name: str,
    *,
    operations_per_second: float,
    class_: str | None = None,
    ranks: int | None = None,
    iterations: int | None = None,
    **keys: Setting,
) -> Program:
    """Let the ranks carry out a parallel program by name: it stands where a `Traffic` does.

    Parameters
    ----------
    name : str
        A NAS benchmark: `"nas-ep"`, `"nas-is"`, `"nas-ft"`, `"nas-cg"`, `"nas-mg"`, `"nas-lu"`,
        `"nas-sp"` or `"nas-bt"`; or `"linpack"` or `"radix-sort"`.
    operations_per_second : float
        How fast a processor is, in what the program itself counts.
    class_ : str, optional
        How large the problem of a NAS benchmark is, from `"S"` to `"C"`; `"A"` if left out.
    ranks : int, optional
        Between how many; one for each process if left out.
    iterations : int, optional
        Its first ones alone; all if left out.
    **keys : str or number
        Any other key of `[traffic]`: `order=4000` of `"linpack"`, `keys=65536` of `"radix-sort"`,
        `placement="random"`.

    Examples
    --------
    >>> import viaduct as via
    >>> net = via.Network.single_switch(16, rate="856 Mbit/s", nic="giganet-clan")
    >>> cg = via.program("nas-cg", operations_per_second=30e6, class_="S", iterations=1)
    >>> result = net.run(traffic=cg)
    >>> result.application["ranks"], result.application["operations_ended"]
    (16, 6096)
    """
    if not isinstance(name, str):
        raise TypeError(f"name is a program, as in 'nas-cg', not {_arguments.shown(name)}")
    given: dict[str, Setting | None] = {
        "program": name,
        "operations_per_second": operations_per_second,
        "class": class_,
        "ranks": ranks,
        "iterations": iterations,
    }
    return Program({key: value for key, value in given.items() if value is not None} | keys)


def trace(file: str | PathLike[str], *, format: str = "chakra", **keys: Setting) -> Trace:
    """Let the ranks carry out a recorded trace: it stands where a `Traffic` does.

    Parameters
    ----------
    file : str or path
        Of Chakra one file, which every rank carries out; or a folder with a file for each, or what
        stands before `.0.et` in their names. Of SimGrid one file of all ranks, one that lists those
        of ranks, or a folder.
    format : str
        `"chakra"`, an execution trace of a training step; or `"simgrid"`, a time-independent trace
        of an MPI program.
    **keys : str or number
        Any other key of `[traffic]`: `groups="groups.json"` names the process groups,
        `all_reduce="double-tree"` an algorithm, `compute_scale=0.5` halves the computations,
        `operations_per_second=2e9` says how long those take that count operations.

    Examples
    --------
    >>> import viaduct as via
    >>> net = via.Network.torus([4, 4], rate="100 Gbit/s", nic="rnic-gen4")
    >>> result = net.run(traffic=via.trace("step.et"))  # doctest: +SKIP
    >>> result.application["makespan_us"]  # doctest: +SKIP
    12345.6
    """
    if not isinstance(file, (str, PathLike)):
        raise TypeError(f"file is the path of a trace, not {_arguments.shown(file)}")
    formats = {"chakra": Trace, "simgrid": SimgridTrace}
    if format not in formats:
        raise TypeError(f"format is 'chakra' or 'simgrid', not {_arguments.shown(format)}")
    return formats[format]({"file": str(fspath(file))} | keys)
