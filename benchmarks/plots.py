"""Draw the plots of the documentation from what was measured.

``python -m benchmarks.plots`` from the repository's root; needs matplotlib (the extra
``bench``). The same figures give the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks import results
from benchmarks.crawling.systems import OURS, SCRAPY_REDIS, STOCK
from benchmarks.scale import GOAL_WORKERS

PLACE = Path(__file__).parent.parent / "docs" / "explanation"

# Each can be read on white and on black.
INK = "#767676"
BLUE = "#2b8cbe"
ORANGE = "#d9762b"

LABELS = {
    STOCK.name: "stock Scrapy",
    OURS.name: "scrapy-redis-state",
    SCRAPY_REDIS: "scrapy-redis",
}
COLORS = {STOCK.name: INK, OURS.name: BLUE, SCRAPY_REDIS: ORANGE}

STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "performance",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
SIZE = (7.2, 3.6)
NARROW = (7.2, 3.0)
BESIDE = (9, -4)
"""Right of a point, in points."""


def main() -> None:
    """Draw all that was measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.plots", description=__doc__)
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    parser.add_argument("--out", type=Path, default=PLACE)
    options = parser.parse_args()
    plots: dict[str, tuple[str, Callable[[dict[str, Any]], Figure]]] = {
        "performance-distance": ("crawl", distance),
        "performance-links": ("crawl", links),
        "performance-queue": ("store", queue),
        "performance-workers": ("scale", workers),
    }
    with mpl.rc_context(STYLE):
        for name, (source, draw) in plots.items():
            file = options.out / f"{name}.svg"
            save(draw(results.read(source, options.results)), file)
            print(file.name)


def save(figure: Figure, file: Path) -> None:
    """Write it as text that a reader's own font shows."""
    figure.savefig(file, transparent=True, metadata={"Date": None, "Creator": None})
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", file.read_text())
    file.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def distance(figures: dict[str, Any]) -> Figure:
    """Pages a second by the round trip to Redis, stock Scrapy being 1."""
    figure, axes = _axes(SIZE, "round trip to Redis, ms", "pages/s, stock Scrapy = 1")
    rows = [row for row in figures["summary"] if row["ratio"]]
    places = sorted({row["round_trip_ms"] for row in rows})
    end = len(places) - 0.95
    axes.plot([-0.2, end], [1, 1], color=INK, linewidth=1.5, linestyle=(0, (5, 3)))
    for system in (OURS.name, SCRAPY_REDIS):
        some = [row for row in rows if row["system"] == system]
        if not some:
            continue
        x = [places.index(row["round_trip_ms"]) for row in some]
        y = [row["ratio"]["median"] for row in some]
        below = [row["ratio"]["median"] - row["ratio"]["low"] for row in some]
        above = [row["ratio"]["high"] - row["ratio"]["median"] for row in some]
        color = COLORS[system]
        axes.errorbar(
            x, y, [below, above], color=color, marker="o", capsize=3, elinewidth=1
        )
        # Beside the point: above and below it is its interval.
        by = (7, 6) if system == OURS.name else (7, 5)
        for place, value in zip(x, y, strict=True):
            text = f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"  # noqa: PLR2004
            _note(axes, text, (place, value), by, color=color)
        _note(axes, LABELS[system], (x[-1], y[-1]), (20, -14), color=color)
    _note(axes, LABELS[STOCK.name], (1, 1), (8, -15), color=INK)
    axes.set_xticks(range(len(places)), [f"{place:g}" for place in places])
    axes.set_xlim(-0.2, end)
    axes.set_ylim(0, max(1.2, *(row["ratio"]["high"] * 1.05 for row in rows)))
    return figure


