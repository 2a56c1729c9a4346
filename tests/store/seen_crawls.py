"""Crawls with some seen set."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.seen import SeenSet
from tests.store.bloom import bloom_module
from tests.store.crawls import TUNABLE, Crawl

REVISIT_MS = 3_600_000


@pytest.fixture
def start_bloom(fresh_server):
    return lambda: fresh_server(extra_args=["--loadmodule", str(bloom_module())])


@pytest.fixture
def new_crawl(start_bloom, server, crawl_name):
    """Makes a crawl with some seen set; its keys agree when the test is over."""
    crawls: list[Crawl] = []

    def new(kind: str = "exact", **fields: Any) -> Crawl:
        where = start_bloom() if kind == "bloom" else server
        crawls.append(Crawl(where.client(), f"{crawl_name}{len(crawls) or ''}"))
        crawls[-1].keys = CrawlKeys(crawls[-1].keys.crawl, "", SeenSet(kind, **fields))
        return crawls[-1]

    yield new
    for crawl in crawls:
        assert crawl.fsck() == []


def join(crawl: Crawl, worker: str = "w1", **tunable: int):
    return crawl.member(
        worker,
        identity={"seen": crawl.keys.seen_set.spec},
        tunable=TUNABLE | {name: str(value) for name, value in tunable.items()},
    )


def finish(crawl: Crawl) -> None:
    """End it as the last worker does, long enough ago for another to begin."""
    crawl.set(status="finished", finished_at=1)
