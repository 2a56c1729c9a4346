"""An event loop that stands still for longer than a lease."""

from __future__ import annotations

import asyncio
import logging
import time

from scrapy_redis_state.worker.stall import StallWatch
from tests.processes import await_until

LEASE_SECS = 0.6
LOOK_SECS = 0.02


def block(secs):
    """What a callback does that computes, or waits without awaiting."""
    time.sleep(secs)


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]


async def test_each_stall_is_one_warning_with_the_remedy(fleet, caplog):
    """However many looks, beats and pages were due meanwhile."""
    async with fleet.worker(lease_secs=LEASE_SECS) as worker:
        for count in (1, 2):
            await fleet.exchanged(worker)
            block(LEASE_SECS)
            await await_until(lambda wanted=count: worker.stalls == wanted)  # type: ignore[misc]
        await fleet.exchanged(worker, 3)
        assert worker.stalls == 2
    stalls = [text for text in warnings(caplog) if "stood still" in text]
    assert len(stalls) == 2
    for text in stalls:
        assert " s, longer than a lease (REDIS_STATE_LEASE_SECS = 0.6)" in text
        assert "asyncio.to_thread" in text
        assert "set REDIS_STATE_LEASE_SECS above what it takes" in text


async def test_less_than_a_lease_is_no_stall(fleet, caplog):
    """However often: a beat comes between."""
    async with fleet.worker(lease_secs=LEASE_SECS) as worker:
        for _ in range(4):
            block(LEASE_SECS / 3)
            await fleet.exchanged(worker)
        assert worker.stalls == 0
    assert warnings(caplog) == []


async def test_a_server_that_is_away_is_no_stall(fleet):
    """The loop runs, whatever the worker waits for."""
    async with fleet.worker(lease_secs=LEASE_SECS) as worker:
        with fleet.store.holding_replies():
            await asyncio.sleep(LEASE_SECS * 2)
        assert worker.stalls == 0


async def test_nothing_is_watched_after_the_end(caplog):
    """Nor is a watch that was never begun in need of an end."""
    watch = StallWatch(LEASE_SECS, LOOK_SECS)
    watch.stop()
    watch.start()
    watch.stop()
    watch.stop()
    block(LEASE_SECS)
    await asyncio.sleep(LOOK_SECS * 2)
    assert (watch.stalls, warnings(caplog)) == (0, [])
