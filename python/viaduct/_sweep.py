"""Sweeps: a study over values of its keys and over seeds, here or on other processors."""

from __future__ import annotations

import functools
import json
import operator
import os
import queue
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Protocol

from viaduct import _arguments, _html, _native, _progress
from viaduct._errors import AssumptionError, Error, RunError, SweepInterrupted
from viaduct._study import Setting, Study, _text

Values = Setting | Iterable[Setting | Iterable[Setting]]
"""One value of a key, or those that it runs over; a text as the command's `--set` takes it."""

TASK_S = 0.1
"""Seconds that a task of an executor should take: long beside what handing it over costs."""

TASKS_A_WORKER = 2
"""Tasks in hand for each worker: one that it makes and one that waits for it."""

WORKERS_UNKNOWN = 64
"""Workers taken for granted of an executor that does not say how many it has."""

BETWEEN_LOOKS_S = 0.2
"""Seconds between two reports of progress."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is."""

    made: int
    """Runs made."""
    asked: int
    """Runs asked for so far; with `until_width`, more may follow."""

    @property
    def fraction(self) -> float:
        """Share of the runs asked for, 0 to 1."""
        return self.made / self.asked if self.asked else 1.0


class Task(Protocol):
    """What an executor gives for a call: a `Future`."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> object:
        """Call with itself when it has ended."""

    def result(self) -> Any:
        """Give its result, or raise what it raised."""

    def cancel(self) -> object:
        """Take it back if it has not begun."""


class Executor(Protocol):
    """What makes calls elsewhere, as `concurrent.futures.Executor` does."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> Any:
        """Have the call made, and give a `Task`."""


class MakesStudy(Protocol):
    """What has a study, such as a network with what was said of it."""

    def study(self) -> Study:
        """Give it."""


