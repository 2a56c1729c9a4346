"""One shop, several Scrapy processes: kill one, stop one, add one, lose nothing.

Starts a shop site and three workers, kills a worker with SIGKILL in the middle, stops
another with SIGTERM, starts a new one, and ends with a summary. A run that is
interrupted is resumed by the next one. The exit status is 0 only if no product was lost
and no more items were repeated than workers had pages in flight when they died; and,
with the spider ``members``, if all workers shared one login and one solved challenge.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from runner.opening import PRODUCTS, SPIDERS, Options
from runner.progress import Progress
from runner.scenario import Scenario
from runner.summary import render
from runner.waiting import Interrupted, Patience, ScenarioError

from scrapy_redis_state.store.errors import RedisStateError

if TYPE_CHECKING:
    from runner.outcome import Outcome

FEWEST_PRODUCTS = 40
"""With fewer the crawl is over before anything can be done to its workers."""
DATA = Path(__file__).resolve().parent / ".scrapy"


def main() -> int:
    """Run the demonstration; the exit status says whether the promises were kept."""
    options, time_limit = _arguments()
    progress = Progress()
    try:
        with ExitStack() as stack:
            stack.callback(progress.close)
            patience = Patience(time_limit)
            outcome = Scenario(options, stack, patience, progress).run()
    except Interrupted as signal:
        print(f"ended by {signal}; everything that was started is stopped")
        return signal.exit_status
    except (ScenarioError, RedisStateError) as error:
        print(f"\nfailed: {error}", file=sys.stderr)
        return 1
    return report(outcome)


def report(outcome: Outcome) -> int:
    """Print the summary, and return the exit status."""
    print(f"\n{render(outcome)}\n")
    problems = outcome.problems()
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    if not problems:
        print("Nothing was lost, and no more was repeated than was in flight.")
    return 1 if problems else 0


def _arguments() -> tuple[Options, float]:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    add = parser.add_argument
    add("--spider", choices=SPIDERS, help=f"default: {SPIDERS[0]}")
    add("--products", type=int, help=f"size of the shop (default: {PRODUCTS})")
    add("--workers", type=int, default=3, help="workers at the start (default: 3)")
    add("--browser", help="Chromium for --spider members; '': none, a small solver")
    add("--url", default="", help="use this server (default: the embedded one)")
    add("--directory", type=Path, default=DATA, help="for all data (default: .scrapy)")
    add("--fresh", action="store_true", help="do not resume an interrupted run")
    add("--time-limit", type=float, default=180, metavar="SECS")
    given = parser.parse_args()
    if given.products is not None and given.products < FEWEST_PRODUCTS:
        parser.error(f"--products: at least {FEWEST_PRODUCTS}")
    if given.workers < 2:  # noqa: PLR2004 - one to kill, one to go on
        parser.error("--workers: at least 2, as one of them is killed")
    options = Options(
        directory=given.directory.resolve(),
        spider=given.spider,
        products=given.products,
        url=given.url,
        workers=given.workers,
        browser=given.browser,
        is_fresh=given.fresh,
    )
    return options, given.time_limit


if __name__ == "__main__":
    sys.exit(main())
