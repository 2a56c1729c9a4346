"""An idle worker says once why it waits, and again when that changes."""

from __future__ import annotations

import logging

import pytest

from scrapy_redis_state.store.messages import CrawlStatus, Seeding, Summary
from scrapy_redis_state.worker import idle_log
from scrapy_redis_state.worker.idle_log import PATIENCE_SECS, IdleLog
from tests.processes import await_until
from tests.worker.fleet import Fleet, ack, page

OTHERS = Summary(in_flight=3, seeding=Seeding.DONE)
LATER = Summary(delayed=2, seeding=Seeding.DONE)
START = Summary(seeding=Seeding.OPEN)
DRAINED = Summary(drained=True, seeding=Seeding.DONE)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_why_it_waits_is_told_once(log: pytest.LogCaptureFixture) -> None:
    """However often it looks."""
    watch = IdleLog()
    for now in range(60):
        watch.look(OTHERS, is_idle=True, now=float(now))
    assert log.messages == [
        "Nothing to do for now: others have 3 requests, which may lead to more"
    ]
    assert {record.levelno for record in log.records} == {logging.INFO}


def test_another_reason_is_told(log: pytest.LogCaptureFixture) -> None:
    """And that there is something to do again."""
    watch = IdleLog()
    for summary in (START, OTHERS, LATER):
        for now in range(10):
            watch.look(summary, is_idle=True, now=float(now))
    watch.look(OTHERS, is_idle=False, now=11)
    watch.look(OTHERS, is_idle=True, now=12)
    assert log.messages == [
        "Nothing to do for now: another worker runs start()",
        "Nothing to do for now: others have 3 requests, which may lead to more",
        "Nothing to do for now: 2 requests to be tried later",
        "There is something to do again",
    ]


@pytest.mark.parametrize("summary", [DRAINED, Summary(pending=5, in_flight=1)])
def test_nothing_is_told_of_an_end_or_of_work(
    log: pytest.LogCaptureFixture, summary: Summary
) -> None:
    """There is nothing to wait for."""
    watch = IdleLog()
    for now in range(60):
        watch.look(summary, is_idle=True, now=float(now))
    assert log.messages == []


def test_a_moment_without_work_is_not_told(log: pytest.LogCaptureFixture) -> None:
    """Workers are idle for moments all the time."""
    watch = IdleLog()
    for now in range(60):
        watch.look(OTHERS, is_idle=now % int(PATIENCE_SECS) > 0, now=float(now))
    assert log.messages == []


def test_a_pause_and_its_end_are_told(log: pytest.LogCaptureFixture) -> None:
    """To each worker, busy or not; while it is paused no other reason counts."""
    watch = IdleLog()
    for status in (CrawlStatus.RUNNING, CrawlStatus.PAUSED, CrawlStatus.RUNNING):
        for now in range(20):
            summary = Summary(in_flight=3, status=status)
            watch.look(summary, is_idle=status is CrawlStatus.PAUSED, now=float(now))
    assert log.messages == [
        "The crawl is paused: what runs is finished",
        "The crawl goes on",
    ]


async def test_a_worker_beside_another_says_what_it_waits_for(
    fleet: Fleet, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the one that has nothing; and it hears of new work."""
    monkeypatch.setattr(idle_log, "PATIENCE_SECS", 0)
    fleet.push(page("a"))
    async with fleet.worker() as busy:
        lease = await fleet.take(busy)
        assert not log.messages
        async with fleet.worker() as idle:
            await await_until(lambda: len(log.messages))
            assert log.messages == [
                "Nothing to do for now: others have 1 request, which may lead to more"
            ]
            busy.offer(page("b"), lease)
            busy.offer(page("c"), lease)
            busy.end(lease, ack(lease))
            await fleet.take(idle)
            await await_until(lambda: len(log.messages) > 1)
            assert log.messages[1] == "There is something to do again"
