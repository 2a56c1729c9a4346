"""A row of numbers as a row of little bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_redis_state.store.status import StatusReply

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last *width* values; the tallest bar is the largest of them."""
    shown = values[-width:]
    largest = max(shown, default=0)
    if largest <= 0:
        return BARS[0] * len(shown)
    top = len(BARS) - 1
    return "".join(BARS[round(top * max(0.0, one) / largest)] for one in shown)


def done_rates(status: StatusReply) -> list[float]:
    """Pages done per second, from each sample to the next."""
    return [
        max(0, late.done - early.done) / (late.at - early.at)
        for early, late in zip(status.samples, status.samples[1:], strict=False)
        if late.at > early.at
    ]


def left_counts(status: StatusReply) -> list[float]:
    """Requests that were left, at each sample and now."""
    return [*(float(one.left) for one in status.samples), float(status.left)]
