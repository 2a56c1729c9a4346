"""What several runs say about one figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, and between what the true one lies.

    The interval is from the smallest to the largest value, less as many from both ends
    as leaves a confidence of 95 %; it supposes nothing about how values are spread.
    With fewer than six there is no such interval, and ``confidence`` is what there is.
    """

    median: float
    low: float
    high: float
    confidence: float
    values: tuple[float, ...]


def estimate(values: Sequence[float]) -> Estimate:
    """The median of *values*, at least one, with its interval."""
    ordered = sorted(values)
    count, left_out = len(ordered), 0
    while left_out + 1 < count / 2 and _confidence(count, left_out + 1) >= CONFIDENCE:
        left_out += 1
    return Estimate(
        statistics.median(ordered),
        ordered[left_out],
        ordered[count - 1 - left_out],
        _confidence(count, left_out),
        tuple(values),
    )


def _confidence(count: int, left_out: int) -> float:
    """That the median is not beyond what is left without so many from both ends."""
    beyond = sum(comb(count, below) for below in range(left_out + 1))
    return float(1 - beyond / 2 ** (count - 1))


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least so large a share is not above."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * share) - 1)]
