from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Programs
from tests.store.clients import call, client_to
from tests.store.embedded import Home, NewHome
from tests.store.fixtures import connect, crawl, scripts_store, state, store
from tests.store.seen_crawls import new_crawl, start_bloom

__all__ = [
    "call",
    "client_to",
    "connect",
    "crawl",
    "home",
    "new_crawl",
    "new_home",
    "scripts_store",
    "start_bloom",
    "state",
    "store",
]


@pytest.fixture
def new_home(tmp_path: Path, programs: Programs) -> Iterator[NewHome]:
    """Homes of servers; whatever a test did, nothing may run there after it."""
    homes = []

    def new(name: str | Path) -> Home:
        homes.append(Home(tmp_path / name, programs))
        return homes[-1]

    yield new
    programs.close()
    for home in homes:
        home.wait_until_left()


@pytest.fixture
def home(new_home: NewHome) -> Home:
    return new_home("home")