def links(figures: dict[str, Any]) -> Figure:
    """Processor time of Redis per page by its links."""
    figure, axes = _axes(SIZE, "links per page", "Redis CPU per page, µs")
    for system in (SCRAPY_REDIS, OURS.name):
        rows = [row for row in figures["links"] if row["system"] == system]
        if not rows:
            continue
        x = [row["links"] for row in rows]
        y = [row["redis_cpu_us_page"] for row in rows]
        axes.plot(x, y, color=COLORS[system], marker="o")
        text = f"{LABELS[system]}: {y[-1]:,.0f}"
        _note(axes, text, (x[-1], y[-1]), BESIDE, color=COLORS[system])
    most = max(row["links"] for row in figures["links"])
    axes.plot([0, most], [0, 0], color=INK, clip_on=False)
    # Below, or it would lie on that of who takes next to nothing.
    _note(axes, "stock Scrapy: 0", (most, 0), (16, -13), color=INK)
    axes.set_xlim(0, most * 1.02)
    axes.set_xticks(sorted({row["links"] for row in figures["links"]}))
    axes.set_ylim(bottom=0)
    return figure


def queue(figures: dict[str, Any]) -> Figure:
    """Cost of a pop and of a push by the length of the queue."""
    figure, axes = _axes(NARROW, "requests queued", "Redis CPU, µs")
    server = figures["lengths"][0]["server"]
    rows = [row for row in figures["lengths"] if row["server"] == server]
    x = [row["queued"] for row in rows]
    columns = [("pop_us", "pop, and its ack", BLUE), ("push_us", "push", ORANGE)]
    # Numbers above the upper line and below the lower one.
    columns.sort(key=lambda column: rows[-1][column[0]])
    for (name, label, color), by in zip(columns, ((0, -18), (0, 9)), strict=True):
        y = [row[name] for row in rows]
        axes.plot(x, y, color=color, marker="o")
        for place, value in zip(x, y, strict=True):
            _note(axes, f"{value:.1f}", (place, value), by, color=color, ha="center")
        # Names likewise, if lines are close.
        beside = (BESIDE[0], BESIDE[1] + by[1] / 3)
        _note(axes, label, (x[-1], y[-1]), beside, color=color)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(x)
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    most = max(row[name] for row in rows for name in ("pop_us", "push_us"))
    axes.set_ylim(0, most * 1.2)
    return figure


def workers(figures: dict[str, Any]) -> Figure:
    """How busy a server is, and how long workers wait, by how many there are."""
    rows = figures["fleets"]
    x = [row["workers"] for row in rows]
    figure = Figure(figsize=NARROW)
    panels = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.06, right=0.98, bottom=0.17, top=0.9, wspace=0.2)
    for axes, title, values, goal, color in (
        (
            panels[0],
            "one Redis core busy, %",
            [row["busy"] * 100 for row in rows],
            60,
            BLUE,
        ),
        (
            panels[1],
            "exchange p99, ms",
            [row["p99_ms"] for row in rows],
            5,
            ORANGE,
        ),
    ):
        _dress(axes, f"workers, each {figures['rate']:g} pages/s", title)
        axes.plot(x, values, color=color, marker="o")
        # The goal: at most this, with 200 workers.
        axes.plot([GOAL_WORKERS], [goal], marker="_", markersize=18, color=INK)
        _note(axes, "goal", (GOAL_WORKERS, goal), (-12, -4), color=INK, ha="right")
        # The smallest would lie on each other.
        axes.set_xticks([count for count in x if count >= max(x) / 8])
        axes.set_ylim(0, max(goal, *values) * 1.15)
    return figure


def _axes(size: tuple[float, float], x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size)
    axes = figure.subplots()
    # Room at the right for what lines are called.
    figure.subplots_adjust(left=0.07, right=0.74, bottom=0.16, top=0.92)
    _dress(axes, x, y)
    return figure, axes


def _dress(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_title(y, loc="left", fontsize=11, color=INK)
    axes.grid(axis="y", color=INK, alpha=0.2, linewidth=0.8)
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    axes.set_axisbelow(True)


def _note(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    by: tuple[float, float],
    **look: Any,
) -> None:
    """Write beside a point, so many points (1/72 inch) away."""
    axes.annotate(text, at, by, textcoords="offset points", **look)


def _short(value: float, _: object) -> str:
    """Such as ``10 k`` and ``1 M``."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


if __name__ == "__main__":
    main()
