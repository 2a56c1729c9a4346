"""Crawls spread over several servers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.store.sharding import choose

URLS = [f"redis://server{number}.example:6379/0" for number in range(5)]
CRAWLS = [f"bot:spider{number}" for number in range(1000)]


@given(st.permutations(URLS), st.text(min_size=1))
def test_the_order_of_the_list_does_not_matter(urls: list[str], crawl: str) -> None:
    """All workers find a crawl at the same place if they have the same servers."""
    assert choose(urls, crawl) == choose(URLS, crawl)


def test_crawls_are_spread_evenly() -> None:
    """Each of five servers gets about a fifth."""
    shares = Counter(choose(URLS, crawl) for crawl in CRAWLS)
    assert set(shares) == set(URLS)
    assert min(shares.values()) > 150


def test_one_server_more_moves_few_crawls() -> None:
    """Only to the new one, and only its share."""
    before = {crawl: choose(URLS[:4], crawl) for crawl in CRAWLS}
    after = {crawl: choose(URLS, crawl) for crawl in CRAWLS}
    moved = [crawl for crawl in CRAWLS if before[crawl] != after[crawl]]
    assert {after[crawl] for crawl in moved} == {URLS[4]}
    assert 150 < len(moved) < 250


def test_a_password_moves_no_crawl() -> None:
    """Nor do TLS, options, or the order of the hosts of a cluster."""
    several = ["redis+cluster://c1:1,c2:2", "redis+sentinel://s1,s2/master", *URLS]
    changed = [
        "rediss+cluster://:new@c2:2,c1:1?socket_timeout=3",
        "redis+sentinel://u:p@s2,s1/master?sentinel_password=x",
        *(url.replace("redis://", "rediss://u:p@") for url in URLS),
    ]
    for crawl in CRAWLS[:100]:
        place = several.index(choose(several, crawl))
        assert choose(changed, crawl) == changed[place]


def test_where_crawls_are_is_the_same_in_all_versions() -> None:
    """A release that chose differently would lose running crawls."""
    found = [URLS.index(choose(URLS, f"shop:{number}")) for number in range(12)]
    assert found == [1, 2, 3, 1, 2, 4, 3, 3, 1, 1, 0, 4]
