from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.everyday.crawls import EverydayCrawls, GatedSite
from tests.processes import Programs
from tests.servers import Server


@pytest.fixture
def crawls(
    programs: Programs, server: Server, crawl_name: str
) -> Iterator[EverydayCrawls]:
    """Starts workers; whatever a test did, the keys of its crawls must agree after."""
    crawls = EverydayCrawls(programs, server, crawl_name)
    yield crawls
    assert crawls.problems() == []


@pytest.fixture
def site() -> Iterator[GatedSite]:
    with GatedSite() as site:
        yield site
        site.release()
