"""Which seen set suits a number of URLs and a memory budget."""

from __future__ import annotations

import csv
import hashlib
import textwrap

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from scrapy_redis_state.settings_table import SETTINGS
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Claim
from scrapy_redis_state.store.seen import SeenSet, suggest
from tests.processes import REPOSITORY
from tests.store.bloom import bloom_module
from tests.store.crawls import Crawl

MB, GB = 10**6, 10**9

KINDS = ("exact", "packed", "bloom")
"""From what compromises nothing to what compromises most."""


DOCS = REPOSITORY / "docs"


def in_bytes(cell: str) -> int:
    """Read ``9.5 MB``."""
    number, unit = cell.split()
    return round(float(number) * {"MB": MB, "GB": GB}[unit])


def compromise(seen: SeenSet) -> tuple[int, float]:
    """The more, the worse."""
    return KINDS.index(seen.kind), seen.error_rate if seen.kind == "bloom" else 0


def choice(urls: int, memory: int) -> SeenSet | None:
    try:
        return suggest(urls, memory)
    except ValueError:
        return None


def least_budget(urls: int, kind: str) -> int:
    """The smallest budget for which this kind is suggested."""
    low, high = 0, 1000 * urls
    while low < high:
        middle = (low + high) // 2
        found = choice(urls, middle)
        if found and KINDS.index(found.kind) <= KINDS.index(kind):
            high = middle
        else:
            low = middle + 1
    return low


@pytest.mark.parametrize(
    ("urls", "memory", "spec"),
    [
        (1_000_000, 1 * GB, "exact"),
        (100_000_000, 16 * GB, "exact"),
        (100_000_000, 1 * GB, "packed:100000000"),
        (100_000_000, 500 * MB, "bloom:100000000:1e-06"),
        (100_000_000, 270 * MB, "bloom:100000000:0.0001"),
    ],
)
def test_the_least_compromise_that_fits_is_suggested(urls, memory, spec):
    """Exact, then packed, then ever less careful Bloom filters."""
    assert suggest(urls, memory).spec == spec


def test_the_tables_of_the_manual_are_right():
    """For each number of URLs, so much memory is enough for that kind."""
    text = (DOCS / "explanation" / "memory.rst").read_text()
    table = text.partition(":header: URLs, exact")[2].partition("\n\nWith")[0]
    rows = list(csv.reader(table.splitlines()[2:], skipinitialspace=True))
    assert len(rows) == 4
    for urls, *cells in rows:
        number = int(urls.replace(" ", ""))
        found = [suggest(number, in_bytes(cell)) for cell in cells]
        assert [seen.kind for seen in found] == [*KINDS, "bloom"]
        assert [seen.error_rate for seen in found[2:]] == [0.000001, 0.001]


def test_the_example_of_the_manual_runs(capsys):
    """And prints what it suggests."""
    page = (DOCS / "reference" / "python.rst").read_text()
    block = page.partition(":caption: which seen set\n\n")[2].partition("\n\n..")[0]
    exec(textwrap.dedent(block), {})  # noqa: S102 - our own text
    assert capsys.readouterr().out == "bloom 100000000 0.0001\n"


def test_what_does_not_fit_is_refused():
    """With what the smallest one would need, and that is enough."""
    with pytest.raises(ValueError, match="100,000,000 URLs do not fit") as caught:
        suggest(100_000_000, 100 * MB)
    needed = int(str(caught.value).rpartition(" ")[2].rstrip(".").replace(",", ""))
    assert suggest(100_000_000, needed).kind == "bloom"
    assert choice(100_000_000, needed - 1) is None


def test_no_urls_are_refused():
    """A crawl sees one at least."""
    with pytest.raises(ValueError, match="urls=0"):
        suggest(0, GB)


@given(
    st.integers(1, 10**10),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
)
def test_more_memory_is_never_a_worse_choice(urls, memory, more):
    """Nor is there none where less was enough."""
    with_less = choice(urls, memory) or reject()
    assert compromise(suggest(urls, memory + more)) <= compromise(with_less)


@given(st.integers(1, 2**31 - 1), st.integers(0, 10**12))
def test_settings_take_what_is_suggested(urls, memory):
    """It is large enough for the URLs, and the settings' checks let it through."""
    seen = choice(urls, memory) or reject()
    checks = {setting.attribute: setting.check for setting in SETTINGS}
    assert seen.capacity >= urls
    assert checks["seen_capacity"].read(seen.capacity) == seen.capacity
    assert checks["seen_error_rate"].read(seen.error_rate) == seen.error_rate
    assert checks["seen"].read(seen.kind) == seen.kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("urls", [1_000, 33_000])
def test_what_is_suggested_stays_within_the_budget(fresh_server, kind, urls):
    """On a real server, when it has all the URLs, and with no byte to spare."""
    server = fresh_server(extra_args=["--loadmodule", str(bloom_module())])
    crawl = Crawl(server.client(), "shop:offers")
    budget = least_budget(urls, kind)
    seen = suggest(urls, budget)
    assert seen.kind == kind
    crawl.keys = CrawlKeys("shop:offers", "", seen)
    for first in range(0, urls, 500):
        numbers = range(first, min(first + 500, urls))
        crawl.push(*(Claim(hashlib.sha256(b"%d" % n).digest()[:20]) for n in numbers))
    keys = list(crawl.client.scan_iter("seen:*"))
    assert sum(crawl.client.memory_usage(key, samples=0) for key in keys) <= budget
    assert crawl.summary.seen >= urls * (1 - 0.02)
