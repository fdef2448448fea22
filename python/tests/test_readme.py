"""The blocks of Python in the README and the docs run."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/guides/python.md",
    ROOT / "docs/guides/parallel-programs.md",
    ROOT / "docs/guides/python-programs.md",
    ROOT / "docs/sweeps.md",
]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="ascii"), re.M | re.S)
    )
]


def test_there_is_something_to_run() -> None:
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_and_prints_what_it_shows(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment after `print(...)` is what it must print."""
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "block", "exec"), {"__name__": "__main__"})
    shown = re.findall(r"^print\(.*\)  # (.*)$", block, re.M)
    assert printed.getvalue().splitlines() == shown
