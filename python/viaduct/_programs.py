"""Programs as generators: on simulated hosts, and between processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from viaduct import _arguments, _html, _native
from viaduct._errors import FlushedError, ProgramError, RunError
from viaduct._result import Made, Result

Program = Callable[[_native.Host], Any]
"""A generator function of one argument, the host that it runs on."""


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """What programs returned, and when.

    Attributes
    ----------
    returned : dict
        What each program returned, by the name of its host; a host that died has none.
    ended_us : dict
        When each program ended, in microseconds since the start: simulated ones, or real ones.
    end_us : float
        When the last one ended.
    counts : dict
        Of a simulation: messages that arrived, retransmissions and so on, by name.
    events : int
        Of a simulation: its events.
    account : Account or None
        Of a simulation that was asked for it: all messages.
    """

    returned: dict[str, Any]
    ended_us: dict[str, float]
    end_us: float
    counts: dict[str, int]
    events: int
    account: Account | None = None

    def _repr_html_(self) -> str:
        rows = [
            (name, ended_us, repr(self.returned.get(name)))
            for name, ended_us in self.ended_us.items()
        ]
        caption = f"programs, the last of which ended at {self.end_us:g} us"
        return _html.table(caption, ("host", "ended, us", "returned"), rows)


class _Accounted(Made):
    """Of programs: they are run again by the process that has them."""

    __slots__ = ("_native",)

    def __init__(
        self,
        native: _native.Accounted | None,
        kept: tuple[str, str, dict[str, _native.Table]] | None = None,
    ) -> None:
        self._native = native
        self._kept = kept

    def __reduce__(self) -> tuple[Any, ...]:
        return _Accounted, (None, self._keep())

    def _whole(self) -> _native.Accounted:
        if self._native is None:
            raise RunError(
                "error: the programs are in the process that ran them\n"
                "help: ask there, or run them here"
            )
        return self._native

    def save(self, path: str, force: bool) -> None:
        raise RunError(
            "error: no scenario has the programs, so that a run directory could not repeat them\n"
            "help: account.report(path) writes the page"
        )

    def why(self, message: int | None, quantile: float | None) -> tuple[str, str]:
        return self._whole().why(message, quantile)

    def critical_path(self) -> tuple[str, str]:
        raise RunError(
            "error: programs are no graph of operations\nhelp: account.why() explains one message"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Account(Result):
    """All messages that programs have sent, set-up included; `Cluster.run(account=True)` keeps it.

    It has what a study's result has: latencies, links, tables. What it is asked for beyond that
    (`why`, `trace`) runs the programs again, which are to do the same each time.
    """

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about all messages: latency, stages, links, time.

        Parameters
        ----------
        path : str or path
            A file, which is replaced.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        assert isinstance(self._run, _Accounted)
        self._run._whole().report(os.fspath(path))

    def trace(self, path: str | os.PathLike[str], *, messages: int = 200) -> int:
        """Write what the first messages use, for ui.perfetto.dev; this runs the programs again.

        Parameters
        ----------
        path : str or path
            A file, which is replaced.
        messages : int
            How many.

        Returns
        -------
        int
            How many there were.
        """
        assert isinstance(self._run, _Accounted)
        count = _arguments.whole("messages", messages, 1, 1_000_000)
        return self._run._whole().trace(os.fspath(path), count)


def cluster(
    on: str,
    programs: Mapping[str, Program] | Mapping[int, Program] | Sequence[Program],
    *,
    wait: Literal["block", "poll"] = "block",
    traffic: bool = True,
) -> Cluster:
    """Put programs on the hosts of a cluster, one each.

    A program is a generator function. What takes no time to wait for, it calls: `vi.post_send`.
    What it has to wait for, it yields, and gets the result: `message = yield vi.receive_done()`.
    What goes wrong is raised where it yields.

    Parameters
    ----------
    on : str
        `"sim:MODEL"`, hosts of a preset on one switch that costs nothing; `"sim:MODEL@STUDY"`, in
        the network of a study and amid its traffic; `"shm"`, processes of this machine with shared
        memory between them.
    programs : mapping or sequence
        Programs by the names of their hosts, which are hosts 0, 1, 2, ... in this order. In a
        sequence hosts are called `host0`, `host1`, ...; keys that are numbers are hosts of the
        network, called so.
    wait : str
        How programs wait for completions: `"block"` sleeps and is woken, which takes an interrupt;
        `"poll"` looks again and again, which takes a processor. The same on simulated hosts, where
        both cost what the model says, and between processes.
    traffic : bool
        Whether the study's own messages are sent around the programs, which then begin when its
        warm-up is over; without them only its network is there. Means nothing without a study.

    Examples
    --------
    >>> import viaduct as via
    >>> def asks(host):
    ...     vi = host.vi()
    ...     vi.post_receive(host.buffer(64))
    ...     yield vi.connect("answers")
    ...     question = host.buffer(64)
    ...     question[:5] = b"hello"
    ...     yield vi.post_send(question, 5)
    ...     answer = yield vi.receive_done()
    ...     return bytes(answer.data), host.now_us
    >>> def answers(host):
    ...     vi = host.vi()
    ...     vi.post_receive(host.buffer(64))
    ...     yield vi.accept()
    ...     message = yield vi.receive_done()
    ...     yield host.compute("3 us")
    ...     yield vi.post_send(message.buffer, message.length)
    >>> cluster = via.cluster("sim:clan-pio", {"asks": asks, "answers": answers})
    >>> text, when_us = cluster.run().returned["asks"]
    >>> text
    b'hello'

    The same programs between processes:

    >>> via.cluster("shm", {"asks": asks, "answers": answers}).run().returned["asks"][0]
    b'hello'
    """
    model, study = _place(on)
    if isinstance(programs, Mapping):
        pairs = list(programs.items())
    else:
        pairs = list(enumerate(programs))
    if not pairs:
        raise ValueError("no programs: name at least one")
    placed: list[tuple[str, int, Program]] = []
    for number, (key, program) in enumerate(pairs):
        if not callable(program):
            raise TypeError(
                f"the program of {key!r} is to be a generator function, not {program!r}"
            )
        if isinstance(key, int):
            if key < 0:
                raise ValueError(f"hosts are numbered from 0: {key}")
            placed.append((f"host{key}", key, program))
        else:
            placed.append((str(key), number, program))
    if wait not in ("block", "poll"):
        raise ValueError(f'wait is "block" or "poll", not {wait!r}')
    if not isinstance(traffic, bool):
        raise TypeError(f"traffic is True or False, not {_arguments.shown(traffic)}")
    return Cluster._of(on, model, study, placed, wait == "poll", traffic)


def _place(on: str) -> tuple[str, str | None]:
    """Give the model, empty for `shm`, and the study if one is named."""
    if not isinstance(on, str):
        raise TypeError(f'on is a fabric\'s name, as in "shm", not {_arguments.shown(on)}')
    if on == "shm":
        return "", None
    kind, _, rest = on.partition(":")
    model, _, study = rest.partition("@")
    if kind != "sim" or not model:
        raise ValueError(
            f'no fabric {on!r}: "shm", or "sim:MODEL" and "sim:MODEL@STUDY" as in "sim:clan-pio"'
        )
    return model, study or None


class Cluster(_arguments.Made):
    """Programs on their hosts, ready to run; `cluster` makes it."""

    __slots__ = ("_model", "_on", "_polls", "_programs", "_study", "_traffic")
    _made_by = 'viaduct.cluster("sim:clan-pio", programs)'

    _on: str
    _model: str
    _study: str | None
    _programs: list[tuple[str, int, Program]]
    _polls: bool
    _traffic: bool

    @classmethod
    def _of(
        cls,
        on: str,
        model: str,
        study: str | None,
        programs: list[tuple[str, int, Program]],
        polls: bool,
        traffic: bool,
    ) -> Cluster:
        cluster = cls.__new__(cls)
        cluster._on = on
        cluster._model = model
        cluster._study = study
        cluster._programs = programs
        cluster._polls = polls
        cluster._traffic = traffic
        return cluster

    def __repr__(self) -> str:
        """Name the fabric and count the programs."""
        return f"<viaduct cluster {self._on}: {len(self._programs)} programs>"

    def run(
        self,
        *,
        seed: int | None = None,
        timeout: str | float | timedelta = "60 s",
        account: bool = False,
    ) -> ClusterResult:
        """Run the programs until all have ended.

        A program that ends keeps its connections until what it sent has gone.

        Parameters
        ----------
        seed : int, optional
            Of a simulation: the seed of what is drawn for faults and background traffic. The same
            seed gives the same run to the bit.
        timeout : str, float or timedelta
            Of `shm`: how long programs may take, in real time. A simulation needs none: programs
            that wait for ever are an error at once.
        account : bool
            Of a simulation: whether an account of all messages is kept, as `account` of the
            result.

        Raises
        ------
        DeadlockError
            If programs wait for what cannot happen.
        FabricError, DescriptorError
            What a program did not catch, as anything else that it raises; a note says on which
            host.

        Examples
        --------
        >>> import viaduct as via
        >>> def writes(host):
        ...     pair, region = host.queue_pair(), host.region(4096)
        ...     target = yield pair.connect("offers")
        ...     for number in range(10):
        ...         pair.post_write(region, target, immediate=number)
        ...     for _ in range(10):
        ...         yield pair.send_done()
        >>> def offers(host):
        ...     pair, region = host.queue_pair(), host.region(4096, remote_write=True)
        ...     for _ in range(10):
        ...         pair.post_receive(region)
        ...     yield pair.accept(private_data=region.remote())
        ...     for _ in range(10):
        ...         yield pair.receive_done()
        >>> cluster = via.cluster("sim:rnic-gen5", {"writes": writes, "offers": offers})
        >>> account = cluster.run(account=True).account
        >>> account.messages.delivered, account.why(13).document["message"]["size_bytes"]
        (14, 4096)
        """
        seed = _arguments.seed(seed)
        if not isinstance(account, bool):
            raise TypeError(f"account is True or False, not {_arguments.shown(account)}")
        if self._on == "shm":
            if account:
                raise ValueError("an account of messages is kept on simulated hosts alone")
            return _run_processes(self._programs, _native.seconds(timeout), self._polls)
        (ended, end_us, events, counts), accounted = _native.run_simulated(
            self._model, self._study, self._programs, seed, self._polls, self._traffic, account
        )
        names = [name for name, _, _ in self._programs]
        return ClusterResult(
            returned={name: end[0] for name, end in zip(names, ended, strict=True) if end},
            ended_us={name: end[1] for name, end in zip(names, ended, strict=True) if end},
            end_us=end_us,
            counts=dict(counts),
            events=events,
            account=Account._from(_Accounted(accounted)) if accounted else None,
        )


@dataclass(slots=True)
class _Child:
    name: str
    process: BaseProcess
    pipe: Connection


def _run_processes(
    programs: list[tuple[str, int, Program]], timeout_s: float, polls: bool
) -> ClusterResult:
    """Run each program in a process of its own."""
    names = [name for name, _, _ in programs]
    if any(number != place for place, (_, number, _) in enumerate(programs)):
        raise ValueError("processes are hosts 0, 1, 2, ...: other numbers are for simulated hosts")
    # Forked, so that a program may be any function: of a notebook, or one made by another.
    context = multiprocessing.get_context("fork")
    # Other runs of this machine wait at other places.
    run = int.from_bytes(os.urandom(8))
    started_ns = time.monotonic_ns()
    children: list[_Child] = []
    try:
        for rank, (name, _, program) in enumerate(programs):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_child,
                args=(theirs, run, rank, names, program, started_ns, timeout_s, polls),
                name=f"viaduct {name}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Of threads that a fork leaves behind: the child waits for none of them.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            children.append(_Child(name, process, ours))
        return _gather(children, started_ns, timeout_s)
    finally:
        for child in children:
            if child.process.is_alive():
                child.process.kill()
            child.process.join()
            child.process.close()
            child.pipe.close()


def _gather(children: list[_Child], started_ns: int, timeout_s: float) -> ClusterResult:
    """Take what the processes send, until one fails or all have ended."""
    # A process that waits in the fabric says itself that its time is over.
    grace_s = 2.0
    returned: dict[str, Any] = {}
    ended_us: dict[str, float] = {}
    waiting = {child.pipe: child for child in children}
    flushed: FlushedError | None = None
    while waiting:
        left_s = timeout_s + grace_s - (time.monotonic_ns() - started_ns) / 1e9
        if flushed is not None:
            # A peer that failed ended the connection: its own words, if they come, say more.
            left_s = 0.5
        ready = wait(list(waiting), timeout=max(left_s, 0.0))
        if not ready and flushed is not None:
            raise flushed
        if not ready:
            names = ", ".join(child.name for child in waiting.values())
            raise ProgramError(
                f"the time limit of the run, {timeout_s:g} s, has passed: still at work: {names}"
            )
        for pipe in ready:
            assert isinstance(pipe, Connection)
            child = waiting.pop(pipe)
            try:
                value, end_us, error = pickle.loads(pipe.recv_bytes())
            except EOFError:
                child.process.join()
                code = child.process.exitcode
                raise ProgramError(
                    f"the process of {child.name} ended without a word, with code {code}"
                ) from None
            if isinstance(error, FlushedError):
                flushed = flushed or error
                continue
            if error is not None:
                raise error
            returned[child.name] = value
            ended_us[child.name] = end_us
    if flushed is not None:
        raise flushed
    # In the order of the programs.
    return ClusterResult(
        returned={child.name: returned[child.name] for child in children},
        ended_us={child.name: ended_us[child.name] for child in children},
        end_us=max(ended_us.values()),
        counts={},
        events=0,
    )


def _child(
    pipe: Connection,
    run: int,
    rank: int,
    names: list[str],
    program: Program,
    started_ns: int,
    timeout_s: float,
    polls: bool,
) -> None:
    """Run one program in this process, and send its result."""
    elapsed_s = (time.monotonic_ns() - started_ns) / 1e9
    try:
        value, end_us = _native.run_here(run, rank, names, program, elapsed_s, timeout_s, polls)
        message = _pickled(names[rank], (value, end_us, None))
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        error.add_note(f"\nIn the process of {names[rank]}:\n{text}")
        message = _pickled(names[rank], (None, 0.0, error))
    pipe.send_bytes(message)
    pipe.close()


def _pickled(name: str, message: tuple[Any, float, BaseException | None]) -> bytes:
    """Give a message as bytes, or one that says that it cannot be."""
    try:
        data = pickle.dumps(message)
        if message[2] is not None:
            # Not every exception comes back from what it was made into.
            pickle.loads(data)
        return data
    except Exception as failure:
        error = message[2]
        what = f"raised {error!r}" if error is not None else f"returned a {type(message[0])}"
        instead = ProgramError(f"{name} {what}, which no other process can have: {failure}")
        for note in getattr(error, "__notes__", []):
            instead.add_note(note)
        return pickle.dumps((None, 0.0, instead))
