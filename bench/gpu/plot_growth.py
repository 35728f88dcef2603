"""Plots of `growth.json` (`run --step growth`): milliseconds a round as one thing grows. Needs matplotlib."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

LABELS = {
    "samples": "samples a client",
    "clients": "clients of a round",
    "width": "hidden units",
    "subnetwork": "share of the body in the subnetwork",
}


def number(arguments: list[str]) -> float:
    """The number that a sweep varies: in the last argument."""
    return float(re.findall(r"[0-9.]+", arguments[-1])[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("growth", type=Path, help="growth.json")
    parser.add_argument("out", type=Path, help="the SVG file to write")
    options = parser.parse_args()
    growth = json.loads(options.growth.read_text())
    figure, axes = plt.subplots(1, len(growth), figsize=(3.2 * len(growth), 3.0), constrained_layout=True)
    for axis, (name, points) in zip(axes, growth.items(), strict=True):
        for device in ("cpu", "cuda"):
            there = [point for point in points if device in point]
            if not there:
                continue
            x = [number(point["arguments"]) for point in there]
            y = [1000 * point[device]["seconds_best"] for point in there]
            axis.plot(x, y, marker="o", label=there[0][device]["device"])
            for at, value in zip(x, y, strict=True):
                axis.annotate(f"{value:.0f}", (at, value), fontsize="xx-small", xytext=(4, -8), textcoords="offset points")
        axis.set(xscale="log", yscale="log", xlabel=LABELS[name])
        # The values themselves: powers of ten would leave most of them without a label.
        ticks = [number(point["arguments"]) for point in points]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize="x-small", rotation=45)
        axis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(visible=True, which="both", alpha=0.3)
    axes[0].set_ylabel("ms a round")
    axes[0].legend(fontsize="x-small")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and random ids: the same figures give the same file.
    plt.rcParams["svg.hashsalt"] = "fedsi"
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