class Sweep(_arguments.Made):
    """The results of a sweep: a table with one row per run, which data frames read without a copy.

    Attributes
    ----------
    document : dict
        The object of `viaduct sweep --json`: the cells with their means over the seeds.
    table : Table
        One row per cell and seed; `sweep.parquet` of the command is the same.
    """

    __slots__ = ("_text", "document", "table")
    _made_by = 'viaduct.sweep("torus-1024", size=["1 KiB", "32 KiB"])'

    _text: str

    document: dict[str, Any]
    table: _native.Table

    @classmethod
    def _of(cls, table: _native.Table, document: dict[str, Any], text: str) -> Sweep:
        sweep = cls.__new__(cls)
        sweep.table = table
        sweep.document = document
        sweep._text = text
        return sweep

    @property
    def study(self) -> str:
        """Name of the study."""
        return str(self.document["study"])

    @property
    def digest(self) -> str:
        """Hash over all runs in the order of cells and seeds: equal sweeps, equal digests."""
        return str(self.document["digest"])

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells: `set`, `status`, `reason`, `latency_mean_us` and means over their seeds."""
        return list(self.document["cells"])

    @property
    def runs_not_begun(self) -> int:
        """Runs that were asked for and not made: 0 unless it was interrupted."""
        return int(self.document["runs_not_begun"])

    @property
    def columns(self) -> list[str]:
        """Names of the table's columns."""
        return self.table.columns

    def dictionary(self) -> list[tuple[str, str, str]]:
        """Give name, unit and meaning of each column."""
        return self.table.dictionary()

    def __len__(self) -> int:
        """Give the number of runs, those that failed included."""
        return len(self.table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Give the table as a stream of Arrow's C interface."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        """Give the table of the command: one row per cell."""
        return self._text

    def _repr_html_(self) -> str:
        return _html.preformatted(self._text)

    def __repr__(self) -> str:
        """Name the study and how many runs there are."""
        return f"<viaduct sweep of {self.study}: {len(self.cells)} cells, {len(self)} runs>"


def sweep(
    study: str | PathLike[str] | Study | MakesStudy,
    set: Mapping[str, Values] | None = None,
    *,
    seeds: int = 1,
    seed: int | None = None,
    until_width: float | str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    threads: int | None = None,
    directory: str | PathLike[str] | None = None,
    progress: bool | Callable[[SweepProgress], object] | None = None,
    **keys: Values,
) -> Sweep:
    """Run a study over values of its keys: each combination is a cell, run with the same seeds.

    The runs are made on threads of this process, or by an executor; the answer is the same to the
    bit. A cell that fails is a row with its reason, and the others go on.

    Parameters
    ----------
    study : str, path, Study, or what has a method `study`
        A study that is built in, by its name, a file, one that was read, or what makes one.
    set : mapping, optional
        Values by key. A key with several values, as in `[64, 128]`, `range(1, 9)` or a NumPy
        array, is run over; one with a single value has it in every cell. A text may have what the
        command's `--set` takes: `"64 B,1 KiB"`, `"100..800:100"`.
    seeds : int, optional
        Runs of each cell; with `until_width`, at most.
    seed : int, optional
        The first seed; otherwise the study's.
    until_width : float or str, optional
        A cell has enough seeds once the 95 % interval of its mean latency is within this share of
        the mean on either side: `"5%"` or 0.05.
    executor : optional
        Whatever has `submit` as `concurrent.futures.Executor` has: its processes and threads,
        `mpi4py.futures.MPIPoolExecutor`, `get_executor()` of a Dask client.
    workers : int, optional
        How many tasks the executor makes at a time, where it does not say so itself.
    threads : int, optional
        Threads of this process, without an executor; otherwise one a processor.
    directory : path, optional
        Where to keep what `viaduct sweep --out` keeps. A sweep that was stopped goes on when it is
        called again with the same directory, or by `viaduct sweep --resume`.
    progress : bool or callable, optional
        True shows a line on stderr or a bar in a notebook, False nothing, None the same where
        somebody looks on; a function is called with a `SweepProgress` some times a second.
    **keys
        Values by a word: of a key of the traffic, such as `rate=[100, 400]` for `traffic.rate`,
        else by the end of a key's path.

    Raises
    ------
    ScenarioError
        If the study or a setting is wrong in every cell.
    RunError
        If the directory cannot be used, or the executor's workers failed.
    AssumptionError
        If a check of a run on itself failed, or one came to a standstill.
    SweepInterrupted
        On Ctrl-C, with what there is as its `result`.

    Examples
    --------
    >>> import viaduct as via
    >>> sizes = via.sweep("four-hop", size=["64 B", "1 KiB"], seeds=2)
    >>> [cell["set"]["traffic.size"] for cell in sizes.cells], len(sizes)
    (['64 B', '1 KiB'], 4)
    >>> sizes.columns[:5]
    ['cell', 'seed', 'traffic_size', 'traffic_size_bytes', 'status']
    """
    _arguments.settings(set)
    seed = _arguments.seed(seed)
    seeds = _arguments.whole("seeds", seeds, 1, 100_000)
    threads = None if threads is None else _arguments.whole("threads", threads, 1, None)
    workers = None if workers is None else _arguments.whole("workers", workers, 1, None)
    if isinstance(until_width, bool) or not isinstance(until_width, (str, float, int, type(None))):
        raise TypeError(
            f'until_width is a share, as in "5%" or 0.05, not {_arguments.shown(until_width)}'
        )
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor has no method `submit`: {type(executor).__name__}; give one like "
            "concurrent.futures.ProcessPoolExecutor()"
        )
    words = {_native.Sweep.key(word): values for word, values in keys.items()}
    settings = [_setting(key, values) for key, values in {**(set or {}), **words}.items()]
    if seed is not None:
        settings.append((f"run.seed={seed}", False))
    native = _native.Sweep.begin(
        _subject(study),
        settings,
        seeds,
        None if until_width is None else str(until_width),
        None if directory is None else fspath(directory),
    )
    report, finish = _reporter(progress)
    try:
        if executor is None:
            is_whole = native.run(threads, report)
        else:
            is_whole = _run_elsewhere(native, executor, workers or _workers(executor), report)
    finally:
        finish()
    table, document, text, broken = native.outcome()
    result = Sweep._of(table, json.loads(document), text)
    if broken:
        raise AssumptionError(broken, result)
    if not is_whole:
        left = result.runs_not_begun
        raise SweepInterrupted(f"stopped with {left} runs left to make; see `.result`", result)
    return result


def _subject(given: object) -> _native.Study | str:
    if not isinstance(given, Study) and callable(made := getattr(given, "study", None)):
        given = made()
    if isinstance(given, Study):
        return given._study
    if isinstance(given, (str, os.PathLike)):
        return str(fspath(given))
    raise TypeError(f"a sweep is of a study, its name or its file, not of {type(given).__name__}")


