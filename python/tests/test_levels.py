"""The tables of docs/levels.md are what its command measures."""

import csv
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", ROOT / "docs/levels/table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["table"] = module
    spec.loader.exec_module(module)
    return module


def stored() -> list[dict[str, str]]:
    with (ROOT / "sim/cluster/src/levels.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_page_shows_what_is_stored() -> None:
    page = (ROOT / "docs/levels.md").read_text()
    shown = re.search(r"<!-- tables -->\n(.*)<!-- end of tables -->", page, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == table().tables(stored()).strip()


@pytest.mark.parametrize(("network", "size", "load"), [("switch", "1500 B", 0.4)])
def test_what_is_stored_is_measured_again(network: str, size: str, load: float) -> None:
    module = table()
    command = [sys.executable, "-m", "viaduct"]
    measured = module.rows_at(command, network, size, [load])
    bytes_ = str(module.SIZES[size][0])
    expected = [
        row
        for row in stored()
        if (row["network"], row["bytes"], row["load"]) == (network, bytes_, str(load))
    ]
    assert len(expected) == len(module.LEVELS)
    assert measured == expected
