from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.crawl.crawls import Crawls
from tests.crawl.example import EXAMPLE, Example
from tests.processes import Programs
from tests.servers import Server


@pytest.fixture
def crawls(programs: Programs, server: Server, crawl_name: str) -> Iterator[Crawls]:
    """Starts workers; whatever a test did, the keys of its crawls must agree after."""
    crawls = Crawls(programs, server, crawl_name)
    yield crawls
    assert crawls.problems() == []


@pytest.fixture
def example(programs: Programs) -> Example:
    return Example(programs)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the runner."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return lambda name: importlib.import_module(f"runner.{name}")
