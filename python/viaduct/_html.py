"""What a notebook shows: tables of HTML, everything in them escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

ROWS_MAX = 20
"""Rows of a table that are shown."""


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """Write a table with what it is about above, and perhaps a line below."""
    lines = [f"<table><caption>{escape(caption)}</caption>"]
    if heads:
        lines.append(f"<thead><tr>{_cells('th', heads)}</tr></thead>")
    lines.append("<tbody>")
    lines += [f"<tr>{_cells('td', row)}</tr>" for row in rows]
    lines.append("</tbody></table>")
    if note:
        lines.append(f"<p>{escape(note)}</p>")
    return "\n".join(lines)


def preformatted(text: str) -> str:
    """Write a text whose columns are aligned by blanks."""
    return f"<pre>{escape(text)}</pre>"


def number(value: float | None) -> str:
    """Write a number with four digits; a dash where there is none."""
    return "-" if value is None or value != value else f"{value:.4g}"


def _cells(tag: str, values: Iterable[object]) -> str:
    written = (number(value) if isinstance(value, float) else str(value) for value in values)
    return "".join(f"<{tag}>{escape(value)}</{tag}>" for value in written)
