"""What is run in which order, and what the runs say together."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.crawling.systems import (
    OURS,
    OURS_FULL,
    SCRAPY_REDIS,
    STOCK,
    STOCK_COOKIES,
    System,
)
from benchmarks.crawling.trial import Row
from benchmarks.intervals import Estimate, estimate

ROUND_TRIPS_MS = (0, 2, 10, 50)
FULL_ROUND_TRIPS_MS = (0, 50)
"""Of the variant with sessions and a Bloom filter, to save time."""
FAR_ROUNDS = 3
"""Rounds in which scrapy-redis is run at a distance: what it shows needs no more."""
FAR_SECONDS = 8
"""About how long such a run takes: it is broken off after some pages."""
FAR_CALLS = 16
"""Round trips of scrapy-redis for a page with 14 links."""
LEAST_PAGES = 20

BASELINES = {
    OURS.name: STOCK.name,
    OURS_FULL.name: STOCK_COOKIES.name,
    SCRAPY_REDIS: STOCK.name,
}
"""What each is compared with, in the same round."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a round."""

    system: System
    round_trip_ms: float = 0
    most_pages: int = 0
    """0: the whole site."""


def steps_of(number: int, other: System | None) -> list[Step]:
    """The runs of a round, in an order of its own, so that none is always first.

    :param other: scrapy-redis, if there is one
    """
    steps = [Step(STOCK), Step(STOCK_COOKIES)]
    steps += [Step(OURS, ms) for ms in ROUND_TRIPS_MS]
    steps += [Step(OURS_FULL, ms) for ms in FULL_ROUND_TRIPS_MS]
    if other:
        steps.append(Step(other))
        if number < FAR_ROUNDS:
            steps += [Step(other, ms, _far_pages(ms)) for ms in ROUND_TRIPS_MS if ms]
    random.Random(number).shuffle(steps)  # noqa: S311 - an order, not a secret
    return steps


def _far_pages(round_trip_ms: float) -> int:
    return max(LEAST_PAGES, int(FAR_SECONDS * 1000 / FAR_CALLS / round_trip_ms))


@dataclass(frozen=True, slots=True)
class Summary:
    """All runs of one system at one distance. Without ``ratio``: medians."""

    system: str
    round_trip_ms: float
    runs: int
    pages_per_second: float
    ratio: Estimate | None
    """Pages a second, to those of the baseline in the same round; None: it is one."""
    cpu_ratio: float | None
    """Processor time of the crawling process per page, likewise."""
    startup_more_seconds: float | None
    """By how much its first response came later, likewise."""
    cpu_us_page: float
    startup_seconds: float
    closing_seconds: float | None
    peak_mib: float
    redis_cpu_us_page: float
    round_trips_page: float
    commands_page: float


def summaries(rounds: Sequence[Sequence[Row]]) -> Iterator[Summary]:
    """One for each system and distance, in the order of the first round's names."""
    kinds = {(row.system, row.round_trip_ms) for rows in rounds for row in rows}
    order = [STOCK.name, OURS.name, SCRAPY_REDIS, STOCK_COOKIES.name, OURS_FULL.name]
    for system, round_trip_ms in sorted(
        kinds, key=lambda kind: (order.index(kind[0]), kind[1])
    ):
        baseline = BASELINES.get(system)
        pairs = [
            (_find(rows, system, round_trip_ms), _find(rows, baseline, 0))
            for rows in rounds
        ]
        yield _summary([(row, base) for row, base in pairs if row])


def _find(rows: Iterable[Row], system: str | None, round_trip_ms: float) -> Row | None:
    for row in rows:
        if (row.system, row.round_trip_ms) == (system, round_trip_ms):
            return row
    return None


def _summary(pairs: Sequence[tuple[Row, Row | None]]) -> Summary:
    rows = [row for row, _ in pairs]
    both = [(row, base) for row, base in pairs if base]
    rates = [row.pages_per_second / base.pages_per_second for row, base in both]
    costs = [row.cpu_us_page / base.cpu_us_page for row, base in both]
    starts = [row.startup_seconds - base.startup_seconds for row, base in both]
    closings = [row.closing_seconds for row in rows if row.closing_seconds is not None]

    def middle(name: str) -> float:
        return float(statistics.median(getattr(row, name) for row in rows))

    return Summary(
        rows[0].system,
        rows[0].round_trip_ms,
        len(rows),
        middle("pages_per_second"),
        estimate(rates) if rates else None,
        statistics.median(costs) if costs else None,
        statistics.median(starts) if starts else None,
        middle("cpu_us_page"),
        middle("startup_seconds"),
        statistics.median(closings) if closings else None,
        middle("peak_mib"),
        middle("redis_cpu_us_page"),
        middle("round_trips_page"),
        middle("commands_page"),
    )
