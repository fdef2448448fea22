"""Draws a run directory: how long messages took, how busy the links were, where the time went.

    pip install matplotlib pyarrow
    python docs/plot_study.py runs/torus-1024-<hash> torus-1024.svg

Of a sweep it draws one cell (`--cell N`), of several seeds one (`--seed N`). The columns are
described in docs/output.md. The ending of the output's name decides the format: svg, png, pdf.
"""

import argparse
import json
import pathlib
import tomllib

import matplotlib
import numpy
import pyarrow.compute
import pyarrow.parquet

matplotlib.use("Agg")
import matplotlib.pyplot as plot  # noqa: E402

BLUE, DARK, GREY = "#2a6fb0", "#24292f", "#8c959f"
# Stages shown on their own; the others are joined, since each is a percent or less.
STAGES_SHOWN = 4
STAGE_COLOURS = ["#2a6fb0", "#e08a1e", "#3a9a62", "#8d5fb0", "#b9c0c8"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("directory", type=pathlib.Path, help="what `viaduct run` left")
    arguments.add_argument("output", type=pathlib.Path, help="for example study.svg")
    arguments.add_argument("--cell", type=int, default=0, help="of a sweep, from 0")
    arguments.add_argument("--seed", type=int, help="of several seeds; default: the first")
    given = arguments.parse_args()

    run = Run(given.directory, given.cell, given.seed)
    plot.rcParams.update(
        {
            "font.size": 9,
            "axes.edgecolor": GREY,
            "axes.labelcolor": DARK,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.titlecolor": DARK,
            "axes.titlelocation": "left",
            "text.color": DARK,
            "xtick.color": DARK,
            "ytick.color": DARK,
            # Equal runs give equal files.
            "svg.hashsalt": "viaduct",
        }
    )
    figure = plot.figure(figsize=(10, 5.4), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(2, 2, height_ratios=[5.2, 1], width_ratios=[1.05, 1])
    draw_latency(figure.add_subplot(grid[0, 0]), run)
    draw_links(figure, figure.add_subplot(grid[0, 1]), run)
    draw_breakdown(figure.add_subplot(grid[1, :]), run)
    # Room for the legend at the bottom.
    figure.get_layout_engine().set(rect=(0, 0.045, 1, 0.955))
    metadata = {"Date": None} if given.output.suffix == ".svg" else None
    figure.savefig(given.output, metadata=metadata, dpi=110)


class Run:
    """One run out of a run directory."""

    def __init__(self, directory, cell, seed):
        summary = json.loads((directory / "summary.json").read_text())
        name = "scenario.toml"
        if "cells" in summary:
            summary = summary["cells"][cell]
            name = f"scenario-{cell}.toml"
        if "runs" in summary:
            runs = summary["runs"]
            summary = next((run for run in runs if run["seed"] == seed), runs[0])
        self.summary = summary
        self.scenario = tomllib.loads((directory / name).read_text())
        self.directory = directory
        self.cell = cell

    def table(self, name):
        table = pyarrow.parquet.read_table(self.directory / f"{name}.parquet")
        mine = pyarrow.compute.and_(
            pyarrow.compute.equal(table["cell"], self.cell),
            pyarrow.compute.equal(table["seed"], self.summary["seed"]),
        )
        return table.filter(mine)


def draw_latency(axes, run):
    """The share of messages that took longer than a latency, down to one in all."""
    latency = run.summary["latency_us"]
    table = run.table("latency")
    took_us = table["latency_us"].to_numpy()
    slower = 1 - table["quantile_fraction"].to_numpy()
    least = 1 / latency["count"]
    slower = numpy.maximum(slower, least)
    axes.plot(took_us, slower, color=BLUE, linewidth=1.8)
    axes.set_yscale("log")
    axes.set_ylim(least * 0.7, 2.5)
    powers = range(int(numpy.floor(-numpy.log10(least))) + 1)
    axes.set_yticks([10.0**-power for power in powers])
    axes.set_yticklabels(["all"] + [f"1 in {10**power:,}" for power in powers if power > 0])
    axes.minorticks_off()
    floor, longest = latency["floor"], took_us[-1]
    span = max(longest - floor, 0.02 * longest)
    axes.set_xlim(floor - 0.12 * span, floor + 1.05 * span)
    axes.axvspan(floor - 0.12 * span, floor, color="#eaeef2", zorder=0)
    axes.axvline(floor, color=GREY, linewidth=1)
    axes.text(
        floor - 0.015 * span,
        (least * 2.5) ** 0.5,
        f"no message below {floor:.1f} us",
        rotation=90,
        ha="right",
        va="center",
        fontsize=8,
    )
    marks = [("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p999", 0.001)]
    for name, share in marks:
        text = f"p{name[1:]}" if name != "p999" else "p99.9"
        axes.plot(latency[name], share, "o", color=BLUE, markersize=4.5)
        axes.annotate(
            f"{text}  {latency[name]:,.{0 if latency[name] >= 100 else 1}f} us",
            (latency[name], share),
            xytext=(8, 2),
            textcoords="offset points",
            fontsize=8.5,
        )
    interval = f" +- {latency['ci95']:.1f}" if latency["ci95"] is not None else ""
    axes.text(
        0.98,
        0.96,
        f"mean {latency['mean']:.1f}{interval} us\ndeviation {latency['sd']:.1f} us\n"
        f"{latency['count']:,} messages",
        transform=axes.transAxes,
        ha="right",
        va="top",
        linespacing=1.4,
    )
    axes.set_title("How many messages took longer than ...")
    axes.set_xlabel("... one-way latency, us")
    axes.grid(which="major", color="#eaeef2")
    axes.spines[["top", "right"]].set_visible(False)


def draw_links(figure, axes, run):
    """Links of a two-dimensional torus in their places; of other networks by how busy they are."""
    table = run.table("links")
    percent = table["utilisation_fraction"].to_numpy() * 100
    classes = numpy.array(table["class"].to_pylist())
    network = run.scenario["network"]
    sizes = network.get("dimensions", [])
    if network["topology"] == "torus" and len(sizes) == 2 and min(sizes) > 2:
        draw_torus(figure, axes, percent[classes == "mesh"], sizes)
        return
    for name in dict.fromkeys(classes):
        busiest_first = numpy.sort(percent[classes == name])[::-1]
        share = (numpy.arange(len(busiest_first)) + 0.5) / len(busiest_first) * 100
        axes.plot(share, busiest_first, "o-", markersize=3, label=name.replace("_", " "))
    axes.set_ylim(0)
    axes.set_title("How busy links were")
    axes.set_xlabel("links, busiest first, % of their class")
    axes.set_ylabel("utilisation, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def draw_torus(figure, axes, percent, sizes):
    """Three by three squares a switch: itself in the middle, its four outgoing links around."""
    width, height = sizes
    # By dimension; in each by switch; first the positive, then the negative direction.
    links = percent.reshape(2, height, width, 2)
    picture = numpy.full((3 * height, 3 * width), numpy.nan)
    picture[1::3, 2::3] = links[0, :, :, 0]
    picture[1::3, 0::3] = links[0, :, :, 1]
    picture[2::3, 1::3] = links[1, :, :, 0]
    picture[0::3, 1::3] = links[1, :, :, 1]
    switches = numpy.full((3 * height, 3 * width), numpy.nan)
    switches[1::3, 1::3] = 1
    extent = (-0.5, width - 0.5, -0.5, height - 0.5)
    shown = {"origin": "lower", "extent": extent, "interpolation": "nearest"}
    axes.imshow(switches, cmap="Greys", vmin=0, vmax=2.4, **shown)
    image = axes.imshow(picture, cmap="viridis", **shown)
    axes.set_title("How busy each of the mesh links was")
    axes.set_xlabel("switch, first dimension")
    axes.set_ylabel("switch, second dimension")
    axes.set_xticks(range(0, width, max(1, width // 8)))
    axes.set_yticks(range(0, height, max(1, height // 8)))
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, cax=axes.inset_axes([1.04, 0, 0.035, 1]))
    bar.set_label(
        f"utilisation, %   (mean {percent.mean():.2f}, busiest {percent.max():.2f})"
    )
    bar.outline.set_visible(False)


def draw_breakdown(axes, run):
    """The mean latency, cut into the stages that a message meets."""
    stages = run.summary["breakdown_us"]
    mean = sum(stages.values())
    largest = sorted(stages, key=stages.get, reverse=True)[:STAGES_SHOWN]
    parts = [(name, stages[name]) for name in stages if name in largest]
    rest = mean - sum(value for _, value in parts)
    parts.append(("all others", rest))
    left = 0.0
    for (name, value), colour in zip(parts, STAGE_COLOURS):
        axes.barh(0, value, left=left, color=colour, height=0.6, edgecolor="white")
        left += value
    handles = axes.patches
    labels = [
        f"{name.replace('_', ' ')}  {value:.1f} us, {value / mean * 100:.1f} %"
        for name, value in parts
    ]
    legend = axes.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0, -0.42),
        borderaxespad=0,
        borderpad=0,
        ncols=len(parts),
        frameon=False,
        handlelength=1,
        handletextpad=0.5,
        columnspacing=1.4,
        fontsize=8.5,
    )
    # Its width is not to push the other parts of the picture aside.
    legend.set_in_layout(False)
    axes.set_xlim(0, mean)
    axes.set_yticks([])
    axes.set_title("Where the mean goes, us")
    axes.spines[["top", "right", "left"]].set_visible(False)


if __name__ == "__main__":
    main()
