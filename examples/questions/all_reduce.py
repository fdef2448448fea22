"""Does my ring all-reduce survive a torus?  docs/questions/all-reduce.md, as a script.

    pip install matplotlib
    python examples/questions/all_reduce.py all-reduce.svg

Runs the program `all_reduce` of this workspace, which sums for real, on 64 simulated hosts on
a torus: with a ring of neighbours, and with a ring in any order. Needs cargo, or the program.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

import matplotlib
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDERS = {"snake": "neighbours of the torus", "shuffled": "any order"}
VECTORS = {"64 KiB": 64 << 10, "256 KiB": 256 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20}
STUDY = """
[run]
until = "10 ms"

[network]
topology = "torus"
dimensions = [8, 8]

[switches]
delay = "0.3 us"

[links]
rate = "200 Gbit/s"

[hosts]
nic = "ideal"

[traffic]
pattern = "uniform"
rate = "100/s"
size = "4 KiB"
"""


CARGO_RUN = "cargo run --quiet --release --package viaduct-programs --example all_reduce --"


def took_us(order: str, vector_bytes: int, program: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        study = pathlib.Path(folder) / "torus-64.toml"
        study.write_text(STUDY)
        command = [*program, str(study), str(vector_bytes), order]
        said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return float(re.search(r": ([0-9.]+) us", said)[1])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("picture", type=pathlib.Path, help="for example all-reduce.svg")
    arguments.add_argument("--short", action="store_true", help="the shortest vector alone")
    arguments.add_argument(
        "--program", type=pathlib.Path, help="all_reduce, built before [cargo builds it]"
    )
    given = arguments.parse_args()

    vectors = dict(list(VECTORS.items())[: 1 if given.short else None])
    program = [str(given.program.resolve())] if given.program else CARGO_RUN.split()
    rows = {order: [took_us(order, size, program) for size in vectors.values()] for order in ORDERS}
    print("vector", *ORDERS, sep="\t")
    for index, name in enumerate(vectors):
        print(name, *(f"{row[index]:.1f} us" for row in rows.values()), sep="\t")

    matplotlib.rcParams["svg.hashsalt"] = "viaduct"  # Equal results, equal files.
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (order, words), side in zip(ORDERS.items(), [-0.2, 0.2], strict=True):
        places = [index + side for index in range(len(vectors))]
        bars = axes.bar(places, rows[order], width=0.36, label=f"{order}: {words}")
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(vectors)), vectors)
    axes.set_xlabel("vector")
    axes.set_ylabel("all-reduce over 64 hosts, us")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(given.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
