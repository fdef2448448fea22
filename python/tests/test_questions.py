"""The scripts of docs/questions run, in a short form, and say what the pages say."""

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "questions"


def table(script: str, picture: Path, *arguments: str) -> list[list[str]]:
    """Run a script; give the lines that it prints, cut at tabs."""
    command = [sys.executable, str(SCRIPTS / script), str(picture), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    svg = picture.read_text(encoding="utf-8")
    # Lines with their names: no empty axes.
    assert "<svg" in svg and svg.count("<path") > 20
    return [line.split("\t") for line in ended.stdout.splitlines()]


def number(text: str) -> float:
    return float(text.split()[0])


def test_more_receives_lose_less_and_a_free_processor_needs_fewer(tmp_path: Path) -> None:
    header, *rows = table("receives.py", tmp_path / "p.svg", "--until", "100 ms")
    assert header == ["receives", "interrupts", "polling", "interrupts, half the load"]
    interrupts, polling, half = ([number(row[column]) for row in rows] for column in (1, 2, 3))
    assert interrupts[0] > 30
    assert all(more >= less for more, less in pairwise(interrupts))
    assert all(a <= b for a, b in zip(polling, interrupts, strict=True))
    assert all(a <= b for a, b in zip(half, interrupts, strict=True))
    assert polling[3] == 0 and interrupts[-1] < 0.5


def test_pio_wins_for_short_messages_and_the_choice_is_never_behind(tmp_path: Path) -> None:
    header, *rows, last = table("pio_or_dma.py", tmp_path / "p.svg", "--short")
    assert header == ["bytes", "PIO", "DMA", "by size"]
    for size, *texts in rows:
        pio, dma, chosen = map(number, texts)
        assert chosen == min(pio, dma), size
        assert (pio < dma) == (int(size) < 4096), size
    assert last == ["DMA is quicker from 4096 bytes on"]


@pytest.mark.skipif(not shutil.which("cargo"), reason="the program is built by cargo")
def test_a_shuffled_ring_takes_longer_and_survives(tmp_path: Path) -> None:
    # With the features of all packages, as the tests in Rust have built it.
    build = "cargo build --workspace --example all_reduce --message-format=json-render-diagnostics"
    said = subprocess.run(build.split(), check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    artifacts = [json.loads(line) for line in said.stdout.splitlines()]
    [program] = [file for it in artifacts if (file := it.get("executable"))]
    header, *rows = table("all_reduce.py", tmp_path / "p.svg", "--short", "--program", program)
    assert header == ["vector", "snake", "shuffled"]
    [(vector, snake, shuffled)] = rows
    assert vector == "64 KiB"
    assert 1.05 < number(shuffled) / number(snake) < 1.5
