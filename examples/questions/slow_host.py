"""What does one slow host cost a training step?  docs/questions/slow-host.md, as a script.

    pip install . matplotlib
    python examples/questions/slow_host.py slow-host.svg

Sixteen hosts make a step of two layers together. One row per factor by which one of them is slower:
by how much of the host's own delay the step takes longer, with all-reduces that hide computations,
with computations that hide all-reduces, and with nothing hidden.
"""

import argparse
import json
import pathlib
import tempfile

import matplotlib
import viaduct as via
from matplotlib.figure import Figure

FACTORS = [1.1, 1.25, 1.5, 1.75, 2.0]
COMPUTING_US = {"forward 1": 900, "forward 2": 1100, "backward 2": 2200, "backward 1": 1800}
OPTIMIZER_US = 300
SLOW = 5

STUDY = """
[network]
topology = "clos"
radix = 4

[switches]
delay = "300 ns"

[links]
rate = "100 Gbit/s"
propagation = "200 ns"

[hosts]
nic = "rnic-gen4"

[traffic]
arrivals = "chakra"
file = "step.json"
compute_scale = {scale}
"""

FAULT = """
[[fault]]
kind = "slow-host"
host = {host}
factor = {factor}
"""


def step(overlaps: bool) -> str:
    """Give the step of a rank: the second layer's all-reduce may overlap with the first layer."""
    nodes = []
    for number, (name, microseconds) in enumerate(COMPUTING_US.items(), start=1):
        before = [number - 1] if number > 1 else []
        node = {"Id": number, "Name": name, "NodeType": 4, "runtime": microseconds}
        nodes.append({**node, "data_deps": before})
    ready = 3 if overlaps else 4
    for number, size, after in ((5, 32 << 20, ready), (6, 16 << 20, 4)):
        node = {"Id": number, "Name": "all-reduce", "NodeType": 7, "comm_type": 0}
        nodes.append({**node, "comm_size": size, "data_deps": [after]})
    last = {"Id": 7, "Name": "optimizer", "NodeType": 4, "runtime": OPTIMIZER_US}
    nodes.append({**last, "data_deps": [5, 6]})
    return json.dumps({"workload_graph": nodes})


def step_us(folder: pathlib.Path, scale: float, factor: float) -> float:
    """Give how long the step takes where one host is slower by a factor."""
    text = STUDY.format(scale=scale)
    if factor > 1:
        text += FAULT.format(host=SLOW, factor=factor)
    file = folder / "study.toml"
    file.write_text(text, encoding="ascii")
    application = via.study(str(file)).run(progress=False).application
    assert application is not None
    return float(application["makespan_us"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("picture", type=pathlib.Path, help="for example slow-host.svg")
    given = arguments.parse_args()

    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for name, overlaps, scale in (
            ("bound by the network", True, 1),
            ("bound by computing", True, 4),
            ("no overlap", False, 1),
        ):
            (folder / "step.json").write_text(step(overlaps), encoding="ascii")
            usual = step_us(folder, scale, 1)
            own = (sum(COMPUTING_US.values()) + OPTIMIZER_US) * scale
            rows[name] = [
                (step_us(folder, scale, factor) - usual) / (own * (factor - 1)) * 100
                for factor in FACTORS
            ]
    print("factor", *rows, sep="\t")
    for index, factor in enumerate(FACTORS):
        print(factor, *(f"{row[index]:.1f} %" for row in rows.values()), sep="\t")

    matplotlib.rcParams["svg.hashsalt"] = "viaduct"  # Equal results, equal files.
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (name, row), marker in zip(rows.items(), "os^", strict=True):
        axes.plot(FACTORS, row, marker=marker, label=name)
    axes.set_xlabel("the slow host computes so many times as long")
    axes.set_ylabel("of its delay the step takes over, %")
    axes.set_ylim(0, 110)
    axes.grid(color="#dddddd")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(given.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
