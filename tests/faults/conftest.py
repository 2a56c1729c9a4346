from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.faults.proxy import Proxy
from tests.faults.trial import Trial
from tests.processes import Programs
from tests.servers import Server
from tests.store.fixtures import crawl

__all__ = ["crawl", "proxy_to", "trial", "trial_on"]


@pytest.fixture
def trial(programs: Programs, server: Server, crawl_name: str) -> Iterator[Trial]:
    """Workers on the shared server; the keys of the crawl must agree after the test."""
    trial = Trial(programs, server, crawl_name)
    yield trial
    assert trial.problems() == []


@pytest.fixture
def trial_on(
    programs: Programs, crawl_name: str
) -> Iterator[Callable[[Server], Trial]]:
    """Makes a trial on a server of its own."""
    trials: list[Trial] = []

    def make(server: Server) -> Trial:
        trials.append(Trial(programs, server, crawl_name))
        return trials[-1]

    yield make
    for trial in trials:
        if trial.server.running:
            assert trial.problems() == []


@pytest.fixture
def proxy_to() -> Iterator[Callable[[Server], Proxy]]:
    """Puts a proxy in front of a server."""
    with ExitStack() as proxies:
        yield lambda server: proxies.enter_context(Proxy(server))
