"""How far long work is: a line on a terminal, a bar in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

CELLS = 40
"""Width of a bar on a terminal, in characters."""


class Shown(Protocol):
    """Something that shows how far work is."""

    def show(self, fraction: float, text: str) -> None:
        """Show this state in place of the last."""

    def end(self) -> None:
        """Leave the last state."""


def is_watched() -> bool:
    """Say whether somebody looks on: at a terminal or in a notebook."""
    return _notebook() is not None or (sys.stderr is not None and sys.stderr.isatty())


def shown() -> Shown:
    """Give what shows progress here."""
    display = _notebook()
    return _Line() if display is None else _Bar(display)


def _notebook() -> Any:
    """Give IPython's `display` if this runs in a kernel, whose front end draws HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display


class _Line:
    """A line on stderr that is written again and again."""

    def __init__(self) -> None:
        self._length = 0

    def show(self, fraction: float, text: str) -> None:
        done = round(CELLS * fraction)
        line = f"  run      {'#' * done}{'-' * (CELLS - done)} {text}"
        # What is left of a longer line is wiped out.
        sys.stderr.write(f"\r{line:<{self._length}}")
        sys.stderr.flush()
        self._length = len(line)

    def end(self) -> None:
        if self._length:
            sys.stderr.write("\n")
            sys.stderr.flush()


class _State:
    """A state of a bar, as a notebook shows it."""

    def __init__(self, fraction: float, text: str) -> None:
        self.fraction = fraction
        self.text = text

    def _repr_html_(self) -> str:
        return f'<progress max="1" value="{self.fraction:.4f}"></progress> {self.text}'

    def __repr__(self) -> str:
        return f"{100 * self.fraction:.0f} % {self.text}"


class _Bar:
    """An output of a cell that is exchanged again and again."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, fraction: float, text: str) -> None:
        state = _State(fraction, text)
        if self._handle is None:
            self._handle = self._display(state, display_id=True)
        else:
            self._handle.update(state)

    def end(self) -> None:
        pass


class RunsLeft:
    """The words beside a bar of many runs, with the time left."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._made_before: int | None = None

    def text(self, made: int, asked: int) -> str:
        """Say how many were made, and how long the others will take at this speed."""
        if self._made_before is None:
            # Those of a former time took no time now.
            self._made_before = made
        new = made - self._made_before
        elapsed_s = time.monotonic() - self._started
        if made >= asked:
            return f"{made}/{asked} runs   {elapsed_s:.1f} s"
        if new == 0:
            return f"{made}/{asked} runs"
        return f"{made}/{asked} runs   {elapsed_s * (asked - made) / new:.0f} s left"
