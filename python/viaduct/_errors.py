"""What can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viaduct._native import QueuePair
    from viaduct._result import Result
    from viaduct._sweep import Sweep


class Error(Exception):
    """What viaduct raises, but for files that cannot be written (`OSError`) and Ctrl-C."""


class ScenarioError(Error, ValueError):
    """A study or its settings are wrong: the text says where, what, and what instead.

    Examples
    --------
    >>> import viaduct as via
    >>> via.study("torus-1024", set={"links.rate": "856 MByte/s"})
    Traceback (most recent call last):
    ...
    viaduct._errors.ScenarioError: error: ...
    """


class RunError(Error):
    """A scenario cannot be run, or a message not be explained."""


class AssumptionError(Error):
    """A check that a run makes on itself failed, or a run came to a standstill.

    Attributes
    ----------
    result : Result or Sweep
        The result.
    """

    def __init__(self, text: str, result: Result | Sweep) -> None:
        super().__init__(text, result)
        self.result = result

    def __str__(self) -> str:
        """Give the text."""
        return str(self.args[0])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run early.

    It is no `Exception`, so that a loop over runs ends with it.

    Attributes
    ----------
    result : Result
        What there was when the run ended.
    """

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text, result)
        self.result = result

    def __str__(self) -> str:
        """Give the text."""
        return str(self.args[0])


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a sweep early; it is no `Exception`, as `Interrupted` is none.

    Attributes
    ----------
    result : Sweep
        The runs that had been made.
    """

    def __init__(self, text: str, result: Sweep) -> None:
        super().__init__(text, result)
        self.result = result

    def __str__(self) -> str:
        """Give the text."""
        return str(self.args[0])


class FabricError(Error):
    """An operation of a fabric was refused.

    Attributes
    ----------
    code : str
        The code of VIPL without its prefix: `"NoMatch"`, `"InvalidState"`, `"Resource"`, ...
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text, code)
        self.code = code

    def __str__(self) -> str:
        """Give the text."""
        return str(self.args[0])


class TimeLimitError(FabricError, TimeoutError):
    """What a program waited for did not come within its `timeout`."""


class DescriptorError(Error):
    """A descriptor completed in error; its buffer is the program's again.

    Attributes
    ----------
    status : int
        The status word of the descriptor.
    queue_pair : QueuePair or None
        Whose request it was, where a `SharedCompletionQueue` told of it.
    """

    queue_pair: QueuePair | None = None

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text, status)
        self.status = status

    def __str__(self) -> str:
        """Give the text."""
        return str(self.args[0])


class FlushedError(DescriptorError):
    """A descriptor was not processed, since its connection had ended."""


class DeadlockError(Error):
    """Programs wait for what can never happen; the text says who waits for what."""


class ProgramError(Error):
    """A program's process ended without a result, or with one that cannot be passed on."""