def _setting(key: str, values: Values) -> tuple[str, bool]:
    """Write a setting as an option `--set`, and say whether it is run over."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return f"{key}={values if isinstance(values, str) else _number(values)}", False
    texts = [_element(value) for value in values]
    if not texts:
        raise ValueError(f"{key} has no value: give one or several")
    return f"{key}={','.join(texts)}", True


def _element(value: object) -> str:
    if isinstance(value, str):
        # A text with a comma or a range is one value here.
        is_plain = not any(sign in value for sign in (",", "..", '"', "'"))
        return value if is_plain else json.dumps(value)
    if isinstance(value, Iterable):
        return f"[{', '.join(_inner(part) for part in value)}]"
    return _number(value)


def _inner(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else _number(value)


def _number(value: object) -> str:
    """Write a number of Python, NumPy or another library; whole ones without a point."""
    if isinstance(value, bool):
        return _text(value)
    try:
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        return _text(value)


_Report = Callable[[int, int], object]


def _reporter(
    progress: bool | Callable[[SweepProgress], object] | None,
) -> tuple[_Report | None, Callable[[], object]]:
    """Give what is called now and then, and what is called at the end."""
    if progress is None:
        progress = _progress.is_watched()
    if progress is False:
        return None, lambda: None
    if progress is True:
        shown, words = _progress.shown(), _progress.RunsLeft()

        def show(made: int, asked: int) -> None:
            shown.show(SweepProgress(made, asked).fraction, words.text(made, asked))

        return show, shown.end
    call = progress
    return lambda made, asked: call(SweepProgress(made, asked)), lambda: None


def _workers(executor: Any) -> int:
    """Say how many tasks an executor makes at a time."""
    # mpi4py has a name for it; Dask's executor has a client that counts; the standard library's
    # keep theirs to themselves.
    client = getattr(executor, "_client", executor)
    if callable(getattr(client, "ncores", None)):
        return max(1, int(sum(client.ncores().values())))
    for name in ("num_workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return WORKERS_UNKNOWN


def _run_elsewhere(
    native: _native.Sweep, executor: Executor, workers: int, report: _Report | None
) -> bool:
    """Have the runs made by an executor; say whether all were."""
    plan = native.plan
    ended: queue.SimpleQueue[Task] = queue.SimpleQueue()
    under_way: dict[Task, None] = {}
    runs_made, spent_s, told = 0, 0.0, 0.0
    try:
        while True:
            while len(under_way) < TASKS_A_WORKER * workers:
                ready = native.counts()[2]
                # Later tasks are smaller, so that the workers end together.
                share = -(-ready // (TASKS_A_WORKER * workers))
                enough = int(TASK_S * runs_made / spent_s) if spent_s else 1
                runs = native.take(max(1, min(share, enough)))
                if not runs:
                    break
                task: Task = executor.submit(_make_runs, plan, runs)
                under_way[task] = None
                task.add_done_callback(ended.put)
            if not under_way:
                return True
            try:
                task = ended.get(timeout=BETWEEN_LOOKS_S)
            except queue.Empty:
                pass
            else:
                del under_way[task]
                lines, took_s = _result(task)
                native.keep(lines)
                runs_made, spent_s = runs_made + len(lines), spent_s + took_s
            if report is not None and time.monotonic() - told >= BETWEEN_LOOKS_S:
                told = time.monotonic()
                report(*native.counts()[:2])
    except KeyboardInterrupt:
        _keep_ended(native, ended)
        return False
    finally:
        for task in under_way:
            task.cancel()
        if report is not None and not under_way:
            report(*native.counts()[:2])


def _result(task: Task) -> tuple[list[str], float]:
    try:
        lines, took_s = task.result()
    except Error:
        raise
    except Exception as error:
        raise RunError(
            f"error: a worker of the executor failed: {type(error).__name__}: {error}\n"
            "help: each worker needs this version of viaduct, and memory for the runs it makes"
        ) from error
    return lines, took_s


def _keep_ended(native: _native.Sweep, ended: queue.SimpleQueue[Task]) -> None:
    """Keep what had come back, but had not been looked at, when the user stopped all."""
    while not ended.empty():
        try:
            lines, _took_s = ended.get_nowait().result()
        except (Exception, KeyboardInterrupt):
            # Workers hear Ctrl-C as well.
            continue
        native.keep(lines)


@functools.lru_cache(maxsize=4)
def _maker(plan: str) -> _native.RunMaker:
    return _native.RunMaker(plan)


def _make_runs(plan: str, runs: list[tuple[int, int]]) -> tuple[list[str], float]:
    """Make runs in whatever process this is: their lines, and the seconds they took."""
    return _maker(plan).make(runs)
