"""The hot path in small: how long the event loop is held, and what each step costs.

``python -m benchmarks.micro`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import paths
from benchmarks.one_process import CALLS
from benchmarks.report import table, versions
from tests.servers import Server

STEP_HEAD = ("step of a request", "µs", "Scrapy's, µs", "to Scrapy's")
HOLD_HEAD = ("call", "links a page", "calls", "p50 µs", "p90", "p99", "p99.9", "max")
PAGE_HEAD = (
    "links a page",
    "CPU µs a page",
    "Scrapy's, µs",
    "to Scrapy's",
    "pages/s to Scrapy's",
    "exchanges a page",
)


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    report: dict[str, object] = {"versions": versions()}
    steps = paths.measure(options.requests)
    print(
        "\nProcessor time\n\n" + table(STEP_HEAD, [_step_cells(row) for row in steps])
    )
    report["steps"] = [asdict(row) for row in steps]
    holds: dict[int, Any] = {}
    pages: dict[int, Any] = {}
    for links in options.links:
        with Server(options.server) as server:
            timed = _crawl(links, options.pages, server.url, "--timed")
        holds[links] = timed["holds"]
        pages[links] = [
            _pair(links, options.pages, options.server) for _ in range(options.pairs)
        ]
    print("\nHow long calls hold the event loop (time of its thread)\n")
    print(table(HOLD_HEAD, _hold_rows(holds)))
    print(f"\nA whole crawl of pages from memory, medians of {options.pairs} pairs\n")
    print(table(PAGE_HEAD, [_page_cells(n, pairs) for n, pairs in pages.items()]))
    report |= {"holds": holds, "pages": pages}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro", description=__doc__)
    parser.add_argument("--requests", type=int, default=5000, help="for each step")
    parser.add_argument("--pages", type=int, default=1600, help="of each crawl")
    parser.add_argument("--links", type=int, nargs="+", default=[1, 14, 60])
    parser.add_argument("--pairs", type=int, default=3, help="of crawls")
    parser.add_argument("--server", default="valkey", choices=("valkey", "redis"))
    parser.add_argument("--json", type=Path, help="a file for all figures")
    return parser.parse_args()


def _crawl(links: int, pages: int, url: str = "", *more: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.one_process"]
    command += ["--links", str(links), "--pages", str(pages), *more]
    if url:
        command += ["--url", url]
    done = subprocess.run(  # noqa: S603 - this very program
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _pair(links: int, pages: int, kind: str) -> dict[str, Any]:
    """One crawl with Scrapy's own scheduler, and one with ours."""
    stock = _crawl(links, pages)
    with Server(kind) as server:
        return {"stock": stock, "ours": _crawl(links, pages, server.url)}


def _step_cells(row: paths.StepRow) -> list[object]:
    if row.stock_us is None:
        return [row.step, row.us, "", ""]
    return [row.step, row.us, row.stock_us, row.us / row.stock_us]


def _hold_rows(holds: dict[int, Any]) -> list[list[object]]:
    return [
        [name, links, int(found[name]["calls"])]
        + [found[name][key] for key in ("p50", "p90", "p99", "p99.9", "max")]
        for name in CALLS
        for links, found in holds.items()
    ]


def _page_cells(links: int, pairs: Sequence[dict[str, Any]]) -> list[object]:
    def middle(name: str) -> float:
        return statistics.median(
            pair["ours"][name] / pair["stock"][name] for pair in pairs
        )

    def of(who: str, name: str) -> float:
        return statistics.median(pair[who][name] for pair in pairs)

    exchanges = statistics.median(
        pair["ours"]["exchanges"] / pair["ours"]["pages"] for pair in pairs
    )
    return [
        links,
        of("ours", "cpu_us_per_page"),
        of("stock", "cpu_us_per_page"),
        middle("cpu_us_per_page"),
        middle("pages_per_second"),
        exchanges,
    ]


if __name__ == "__main__":
    main()
