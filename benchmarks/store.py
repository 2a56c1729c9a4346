"""What a server works for a crawl: processor time per page, per pop and per push.

``python -m benchmarks.store`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import results
from benchmarks.report import table
from benchmarks.servers import PATIENCE_SECONDS, programs, started, version
from benchmarks.storing import lengths, mixes
from benchmarks.storing.lengths import LengthRow
from benchmarks.storing.mixes import MixRow
from benchmarks.storing.pushes import pushed_per_second

LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
LONGEST = 10_000_000
"""On the first server only: it takes 4 GB."""

MIX_HEAD = ("page", "seen set", "pages/exchange", "server µs/page", "pages/s and core")
LENGTH_HEAD = ("queued", "µs/push", "µs/pop and ack")


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    found: dict[str, list[dict[str, Any]]] = {"mixes": [], "lengths": [], "pushes": []}
    for number, program in enumerate(programs(options.servers)):
        with started(program) as server:
            client = server.client(socket_timeout=PATIENCE_SECONDS)
            name = version(client)
            print(f"\n{name}\n", flush=True)
            rows = list(mixes.measure(client, name, options.pages, options.rounds))
            print(mix_table(rows), end="\n\n", flush=True)
            rate = pushed_per_second(client, server.url, options.pages * 10)
            print(f"pushed by one process: {rate:,.0f} URLs/s\n", flush=True)
            longest = [options.longest] * (number == 0 and options.longest > 0)
            queues = [*options.lengths, *longest]
            long = list(lengths.measure(client, name, queues, options.operations))
            print(length_table(long), end="\n\n", flush=True)
            found["mixes"] += [_mix(row) for row in rows]
            found["lengths"] += [asdict(row) for row in long]
            found["pushes"].append({"server": name, "urls_per_second": rate})
    figures = {"pages": options.pages, "rounds": options.rounds, **found}
    print(results.write("store", figures, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.store", description=__doc__)
    results.add_options(parser)
    parser.add_argument("--pages", type=int, help="per measurement (4000; quick: 800)")
    parser.add_argument("--rounds", type=int, help="of all mixes (5; quick: 2)")
    parser.add_argument(
        "--operations",
        type=int,
        help="pushes, and pops, at each length of the queue (8192; quick: 2048)",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        help="of the queue (1000 to a million; quick: to a hundred thousand)",
    )
    parser.add_argument(
        "--longest",
        type=int,
        help="one more length, on the first server only (ten million; quick: none)",
    )
    parser.add_argument(
        "--servers",
        nargs="+",
        choices=("valkey", "redis", "other"),
        default=["redis", "valkey", "other"],
        help="other: what REDIS_SERVER names, if it is set",
    )
    options = parser.parse_args()
    quick = options.quick
    options.pages = options.pages or (800 if quick else 4000)
    options.rounds = options.rounds or (2 if quick else 5)
    options.operations = options.operations or (2048 if quick else 8192)
    options.lengths = options.lengths or (LENGTHS[:3] if quick else LENGTHS)
    if options.longest is None:
        options.longest = 0 if quick else LONGEST
    return options


def _mix(row: MixRow) -> dict[str, Any]:
    return asdict(row) | {"pages_per_second": row.pages_per_second}


def mix_table(rows: Sequence[MixRow]) -> str:
    """What a page costs, by what is in it."""
    return table(
        MIX_HEAD,
        [
            [
                row.mix,
                row.seen,
                row.pages_per_exchange,
                row.cpu_us_page,
                round(row.pages_per_second),
            ]
            for row in rows
        ],
    )


def length_table(rows: Sequence[LengthRow]) -> str:
    """What a push and a pop cost, and how much more than with the shortest queue."""
    return table(LENGTH_HEAD, list(_length_cells(rows)))


def _length_cells(rows: Sequence[LengthRow]) -> Iterator[list[object]]:
    first = rows[0]
    for row in rows:
        pushed, popped = row.push_us / first.push_us, row.pop_us / first.pop_us
        yield [
            row.queued,
            f"{row.push_us:.1f} ({pushed:.2f} x)",
            f"{row.pop_us:.1f} ({popped:.2f} x)",
        ]


if __name__ == "__main__":
    main()
