"""What is wrong with an argument, said in a sentence before anything else is done with it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar


def shown(value: object) -> str:
    """Name a value in a message, cut where it would fill the screen."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text}, which is of type {type(value).__name__}"


class Made:
    """A class whose objects come from a function, and who says so to whoever calls it."""

    __slots__ = ()
    _made_by: ClassVar[str]

    def __init__(self, *_given: object, **_named: object) -> None:
        raise TypeError(f"a {type(self).__name__} is made by {self._made_by}")


def whole(name: str, value: Any, least: int, most: int | None) -> int:
    """Take a whole number, of Python or of another library."""
    limits = f"from {least} on" if most is None else f"from {least} to {_power(most)}"
    wanted = f"{name} is a whole number {limits}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{wanted}, not {shown(value)}")
    if number < least or (most is not None and number > most):
        raise ValueError(f"{wanted}, not {number}")
    return number


def seed(value: Any) -> int | None:
    """Take a seed, if one is given."""
    return None if value is None else whole("seed", value, 0, 2**64 - 1)


def settings(value: Any) -> None:
    """Refuse what is no mapping of keys to values."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(
            f'set is a dictionary of keys and values, as in {{"traffic.size": "64 B"}}, not '
            f"{shown(value)}"
        )
    for key in value or ():
        if not isinstance(key, str):
            raise TypeError(f'a key of set is a text, as in "traffic.size", not {shown(key)}')


def quantity(name: str, value: Any, example: str) -> None:
    """Refuse what is no text: a quantity has its unit in it."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f'{name} is a text with its unit, as in "{example}", not {shown(value)}')


def text(name: str, value: Any, example: str) -> None:
    """Refuse what is no text."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f'{name} is a text, as in "{example}", not {shown(value)}')


def _power(number: int) -> str:
    return "2**64 - 1" if number == 2**64 - 1 else str(number)
