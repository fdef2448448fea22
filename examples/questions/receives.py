"""How many receives must I post?  docs/questions/receives.md, as a script.

    pip install . matplotlib
    python examples/questions/receives.py receives.svg

Eight hosts send bursts to one. One row per number of receives on each connection: the share of
messages that found none, with interrupts, with polling, and with interrupts at half the load.
"""

import argparse
import pathlib

import matplotlib
import viaduct as via
from matplotlib.figure import Figure

RECEIVES = [1, 2, 4, 8, 16, 32]
SETTINGS = {
    "interrupts": {},
    "polling": {"hosts.completion": "polling"},
    "interrupts, half the load": {"traffic.rate": "2500/s"},
}


def dropped_percent(receives: int, more: dict[str, str], until: str) -> float:
    settings = {"hosts.prepost": receives, "run.until": until, **more}
    # The study is a sweep over `hosts.prepost`; a value of its own makes it one run.
    messages = via.study("prepost-drops", set=settings).run(progress=False).messages
    return messages.dropped / messages.posted * 100


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("picture", type=pathlib.Path, help="for example receives.svg")
    arguments.add_argument("--until", default="2 s", help="simulated time [2 s]")
    given = arguments.parse_args()

    rows = {
        name: [dropped_percent(receives, more, given.until) for receives in RECEIVES]
        for name, more in SETTINGS.items()
    }
    print("receives", *SETTINGS, sep="\t")
    for index, receives in enumerate(RECEIVES):
        print(receives, *(f"{row[index]:.2f} %" for row in rows.values()), sep="\t")

    matplotlib.rcParams["svg.hashsalt"] = "viaduct"  # Equal results, equal files.
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (name, row), marker in zip(rows.items(), "os^", strict=True):
        # By its logarithm there is no place for nothing: those rows end above it.
        lost = [(receives, share) for receives, share in zip(RECEIVES, row, strict=True) if share]
        axes.plot(*zip(*lost, strict=True), marker=marker, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(RECEIVES, [str(receives) for receives in RECEIVES])
    axes.set_xlabel("receives posted on each connection")
    axes.set_ylabel("messages dropped, %")
    axes.grid(color="#dddddd")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(given.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
