"""What several runs say about one figure."""

from __future__ import annotations

import pytest

from benchmarks.intervals import estimate, quantile


def test_of_nine_values_the_second_and_the_second_last_bound_the_median():
    """That leaves a confidence of 96 %: the smallest that is above 95 %."""
    found = estimate([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (found.low, found.median, found.high) == (2, 5, 8)
    assert found.confidence == pytest.approx(1 - 20 / 512)


def test_few_values_say_how_little_they_tell():
    """There is no interval of 95 %, and the confidence says so."""
    found = estimate([3, 1, 2])
    assert (found.low, found.high, found.confidence) == (1, 3, 0.75)
    assert estimate([1]).confidence == 0


def test_a_quantile_is_a_value_that_was_measured():
    """So large a share of all is not above it."""
    values = [float(number) for number in range(100, 0, -1)]
    assert [quantile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
