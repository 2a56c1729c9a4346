"""Memory of a crawl: bytes per URL seen and per request queued, and time per check.

``python -m benchmarks.memory`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import queues, seen_sets
from benchmarks.filling import WAYS
from benchmarks.queues import OURS, QueueRow
from benchmarks.report import table, versions
from benchmarks.seen_sets import SCRAPY_REDIS, SeenRow
from benchmarks.servers import allocator, programs, running, version

SEEN_HEAD = (
    "seen set",
    "URLs",
    "MEMORY USAGE",
    "used_memory",
    "resident",
    "taken for seen",
    "µs/check",
    "to exact",
    "in server",
    "to exact",
)
QUEUE_HEAD = (
    "queue",
    "requests",
    "encoded",
    "MEMORY USAGE",
    "used_memory",
    "resident",
    "to scrapy-redis",
)

MEASURES = {"usage": "MEMORY USAGE", "used": "used_memory"}
"""Ways of measuring that a goal is held against."""

MOST_BYTES = {"packed": 9.5, "bloom 0.001": 2.0, "bloom 0.000001": 4.0}
"""Goals: bytes a URL."""

MOST_OF_SCRAPY_REDIS = 0.8
"""Goal: a queued request, as a share of one there."""


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    report: dict[str, object] = {"versions": versions(), "fill": options.fill}
    fill = WAYS[options.fill]
    seen_rows: list[SeenRow] = []
    queue_rows: list[QueueRow] = []
    for program in programs(options.servers):
        with running(program) as client:
            server = f"{version(client)} ({allocator(client)})"
        print(f"\n{server}; bytes a URL or a request\n", flush=True)
        for urls in options.urls:
            with running(program) as client:
                rows = list(seen_sets.measure(client, server, urls, fill))
            print(_seen_table(rows), end="\n\n", flush=True)
            seen_rows += rows
        if options.requests:
            with running(program) as client:
                queued = queues.measure(client, server, options.requests)
            print(_queue_table(queued), flush=True)
            queue_rows += queued
    print("\n" + "\n".join(_goals(seen_rows, queue_rows)))
    report["seen"] = [asdict(row) for row in seen_rows]
    report["queued"] = [asdict(row) for row in queue_rows]
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument(
        "--urls",
        type=int,
        nargs="*",
        default=[1_000_000, 10_000_000],
        help="sizes of the seen sets; none: leave them out",
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=200_000,
        help="length of the queues; 0: leave them out",
    )
    parser.add_argument(
        "--servers",
        nargs="+",
        choices=("valkey", "redis", "other"),
        default=["valkey", "redis", "other"],
        help="other: what REDIS_SERVER names, if it is set",
    )
    parser.add_argument(
        "--fill",
        choices=WAYS,
        default="scripts",
        help="how seen sets are filled; direct: without scripts, to save time",
    )
    parser.add_argument("--json", type=Path, help="a file for all figures")
    return parser.parse_args()


def _seen_table(rows: Sequence[SeenRow]) -> str:
    exact = next(row for row in rows if row.seen == "exact")
    return table(SEEN_HEAD, [_seen_cells(row, exact) for row in rows])


def _seen_cells(row: SeenRow, exact: SeenRow) -> list[object]:
    sizes = [row.usage, row.used, row.resident]
    cells: list[object] = [row.seen, row.urls, *sizes, row.missed]
    if not row.whole:
        return cells + [""] * 4
    cells += [row.whole, row.whole / exact.whole]
    return [*cells, row.on_server, row.on_server / exact.on_server]


def _queue_table(rows: Sequence[QueueRow]) -> str:
    theirs = next((row for row in rows if row.queue == SCRAPY_REDIS), None)
    cells = [
        [
            row.queue,
            row.requests,
            row.encoded,
            row.usage,
            row.used,
            row.resident,
            row.used / theirs.used if theirs else "",
        ]
        for row in rows
    ]
    parts = "; ".join(
        f"{name} {size:.1f}" for row in rows[:1] for name, size in row.parts.items()
    )
    return table(QUEUE_HEAD, cells) + f"\n({rows[0].queue}, by key: {parts})"


def _goals(seen: Sequence[SeenRow], queued: Sequence[QueueRow]) -> Iterator[str]:
    for row in seen:
        if row.seen in MOST_BYTES:
            yield f"{row.server}, {row.urls:,} URLs, {row.seen}: " + ", ".join(
                _verdict(getattr(row, way), MOST_BYTES[row.seen], name)
                for way, name in MEASURES.items()
            )
    theirs = {row.server: row for row in queued if row.queue == SCRAPY_REDIS}
    for one in queued:
        if one.queue == OURS and (other := theirs.get(one.server)):
            yield f"{one.server}, queued request to scrapy-redis: " + ", ".join(
                _verdict(
                    getattr(one, way) / getattr(other, way), MOST_OF_SCRAPY_REDIS, name
                )
                for way, name in MEASURES.items()
            )


def _verdict(found: float, most: float, way: str) -> str:
    word = "met" if found <= most else "MISSED"
    return f"{word} by {way} ({found:.2f}, at most {most})"


if __name__ == "__main__":
    main()
