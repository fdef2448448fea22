"""Measure how far the quick levels of a network are off `packets`: `make levels`.

Writes `sim/cluster/src/levels.csv`, which `viaduct check` and `viaduct run` ask, and the tables of
`docs/levels.md`.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VALUES = ROOT / "sim/cluster/src/levels.csv"
PAGE = ROOT / "docs/levels.md"

NETWORKS = {
    "switch": "one switch, 64 hosts",
    "torus": "torus of 8x8 switches, 64 hosts",
    "fat-tree": "fat tree of three levels, 64 hosts",
    "dragonfly": "dragonfly of nine groups, 72 hosts",
}
# Bytes of a message, and how many messages a run has.
SIZES = {"1500 B": (1500, 20_000), "32 KiB": (1 << 15, 20_000), "1 MiB": (1 << 20, 5_000)}
LOADS = [0.2, 0.4, 0.6, 0.8]
LEVELS = ["queues", "limits", "max-min", "fluid", "credits"]
# `queues` where no byte is served before it has come.
LIMITS = "links.arrival=limits"
# A mean so many times higher is that of queues that grow as long as the run lasts.
FULL = 3.0
# Of the busiest link, where messages do not meet.
UNLOADED = 0.001
LINK_BITS_PER_US = 100_000


@dataclass
class Cell:
    """One network, size and load at all levels."""

    network: str
    size: str
    load: float
    settings: list[str]

    def command(self, levels: list[str], *more: str) -> list[str]:
        """Give the words after `viaduct`, with more settings."""
        named = ",".join(["packets", *levels])
        words = ["compare", f"docs/levels/{self.network}.toml", "--levels", named]
        settings = [*self.settings, *more]
        return [*words, *(word for setting in settings for word in ("--set", setting))]


def viaduct(command: list[str], *words: str) -> str:
    """Run the command; its standard output."""
    ended = subprocess.run(
        [*command, *words], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(f"viaduct {' '.join(words)}: {ended.stderr}")
    return ended.stdout


def saturation(command: list[str], network: str, size: str) -> tuple[int, float]:
    """Give the hosts, and the messages a second of each with which the busiest link is full."""
    said = viaduct(command, "check", f"docs/levels/{network}.toml", "--set", f"traffic.size={size}")
    hosts = re.search(r": ([\d,]+) hosts", said)
    rate = re.search(r"saturates at ([\d,.]+) msg/s", said)
    if hosts is None or rate is None:
        raise SystemExit(f"no bounds in what `check` says: {said}")
    return int(hosts[1].replace(",", "")), float(rate[1].replace(",", ""))


def cell(command: list[str], network: str, size: str, load: float) -> Cell:
    """Choose rate and times so that a run has as many messages as it should."""
    hosts, full = saturation(command, network, size)
    rate = round(full * load)
    span_us = SIZES[size][1] / (hosts * rate) * 1e6
    settings = [
        f"traffic.size={size}",
        f"traffic.rate={rate}/s",
        f"run.warmup={span_us / 10:.0f} us",
        f"run.until={span_us * 1.1:.0f} us",
    ]
    return Cell(network, size, load, settings)


def levels_of(command: list[str], measured: Cell) -> list[dict[str, Any]]:
    """Run a cell; what `compare --json` says of its levels, `packets` first."""

    def compared(*words: str) -> list[dict[str, Any]]:
        said = viaduct(command, *words, "--json", "--quiet")
        levels: list[dict[str, Any]] = json.loads(said)["levels"]
        return levels

    levels = compared(*measured.command([it for it in LEVELS if it != "limits"]))
    stricter = compared(*measured.command(["queues"], LIMITS))[-1]
    return [*levels, {**stricter, "level": "limits"}]


def rows_at(
    command: list[str], network: str, size: str, loads: list[float]
) -> list[dict[str, str]]:
    """Measure a network and size at some loads."""
    found = []
    count, _ = SIZES[size]
    message_us = count * 8 / LINK_BITS_PER_US
    alone = levels_of(command, cell(command, network, size, UNLOADED))
    alone_us = alone[0]["mean_us"]["mean"]
    for load in loads:
        first, *others = levels_of(command, cell(command, network, size, load))
        packets_us = first["mean_us"]["mean"]
        for level in others:
            difference = level["difference"]
            found.append(
                {
                    "network": network,
                    "bytes": str(count),
                    "load": str(load),
                    "level": level["level"],
                    "packets_us": f"{packets_us:.4g}",
                    "relative": f"{difference['relative']:.3f}",
                    "waiting": f"{(packets_us - alone_us) / message_us:.3f}",
                    "difference": f"{difference['mean_us']['mean'] / message_us:.3f}",
                }
            )
        print(network, size, load, file=sys.stderr)
    return found


def difference_text(relative: float) -> str:
    """Give a difference in percent, or say that queues grow without end."""
    return f"{relative * 100:+.1f} %" if relative < FULL else "full"


def tables(found: list[dict[str, str]]) -> str:
    """Give the tables as Markdown."""
    text = []
    for network, title in NETWORKS.items():
        text += [f"**{title[0].upper()}{title[1:]}**", ""]
        heads = ["message", "load", "`packets`, us", *(f"`{level}`" for level in LEVELS)]
        text += [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
        for size, (count, _) in SIZES.items():
            for load in LOADS:
                of_cell = {
                    row["level"]: row
                    for row in found
                    if (row["network"], row["bytes"], row["load"])
                    == (network, str(count), str(load))
                }
                shown = [difference_text(float(of_cell[level]["relative"])) for level in LEVELS]
                mean_us = of_cell[LEVELS[0]]["packets_us"]
                text.append(f"| {size} | {load * 100:.0f} % | {mean_us} | {' | '.join(shown)} |")
        text.append("")
    return "\n".join(text)


def main() -> None:
    """Measure, and write what was found."""
    command = sys.argv[1:2]
    found = [
        row
        for network in NETWORKS
        for size in SIZES
        for row in rows_at(command, network, size, LOADS)
    ]
    with VALUES.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    page = PAGE.read_text()
    begin, end = "<!-- tables -->\n", "<!-- end of tables -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{tables(found)}\n{end}{after}")


if __name__ == "__main__":
    main()
