"""What is told of a worker's memory over many pages."""

from __future__ import annotations

import random

import pytest

from benchmarks.soak import growth_of

PAGES = 100_000


def samples(mib_of_page):
    return [(page, mib_of_page(page)) for page in range(500, PAGES + 1, 500)]


def test_memory_that_goes_up_and_down_is_flat():
    """As a garbage collector has it; what was before the warm-up does not count."""
    chance = random.Random(1)
    memory = samples(lambda page: 100 + chance.random() - 50 * (page < PAGES / 2))
    assert growth_of(memory, PAGES) == pytest.approx(1, abs=0.005)


def test_memory_that_grows_with_the_pages_is_told_of():
    """However little each of them takes."""
    assert growth_of(samples(lambda page: page / 1000), PAGES) > 1.7


def test_a_crawl_of_few_samples_is_told_of():
    """One for each end will do."""
    assert growth_of([(500, 90), (1000, 95), (1500, 100), (2000, 110)], 2000) == 1.1
