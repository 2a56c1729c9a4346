"""Memory of a worker over many pages.

``python -m benchmarks.soak`` from the repository's root; see README.rst.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from benchmarks import results
from benchmarks.crawling.stage import stage
from benchmarks.crawling.systems import OURS
from benchmarks.crawling.worker import PAGES_PER_SAMPLE
from benchmarks.report import table

WARM_UP_SHARE = 0.5
"""What of a crawl counts as warm-up. The pages that a worker knows to be seen take more
memory until there are 100 000; Twisted keeps the timers of each download for three
minutes, which takes the more, the faster the crawl is."""
WINDOW_SHARE = 0.1
"""Samples that are looked at together: the median of them is compared."""
ROWS = 10
SLOWEST_PAGES_PER_SECOND = 20
"""A crawl that is slower hangs."""


def main() -> None:
    """Measure as the command line says."""
    options = _options()
    laps = max(1, options.pages // options.site)
    with stage(options.site) as (trials, figures):
        patience = options.pages / SLOWEST_PAGES_PER_SECOND
        (noted,) = trials.crawl(OURS, laps=laps, patience_seconds=patience)
    memory = [(pages, mib) for pages, mib in noted["memory"]]
    print(table(("pages", "resident MiB"), _some(memory)), end="\n\n")
    growth = growth_of(memory, noted["pages"])
    print(f"in the end to what it was after warm-up: {growth:.3f}")
    figures |= {
        "pages": noted["pages"],
        "memory": memory,
        "warm_up_share": WARM_UP_SHARE,
        "growth": growth,
        "closing_seconds": noted["times"]["closed"] - noted["times"]["last"],
    }
    print(results.write("soak", figures, options))


def growth_of(memory: Sequence[tuple[int, float]], pages: int) -> float:
    """Memory in the end as a multiple of what it was after warm-up.

    :param memory: after so many pages, so much
    :param pages: of the whole crawl
    """
    window = max(pages * WINDOW_SHARE, PAGES_PER_SAMPLE)
    starts = pages * WARM_UP_SHARE, pages - window
    warm, last = (
        statistics.median(mib for at, mib in memory if start < at <= start + window)
        for start in starts
    )
    return last / warm


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    results.add_options(parser)
    parser.add_argument(
        "--pages", type=int, help="to crawl, about (200 000; quick: 5000)"
    )
    parser.add_argument(
        "--site", type=int, default=2000, help="pages that there are, under many URLs"
    )
    options = parser.parse_args()
    options.pages = options.pages or (5_000 if options.quick else 200_000)
    return options


def _some(memory: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    step = max(1, len(memory) // ROWS)
    return list(memory[step - 1 :: step])


if __name__ == "__main__":
    main()
