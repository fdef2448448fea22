"""Studies: read, set, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath

from viaduct import _arguments, _html, _native, _progress
from viaduct._errors import AssumptionError, Interrupted, ScenarioError
from viaduct._result import Result

Setting = str | int | float | bool
"""A value of a key: a text with its unit (`"32 KiB"`), or a plain number."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    simulated_s: float
    until_s: float
    events: int

    @property
    def fraction(self) -> float:
        """Share of the simulated time, 0 to 1."""
        return min(self.simulated_s / self.until_s, 1.0) if self.until_s > 0 else 1.0


def study(name_or_path: str | PathLike[str], set: Mapping[str, Setting] | None = None) -> Study:
    """Read a study that is built in, by its name, or a file.

    Parameters
    ----------
    name_or_path : str or path
        `viaduct.studies()` lists the names.
    set : mapping, optional
        Values over those of the study, as `--set` of the command takes them: keys are paths such as
        `traffic.size` or their ends, `viaduct keys` lists them.

    Raises
    ------
    ScenarioError
        If the study or a setting is wrong.

    Examples
    --------
    >>> import viaduct as via
    >>> torus = via.study("torus-1024", set={"traffic.rate": 400})
    >>> torus["traffic.rate"], torus["traffic.size"]
    ('400/s', '32 KiB')
    """
    if not isinstance(name_or_path, (str, PathLike)):
        raise TypeError(
            'a study is read by its name, as in "torus-1024", or by the path of its file, not by '
            f"{_arguments.shown(name_or_path)}"
        )
    return Study._of(_native.Study.load(fspath(name_or_path), _texts(set)))


def parse_study(text: str, set: Mapping[str, Setting] | None = None) -> Study:
    """Read the text of a study, in TOML; files that it names must stand in its `[files]`.

    Examples
    --------
    >>> import viaduct as via
    >>> again = via.parse_study(via.study("torus-1024").to_toml())
    >>> again.name
    'torus-1024'
    """
    _arguments.text("the text of a study", text, "[run] ...")
    return Study._of(_native.Study.parse(text, _texts(set)))


def studies() -> dict[str, str]:
    """Give the names and titles of the studies that are built in.

    Examples
    --------
    >>> import viaduct as via
    >>> "torus-1024" in via.studies()
    True
    """
    return {name: title for name, title, _question in _native.studies()}


def models() -> list[str]:
    """Give the names of the presets of hosts and NICs that are built in.

    Examples
    --------
    >>> import viaduct as via
    >>> "giganet-clan" in via.models()
    True
    """
    return _native.models()


def network_models() -> list[str]:
    """Give the names of the presets of switches and cables that are built in, for `links.preset`.

    Examples
    --------
    >>> import viaduct as via
    >>> "infiniband-ndr" in via.network_models()
    True
    """
    return _native.network_models()


