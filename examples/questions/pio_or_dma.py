"""PIO or DMA?  docs/questions/pio-or-dma.md, as a script.

    pip install . matplotlib
    python examples/questions/pio_or_dma.py pio-or-dma.svg

Measures the half round trip over CLAN's simulated adapter at many sizes: the processor's
writes, the adapter's DMA, and the choice by size. Says from which size on DMA is the quicker one.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import matplotlib
from matplotlib.figure import Figure

FABRICS = {"sim:clan-pio": "PIO", "sim:clan-dma": "DMA", "sim:clan": "by size"}
SIZES = [0, 4, 16, 32, 64, 96, 128, 129, 192, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384]
SIZES_SHORT = [0, 4, 128, 129, 4096, 16384]


def half_round_trips_us(sizes: list[int]) -> dict[str, list[float]]:
    """Run `viaduct measure latency`, the command of the same package."""
    command = [sys.executable, "-m", "viaduct", "measure", "latency", "--json"]
    command += ["--on", ",".join(FABRICS), "--sizes", ",".join(map(str, sizes))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured = {report["fabric"]: report["rows"] for report in json.loads(output)}
    return {
        name: [row["half_rtt_us"]["median"] for row in measured[fabric]]
        for fabric, name in FABRICS.items()
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("picture", type=pathlib.Path, help="for example pio-or-dma.svg")
    arguments.add_argument("--short", action="store_true", help="six sizes")
    given = arguments.parse_args()

    sizes = SIZES_SHORT if given.short else SIZES
    rows = half_round_trips_us(sizes)
    print("bytes", *rows, sep="\t")
    for index, size in enumerate(sizes):
        print(size, *(f"{row[index]:.2f} us" for row in rows.values()), sep="\t")
    both = zip(sizes, rows["PIO"], rows["DMA"], strict=True)
    print(f"DMA is quicker from {next(size for size, pio, dma in both if dma < pio)} bytes on")

    matplotlib.rcParams["svg.hashsalt"] = "viaduct"  # Equal results, equal files.
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (name, row), style in zip(rows.items(), ["o-", "s-", "k:"], strict=True):
        axes.plot(sizes, row, style, label=name, markersize=4, zorder=3 if name == "by size" else 2)
    axes.axvline(128, color="#888888", linewidth=1)
    axes.text(120, 200, "DMA for the data\nfrom 129 bytes on", ha="right", va="top", fontsize=9)
    # Sizes by their logarithm, with a place for 0.
    axes.set_xscale("symlog", base=2, linthresh=4)
    axes.set_xlim(-1, sizes[-1] * 1.3)
    axes.set_yscale("log")
    shown = [0, 4, 16, 64, 256, 1024, 4096, 16384]
    axes.set_xticks(shown, ["0", "4", "16", "64", "256", "1 Ki", "4 Ki", "16 Ki"])
    axes.set_yticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
    axes.minorticks_off()
    axes.set_xlabel("bytes of a message")
    axes.set_ylabel("half a round trip, us")
    axes.grid(color="#dddddd")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(given.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
