"""Many workers on one server: how busy it is, and how long they wait for it.

``python -m benchmarks.scale`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import results
from benchmarks.report import table
from benchmarks.scaling.fleet import Fleet, FleetRow
from benchmarks.servers import programs, started, version
from tests.processes import Programs

COUNTS = (25, 50, 100, 200, 400)
GOAL_WORKERS = 200
RATE = 50
"""Pages a second of each worker."""

HEAD = (
    "workers",
    "asked pages/s",
    "done pages/s",
    "exchanges/s",
    "pages/exchange",
    "server busy %",
    "p50 ms",
    "p99 ms",
    "dead workers' pages back",
)


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    (program,) = programs([options.server])
    rows = []
    with (
        tempfile.TemporaryDirectory() as name,
        started(program) as server,
        Programs(Path(name)) as processes,
    ):
        fleet = Fleet(server, processes, options.rate, options.seconds)
        every = options.every or asyncio.run(fleet.pace())
        for workers in options.workers:
            rows.append(fleet.run(workers, every))
            print(f"{workers} workers: {rows[-1].busy:.0%} busy", flush=True)
        server_name = version(server.client())
    print("\n" + _table(rows), end="\n\n")
    figures = {
        "server": server_name,
        "seconds": options.seconds,
        "rate": options.rate,
        "every": every,
        "every_from": "the command line" if options.every else "a worker at that rate",
        "fleets": [asdict(row) for row in rows],
    }
    print(results.write("scale", figures, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    results.add_options(parser)
    parser.add_argument(
        "--workers", type=int, nargs="+", help="fleets (25 to 400; quick: 25 and 200)"
    )
    parser.add_argument(
        "--rate", type=float, default=RATE, help="pages a second of each worker"
    )
    parser.add_argument(
        "--seconds", type=float, help="how long each fleet is watched (15; quick: 5)"
    )
    parser.add_argument(
        "--every",
        type=float,
        help="seconds between two exchanges of a worker; else as the package's own"
        " worker does at that rate, which is measured first",
    )
    parser.add_argument(
        "--server", choices=("valkey", "redis", "other"), default="redis"
    )
    options = parser.parse_args()
    quick = options.quick
    options.workers = options.workers or ((25, GOAL_WORKERS) if quick else COUNTS)
    options.seconds = options.seconds or (5 if quick else 15)
    return options


def _table(rows: Sequence[FleetRow]) -> str:
    return table(
        HEAD,
        [
            [
                row.workers,
                round(row.asked_pages_per_second),
                round(row.pages_per_second),
                round(row.exchanges_per_second),
                row.pages_per_second / row.exchanges_per_second,
                row.busy * 100,
                row.p50_ms,
                row.p99_ms,
                f"lease + {row.recovery_seconds - row.lease_seconds:.1f} s",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
