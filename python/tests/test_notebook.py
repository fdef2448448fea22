"""Progress in a notebook, in a real kernel, and what a notebook shows of tables."""

import re
from typing import Any

import pytest

CELLS = [
    "import viaduct as via",
    # Long enough for a first report.
    'result = via.study("torus-1024", set={"run.until": "6 s"}).run()',
    'print(via.sweep("two-hosts", size=["64 B", "1 KiB"], seeds=2))',
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_shows_a_bar_and_a_table() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs: list[list[dict[str, Any]]] = [cell["outputs"] for cell in notebook.cells]
    assert outputs[0] == []

    # The bar is one output, exchanged again and again: the last state is left.
    [bar] = outputs[1]
    assert bar["output_type"] == "display_data", bar
    value = re.search(r'<progress max="1" value="([0-9.]+)">', bar["data"]["text/html"])
    assert value is not None
    assert 0.0 < float(value[1]) <= 1.0
    assert "of 6 s" in bar["data"]["text/plain"]

    kinds = {output["output_type"]: output for output in outputs[2]}
    assert set(kinds) == {"display_data", "stream"}, outputs[2]
    assert kinds["stream"]["name"] == "stdout"
    assert "traffic.size" in kinds["stream"]["text"]
    assert "4/4 runs" in kinds["display_data"]["data"]["text/plain"]
    assert 'value="1.0000"' in kinds["display_data"]["data"]["text/html"]
