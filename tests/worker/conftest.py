"""A crawl on the reference model, and a clock that can be put forward."""

from __future__ import annotations

import pytest

from scrapy_redis_state.worker import clock, worker
from tests.worker.fleet import Fleet


@pytest.fixture
def fleet(monkeypatch):
    """A crawl whose workers exchange more often than they do in earnest."""
    monkeypatch.setattr(worker, "BEAT_SECS", 0.02)
    monkeypatch.setattr(worker, "IDLE_SECS", 0.02)
    return Fleet()


@pytest.fixture
def pass_time(monkeypatch):
    """``pass_time(seconds)``: workers believe that so much time has passed."""
    real, passed = clock.now, [0.0]
    monkeypatch.setattr(clock, "now", lambda: real() + sum(passed))
    return passed.append
