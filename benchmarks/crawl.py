"""Whole crawls: stock Scrapy in memory, this package, and scrapy-redis, side by side.

``python -m benchmarks.crawl`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import results
from benchmarks.crawling.plan import ROUND_TRIPS_MS, Summary, steps_of, summaries
from benchmarks.crawling.stage import LINKS, stage
from benchmarks.crawling.systems import OURS, System, find_scrapy_redis, version_in
from benchmarks.crawling.trial import Row, Trials
from benchmarks.report import table

LINK_COUNTS = (2, 7, 14, 28, 56)
LINK_ROUNDS = 2
FLEET = 3
"""Workers that finish a crawl together."""
FLEET_ROUND_TRIP_MS = 2

HEAD = (
    "system",
    "round trip ms",
    "runs",
    "pages/s",
    "to stock",
    "interval",
    "CPU to stock",
    "start s",
    "close s",
    "peak MiB",
    "trips/page",
    "commands/page",
    "Redis µs/page",
)


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    other = find_scrapy_redis(options.scrapy_redis)
    with stage(options.pages, options.link_counts) as (trials, figures):
        figures["distances_ms"] = {
            str(ms): trials.distance_ms(ms) for ms in ROUND_TRIPS_MS
        }
        rounds = [list(_round(trials, n, other)) for n in range(options.rounds)]
        found = list(summaries(rounds))
        print("\n" + _table(found), end="\n\n", flush=True)
        links = list(_links(trials, options, other))
        print(_links_table(links), end="\n\n", flush=True)
        closing = _fleet_closing(trials)
        print(f"{FLEET} workers: all closed {closing:.2f} s after the last page")
    figures |= {
        "rounds": options.rounds,
        "scrapy-redis": version_in(other) if other else None,
        "summary": [asdict(one) for one in found],
        "links": links,
        "fleet": {
            "workers": FLEET,
            "round_trip_ms": FLEET_ROUND_TRIP_MS,
            "closing_seconds": closing,
        },
        "runs": [[asdict(row) for row in rows] for rows in rounds],
    }
    print(results.write("crawl", figures, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.crawl", description=__doc__)
    results.add_options(parser)
    parser.add_argument("--rounds", type=int, help="runs of each system (9; quick: 2)")
    parser.add_argument("--pages", type=int, help="of the site (4000; quick: 500)")
    parser.add_argument(
        "--link-counts",
        type=int,
        nargs="*",
        help="links per page of other sites (2 7 14 28 56; quick: 2 14 28)",
    )
    parser.add_argument(
        "--scrapy-redis",
        metavar="PYTHON",
        default="auto",
        help="interpreter that has scrapy-redis; make: have an environment made for it;"
        " auto: this interpreter, or what was made; none: leave it out",
    )
    options = parser.parse_args()
    quick = options.quick
    options.rounds = options.rounds or (2 if quick else 9)
    options.pages = options.pages or (500 if quick else 4000)
    if options.link_counts is None:
        options.link_counts = (2, 14, 28) if quick else LINK_COUNTS
    return options


def _round(trials: Trials, number: int, other: System | None) -> Iterator[Row]:
    for step in steps_of(number, other):
        row = trials.run(
            step.system, LINKS, step.round_trip_ms, most_pages=step.most_pages
        )
        print(
            f"round {number + 1}: {row.system}, {row.round_trip_ms} ms:"
            f" {row.pages_per_second:.0f} pages/s",
            flush=True,
        )
        yield row


def _links(
    trials: Trials, options: argparse.Namespace, other: System | None
) -> Iterator[dict[str, Any]]:
    """Processor time of the server per page, by how many links a page has."""
    for links in options.link_counts:
        for system in filter(None, (OURS, other)):
            rows = [
                trials.run(system, links, folder=f"links-{links}")
                for _ in range(1 if options.quick else LINK_ROUNDS)
            ]
            yield {
                "system": system.name,
                "links": links,
                "redis_cpu_us_page": statistics.median(
                    row.redis_cpu_us_page for row in rows
                ),
                "round_trips_page": statistics.median(
                    row.round_trips_page for row in rows
                ),
            }


def _fleet_closing(trials: Trials) -> float:
    """Seconds from the end of the last page of all until the last worker closed."""
    trials.empty()
    ends = trials.crawl(OURS, FLEET_ROUND_TRIP_MS, workers=FLEET)
    moments = {
        name: max(one["began"] + one["times"].get(name, 0) for one in ends)
        for name in ("last", "closed")
    }
    return float(moments["closed"] - moments["last"])


def _table(found: Sequence[Summary]) -> str:
    rows: list[list[object]] = []
    for one in found:
        ratio = one.ratio
        rows.append(
            [
                one.system,
                one.round_trip_ms,
                one.runs,
                round(one.pages_per_second),
                ratio.median if ratio else "",
                f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio else "",
                "" if one.cpu_ratio is None else one.cpu_ratio,
                one.startup_seconds,
                "" if one.closing_seconds is None else one.closing_seconds,
                round(one.peak_mib),
                one.round_trips_page,
                one.commands_page,
                one.redis_cpu_us_page,
            ]
        )
    return table(HEAD, rows)


def _links_table(links: Sequence[dict[str, Any]]) -> str:
    head = ("system", "links", "Redis µs/page", "trips/page")
    return table(head, [list(one.values()) for one in links])


if __name__ == "__main__":
    main()
