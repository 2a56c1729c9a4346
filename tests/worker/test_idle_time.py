"""A worker that waits for more leaves when there was no work for long enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scrapy_redis_state.store.messages import Ack, ExchangeRequest, Status
from tests.model.server import ModelServer
from tests.processes import await_until
from tests.worker.fleet import JOIN, ack, page

IDLE_SECS = 100.0


def do_a_page_at_once(server: ModelServer) -> None:
    """Another worker comes, is given a page, ends it and goes; nobody else calls."""
    joined = server.join(replace(JOIN, worker="other"))
    stamp = joined.stamp
    calls: list[dict[str, Any]] = [
        {"operations": (page("one"),), "want": 1},
        {},
        {"leaving": True},
    ]
    for batch, call in enumerate(calls, 1):
        server.now += 1
        request = ExchangeRequest("other", joined.token, batch, stamp, 1, **call)
        reply = server.exchange(request)
        assert reply.status is Status.OK
        stamp = reply.stamp
        if reply.popped:
            calls[batch]["operations"] = (Ack(reply.popped[0].id, batch),)


async def test_a_worker_leaves_after_so_long_without_work(fleet, pass_time):
    """And not before."""
    async with fleet.worker(keep_alive=True, idle_secs=IDLE_SECS) as worker:
        await fleet.exchanged(worker, 2)
        pass_time(IDLE_SECS * 0.9)
        await fleet.exchanged(worker, 2)
        assert worker.has_work
        pass_time(IDLE_SECS * 0.2)
        await await_until(lambda: not worker.has_work)


async def test_work_that_another_did_between_two_looks_is_work(fleet, pass_time):
    """A fleet does not melt away because one of its workers is always first."""
    async with fleet.worker(keep_alive=True, idle_secs=IDLE_SECS) as idle:
        await fleet.exchanged(idle, 2)
        pass_time(IDLE_SECS * 0.9)
        await fleet.exchanged(idle, 2)
        do_a_page_at_once(fleet.store.server)
        await fleet.exchanged(idle, 2)
        pass_time(IDLE_SECS * 0.2)
        await fleet.exchanged(idle, 2)
        assert idle.has_work


async def test_time_without_an_answer_is_no_time_without_work(fleet, pass_time):
    """Nobody knows what a server that is away will have when it is back."""
    async with fleet.worker(keep_alive=True, idle_secs=IDLE_SECS) as worker:
        await fleet.exchanged(worker, 2)
        fleet.store.away = True
        pass_time(IDLE_SECS * 1.1)
        assert worker.has_work
        fleet.push(page("pushed meanwhile"))
        fleet.store.away = False
        lease = await fleet.take(worker)
        worker.end(lease, ack(lease))
        await fleet.settled(worker)
        assert worker.has_work