class Study(_arguments.Made):
    """A study that was read, ready to run; `study` and `parse_study` make it."""

    __slots__ = ("_study",)
    _made_by = 'viaduct.study("torus-1024"), by name or path, or by viaduct.parse_study(text)'

    _study: _native.Study

    @classmethod
    def _of(cls, native: _native.Study) -> Study:
        study = cls.__new__(cls)
        study._study = native
        return study

    @property
    def name(self) -> str:
        """Its name: that of the built-in study or of the file."""
        return self._study.name

    @property
    def title(self) -> str:
        """One line that names it; empty if it has none."""
        return self._study.title

    @property
    def question(self) -> str:
        """What it answers; empty if it does not say."""
        return self._study.question

    @property
    def sweep(self) -> dict[str, list[str]]:
        """The keys that it runs over, the first one slowest; empty if it is one run."""
        return dict(self._study.sweep)

    @property
    def point(self) -> dict[str, str]:
        """Of a point of a sweep: the swept keys and their values here."""
        return dict(self._study.point)

    @property
    def warnings(self) -> str:
        """What you should know before it is run, as the command prints it."""
        return self._study.warnings

    def __getitem__(self, key: str) -> str:
        """Give the value of a key, by its whole path, as a person writes it."""
        value = self._study.value(key)
        if value is None:
            raise KeyError(f"{key!r} has no value here; `viaduct keys` lists the keys")
        return value

    def points(self) -> list[Study]:
        """Give the points of the sweep; the study itself if it has none."""
        return [Study._of(point) for point in self._study.points()]

    def to_toml(self) -> str:
        """Give the whole scenario: it runs again from this text alone, to the same result."""
        return self._study.to_toml()

    def __repr__(self) -> str:
        """Name the study and its title."""
        return f"<viaduct study {self.name}: {self.title}>"

    def _repr_html_(self) -> str:
        rows = [("name", self.name), ("title", self.title), ("question", self.question)]
        rows += [(f"runs over {key}", ", ".join(values)) for key, values in self.sweep.items()]
        rows += list(self.point.items())
        shown = [row for row in rows if row[1]]
        return _html.table("viaduct study", (), shown, self.warnings)

    def run(
        self,
        *,
        seed: int | None = None,
        set: Mapping[str, Setting] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> Result:
        """Run it. Other threads of Python go on meanwhile.

        Parameters
        ----------
        seed : int, optional
            Seed of all random streams, 0 to 2**64 - 1; otherwise the study's.
        set : mapping, optional
            Values over those of the study, for this run.
        progress : bool or callable, optional
            True shows a line on stderr or a bar in a notebook, False nothing, None the same where
            somebody looks on; a function is called with a `Progress` five times a second.

        Raises
        ------
        ScenarioError
            If a setting is wrong, or the study is a sweep: run its `points`.
        RunError
            If it cannot be run.
        AssumptionError
            If a check of the run on itself failed, or it came to a standstill.
        Interrupted
            On Ctrl-C, with what there is as its `result`.

        Examples
        --------
        >>> import viaduct as via
        >>> study = via.study("four-hop", set={"traffic.size": "64 B"})
        >>> one, two = study.run(seed=7), study.run(seed=7)
        >>> one.digest == two.digest
        True
        """
        seed = _arguments.seed(seed)
        native = self._study.with_settings(_texts(set)) if set else self._study
        if native.sweep:
            keys = ", ".join(key for key, _values in native.sweep)
            raise ScenarioError(
                f"error: `{native.name}` is a sweep over {keys}\n"
                "help: run its points, as in [point.run() for point in study.points()]"
            )
        report, finish = _reporter(progress)
        try:
            run = native.run(seed, report)
        finally:
            finish()
        result = Result._of(native, run)
        if broken := run.broken():
            raise AssumptionError(broken, result)
        if result.ended == "interrupted":
            text = f"stopped after {result.simulated_s:g} s of simulated time; see `.result`"
            raise Interrupted(text, result)
        return result


def _texts(settings: Mapping[str, Setting] | None) -> list[str]:
    """Write settings as options `--set`."""
    _arguments.settings(settings)
    return [f"{key}={_text(value)}" for key, value in (settings or {}).items()]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, Sequence):
        raise TypeError(
            "a setting has one value; for several, run the study for each, or use viaduct.sweep"
        )
    # Numbers of NumPy and other libraries.
    return str(float(value)) if hasattr(value, "__float__") else str(value)


_Report = Callable[[float, float, int], object]


def _reporter(
    progress: bool | Callable[[Progress], object] | None,
) -> tuple[_Report | None, Callable[[], object]]:
    """Give what a run calls now and then, and what is called at its end."""
    if progress is None:
        progress = _progress.is_watched()
    if progress is False:
        return None, lambda: None
    if progress is not True and not callable(progress):
        raise TypeError(
            f"progress is True, False, None or a function, not {_arguments.shown(progress)}"
        )
    if progress is True:
        shown = _progress.shown()

        def show(simulated_s: float, until_s: float, events: int) -> None:
            now = Progress(simulated_s, until_s, events)
            place = f"{simulated_s:.3g} of {until_s:.3g} s"
            shown.show(now.fraction, f"{place}   {events / 1e6:.1f} M events")

        return show, shown.end
    call = progress
    return lambda *numbers: call(Progress(*numbers)), lambda: None
