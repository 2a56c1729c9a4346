"""Fill the tables of ``docs/explanation/performance.rst`` with what was measured.

``python -m benchmarks.page`` rewrites what is between the page's comments ``begin
NAME`` and ``end NAME``; ``--check`` only says whether it is as the results have it
(exit status 1 if not).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.crawling.systems import (
    OURS,
    OURS_FULL,
    SCRAPY_REDIS,
    STOCK,
    STOCK_COOKIES,
)
from benchmarks.goals import MOST_BUSY, Results, goals, read_all
from benchmarks.scale import GOAL_WORKERS

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "performance.rst"
SECONDS_PER_DAY = 86_400
MEMORY_ROWS = 10

NAMES = {
    STOCK.name: "stock Scrapy",
    OURS.name: "scrapy-redis-state",
    SCRAPY_REDIS: "scrapy-redis",
    STOCK_COOKIES.name: "stock Scrapy, with cookies",
    OURS_FULL.name: "scrapy-redis-state, with cookies, sessions and Bloom filter",
}


def csv_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as the documentation has them."""
    lines = [".. csv-table::", f"   :header: {_line(head)}", ""]
    lines += [f"   {_line(row)}" for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return ", ".join(
        f'"{cell}"' if "," in str(cell) else str(cell) or '""' for cell in cells
    )


def goals_table(measured: Results) -> str:
    """Every goal, and what was found."""
    return csv_table(
        ("figure", "goal", "measured", "met"),
        [
            (goal.figure, goal.wanted, goal.found, "yes" if goal.is_met else "**no**")
            for goal in goals(measured)
        ],
    )


def missed(measured: Results) -> str:
    """What stands in the way of the goals that were missed."""
    limits: dict[str, list[str]] = {}
    for goal in goals(measured):
        if not goal.is_met:
            limits.setdefault(goal.limit, []).append(goal.figure)
    if not limits:
        return "None was missed."
    return "\n\n".join(
        f"*{'; '.join(figures)}*\n    {limit}" for limit, figures in limits.items()
    )


def crawl_table(measured: Results) -> str:
    """Whole crawls, side by side."""
    head = (
        "system",
        "round trip",
        "pages/s to stock",
        "CPU to stock",
        "round trips per page",
        "Redis commands per page",
        "peak memory",
    )
    rows = []
    for row in measured["crawl"]["summary"]:
        ratio = row["ratio"]
        rows.append(
            (
                NAMES[row["system"]],
                f"{row['round_trip_ms']:g} ms",
                _interval(ratio) if ratio else "1",
                f"{row['cpu_ratio']:.2f}" if ratio else "1",
                _short(row["round_trips_page"]),
                _short(row["commands_page"]),
                f"{row['peak_mib']:.0f} MiB",
            )
        )
    return csv_table(head, rows)


def _interval(ratio: dict[str, float]) -> str:
    """The median, and between what it is; small ones with digits that say something."""
    digits = 2 if ratio["median"] >= 0.1 else 4  # noqa: PLR2004 - as above
    median, low, high = (
        f"{ratio[name]:.{digits}f}" for name in ("median", "low", "high")
    )
    return f"{median} ({low} to {high})"


def _short(number: float) -> str:
    return f"{number:.2f}" if number >= 0.005 else "0"  # noqa: PLR2004 - two digits


def mixes_table(measured: Results) -> str:
    """What a page costs a server."""
    rows = measured["store"]["mixes"]
    servers = list(dict.fromkeys(row["server"] for row in rows))
    kinds = list(
        dict.fromkeys(
            (row["mix"], row["seen"], row["pages_per_exchange"]) for row in rows
        )
    )
    found = {
        (row["server"], row["mix"], row["seen"], row["pages_per_exchange"]): row
        for row in rows
    }

    def cell(server: str, kind: tuple[str, str, int]) -> str:
        key = (server, *kind)
        row = found[key]
        return f"{row['cpu_us_page']:.1f} µs; {row['pages_per_second']:,.0f}/s"

    return csv_table(
        ("page", "seen set", "pages per exchange", *servers),
        [(*kind, *(cell(server, kind) for server in servers)) for kind in kinds],
    )


def lengths_table(measured: Results) -> str:
    """What a push and a pop cost at each length."""
    rows = measured["store"]["lengths"]
    return csv_table(
        ("server", "queued", "push", "pop and ack"),
        [
            (
                row["server"],
                f"{row['queued']:,}",
                f"{row['push_us']:.1f} µs",
                f"{row['pop_us']:.1f} µs",
            )
            for row in rows
        ],
    )


def fleets_table(measured: Results) -> str:
    """Many workers on one server."""
    head = (
        "workers",
        "pages/s",
        "exchanges/s",
        "one core busy",
        "exchange p50",
        "p99",
        "back from dead workers",
    )
    return csv_table(
        head,
        [
            (
                row["workers"],
                f"{row['pages_per_second']:,.0f}"
                f" of {row['asked_pages_per_second']:,.0f}",
                f"{row['exchanges_per_second']:,.0f}",
                f"{row['busy']:.0%}",
                f"{row['p50_ms']:.1f} ms",
                f"{row['p99_ms']:.1f} ms",
                f"{row['recovery_seconds']:.1f} s (lease {row['lease_seconds']:g} s)",
            )
            for row in measured["scale"]["fleets"]
        ],
    )


def memory_table(measured: Results) -> str:
    """Memory of one worker, by how many pages it has crawled."""
    samples = measured["soak"]["memory"]
    step = max(1, len(samples) // MEMORY_ROWS)
    return csv_table(
        ("pages", "resident memory"),
        [(f"{pages:,}", f"{mib:.0f} MiB") for pages, mib in samples[step - 1 :: step]],
    )


def capacity(measured: Results) -> str:
    """What one core carries."""
    scale = measured["scale"]
    row = next(
        (one for one in scale["fleets"] if one["workers"] == GOAL_WORKERS),
        scale["fleets"][-1],
    )
    cost_us = row["busy"] / row["pages_per_second"] * 1e6
    most = MOST_BUSY / cost_us * 1e6
    rate, day = scale["rate"], most * SECONDS_PER_DAY / 1e6
    batch = row["pages_per_second"] / row["exchanges_per_second"]
    return (
        f"A worker at {rate:g} pages/s makes an exchange every"
        f" {scale['every'] * 1000:.0f} ms, and so ends {batch:.1f} pages with each. In"
        f" the fleet of {row['workers']} above a page then takes {cost_us:.0f} µs of"
        f" the server. A core that is {MOST_BUSY:.0%} busy, which leaves room for"
        f" peaks, carries {most:,.0f} pages/s: {most / rate:,.0f} such workers, or"
        f" {day:,.0f} million pages a day."
    )


def with_what(measured: Results) -> str:
    """Machine and versions."""
    crawl = measured["crawl"]
    machine, versions = crawl["machine"], crawl["versions"]
    servers = list(dict.fromkeys(row["server"] for row in measured["store"]["mixes"]))
    counts = [one["runs"] for one in crawl["summary"] if one["ratio"]]
    few = ""
    if crawl["scrapy-redis"]:
        few = (
            f" ({min(counts)} of scrapy-redis {crawl['scrapy-redis']} at a distance,"
            " broken off after some pages)"
        )
    distances = ", ".join(
        f"{found:.2f} for {float(ms):g}" for ms, found in crawl["distances_ms"].items()
    )
    return (
        f"Processor {machine['processor']}, {machine['cores']} cores, which crawler,"
        f" web server and Redis share; {machine['system']}; Python"
        f" {machine['Python']}, Scrapy {versions['Scrapy']}, redis-py"
        f" {versions['redis']}, hiredis {versions['hiredis']}. Whole crawls:"
        f" {crawl['server']}, {crawl['web']}, a site of {crawl['site']['pages']:,}"
        f" pages with {crawl['site']['links']} links each, {max(counts)} rounds"
        f"{few}. Distances in fact, by ``PING``, in ms: {distances}. Servers:"
        f" {', '.join(servers)}.{_warning(measured)}"
    )


def _warning(measured: Results) -> str:
    quick = [name for name, figures in measured.items() if figures.get("quick")]
    if not quick:
        return ""
    return f" **Of a quick run, and so preliminary:** {', '.join(quick)}."


REGIONS: dict[str, Callable[[Results], str]] = {
    "goals": goals_table,
    "missed": missed,
    "crawl": crawl_table,
    "mixes": mixes_table,
    "lengths": lengths_table,
    "fleets": fleets_table,
    "memory": memory_table,
    "capacity": capacity,
    "with what": with_what,
}


def filled(page: str, measured: Results) -> str:
    """The page with all its regions as they should be.

    :raises ValueError: if one is missing
    """
    for name, make in REGIONS.items():
        pattern = rf"(\.\. begin {name}\n\n)(?:.*?\n\n)?(\.\. end {name}\n)"
        text = f"{make(measured)}\n\n"
        page, count = re.subn(
            pattern,
            lambda match, text=text: match[1] + text + match[2],  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
        if count != 1:
            raise ValueError(f"{PAGE.name}: there must be one region {name!r}")
    return page


def main() -> int:
    """Write or check the page; returns the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.page", description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    options = parser.parse_args()
    text = PAGE.read_text()
    new = filled(text, read_all(options.results))
    if options.check:
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
