"""Which responses change a session: the table of docs/explanation/sessions.rst.

Each row twice: the worker knows what happened before the response comes, or learns of
it from the answer to its write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from scrapy import Request

from tests.adapters.cookie_pair import Ours
from tests.adapters.test_cookies import HOME, Workers, handed_on, workers_on

pytestmark = pytest.mark.one_server

Happening = Callable[[Workers, Ours], Awaitable[None]]


async def nothing(workers: Workers, other: Ours) -> None:
    """It is as it was."""


async def grow(workers: Workers, other: Ours) -> None:
    """Another page's response made it, or added to it."""
    await other.get(HOME, "other=1")


async def publish(workers: Workers, other: Ours) -> None:
    workers.sessions.save(HOME, {"sid": "published"})


async def invalidate(workers: Workers, other: Ours) -> None:
    workers.sessions.invalidate(HOME)


async def forget(workers: Workers, other: Ours) -> None:
    """Nobody used it for its time."""
    workers.client.delete(str(workers.key))


async def begin_anew(workers: Workers, other: Ours) -> None:
    """It was forgotten, and has grown again."""
    await forget(workers, other)
    other.forget()
    await grow(workers, other)


NO_SESSION = [
    (nothing, "sid=late"),
    (grow, "other=1; sid=late"),
    (publish, "sid=published"),
    (invalidate, None),
]
A_SESSION = [
    (nothing, "sid=late"),
    (grow, "sid=late; other=1"),
    (publish, "sid=published"),
    (invalidate, None),
    (forget, "sid=late"),
    (begin_anew, "other=1"),
]


def named(happening: object) -> str | None:
    return getattr(happening, "__name__", None)


async def check(
    workers: Workers, worker: Ours, request: Request, expected: str | None, knows: str
) -> None:
    """Answer the request late, and look at what everybody sends then."""
    if knows == "before":
        worker.expire()
        await worker.send(Request(HOME))
    await worker.receive(request, "sid=late")
    sent = expected.encode() if expected else None
    assert await worker.get(HOME) == sent
    assert await workers.start().get(HOME) == sent
    is_stale = expected is None or "late" not in expected
    assert worker.stat("stale") == is_stale


@pytest.mark.parametrize("knows", ["before", "after"])
@pytest.mark.parametrize(("happening", "expected"), NO_SESSION, ids=named)
async def test_a_response_to_a_request_of_no_session(
    server, crawl_name, happening: Happening, expected, knows
):
    """It makes a session, or adds to what grew; a login published meanwhile stays."""
    async with workers_on(server, crawl_name) as workers:
        worker, other = workers.start(), workers.start()
        request = Request(HOME)
        assert await worker.send(request) is None
        await happening(workers, other)
        await check(workers, worker, request, expected, knows)


@pytest.mark.parametrize("knows", ["before", "after"])
@pytest.mark.parametrize(("happening", "expected"), A_SESSION, ids=named)
async def test_a_response_to_a_request_of_a_session(
    server, crawl_name, happening: Happening, expected, knows
):
    """It changes that session, and no other."""
    async with workers_on(server, crawl_name) as workers:
        worker, other = workers.start(), workers.start()
        await worker.get(HOME, "sid=early")
        request = Request(HOME)
        assert await worker.send(request) == b"sid=early"
        await happening(workers, other)
        await check(workers, worker, request, expected, knows)


async def test_a_session_that_was_forgotten_while_a_request_waited(server, crawl_name):
    """The request is sent without it, and its response makes another."""
    async with workers_on(server, crawl_name) as workers:
        maker, taker = workers.start(), workers.start()
        await maker.get(HOME, "sid=early")
        request = handed_on(Request(HOME), maker, taker)
        await forget(workers, maker)
        assert await taker.send(request) is None
        await taker.receive(request, "sid=late")
        assert workers.sessions.load(HOME) == {"sid": "late"}


async def test_a_session_that_was_replaced_while_a_request_waited(server, crawl_name):
    """The request is sent with the new one, and its response belongs to that."""
    async with workers_on(server, crawl_name) as workers:
        maker, taker = workers.start(), workers.start()
        await maker.get(HOME, "sid=early")
        await taker.get(HOME)
        request = handed_on(Request(HOME), maker, taker)
        workers.sessions.save(HOME, {"sid": "published"})
        taker.expire()
        assert await taker.send(request) == b"sid=published"
        await taker.receive(request, "sid=late; Domain=.shop.example")
        assert workers.sessions.load(HOME) == {"sid": "late"}


async def test_a_worker_that_never_heard_of_the_session(fresh_server, crawl_name):
    """The server was away when its request was sent: a published login stays."""
    server = fresh_server(appendonly=True)
    async with workers_on(server, crawl_name) as workers:
        workers.sessions.save(HOME, {"sid": "published"})
        server.kill()
        worker = workers.start()
        await worker.get(HOME, "sid=late")
        assert await worker.get(HOME) == b"sid=late"
        server.start()
        await worker.saved(workers.key)
        worker.expire()
        assert await worker.get(HOME) == b"sid=published"
        assert workers.sessions.load(HOME) == {"sid": "published"}
