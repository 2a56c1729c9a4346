"""What a person should know of a crawl that goes on, and do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scrapy_redis_state.commands.figures import (
    is_over,
    orphans,
    seed_error,
    workers_at_work,
)
from scrapy_redis_state.commands.output import count, duration
from scrapy_redis_state.store.messages import Seeding

if TYPE_CHECKING:
    from scrapy_redis_state.store.memory_use import ServerMemory
    from scrapy_redis_state.store.status import StatusReply

NEARLY_FULL = 0.9
"""Share of its memory above which a server is about to take no more."""


def warnings_of(status: StatusReply, server: ServerMemory | None) -> list[str]:
    """One line each, the most pressing first."""
    return [*_of_workers(status), *_of_start(status), *_of_memory(status, server)]


def growth(status: StatusReply) -> str | None:
    """That more is stored than done, if so for longer than a start takes."""
    pace = status.pace
    if pace.grows is None or is_over(status):
        return None
    start = ""
    if status.summary.seeding is Seeding.OPEN:
        start = " (start() is still running)"
    return (
        f"the frontier grows by {pace.grows:,.1f} requests/s{start}, while"
        f" {pace.done or 0:,.1f} pages/s are done: more workers, or fewer links, will"
        " end it; a bigger server only puts it off"
    )


def _of_workers(status: StatusReply) -> Iterator[str]:
    if is_over(status):
        return
    lost = orphans(status)
    if not workers_at_work(status):
        silence = ""
        if status.silence_ms >= 0:
            silence = f" for {duration(status.silence_ms / 1000)}"
        yield f"there is work, and no live worker{silence}: start some"
    elif lost:
        yield (
            f"{count(lost, 'request')} in flight without a live worker: they are handed"
            f" out again within {duration(status.lease_ms / 1000)} or so"
        )


def _of_start(status: StatusReply) -> Iterator[str]:
    error = seed_error(status)
    if error:
        again = "was given up"
        if status.summary.seeding is Seeding.OPEN:
            again = "is tried again"
        yield (
            f"start() raised {count(status.seed_failures, 'time')} and {again}:"
            f" {error.splitlines()[0]}"
        )


def _of_memory(status: StatusReply, server: ServerMemory | None) -> Iterator[str]:
    grows = growth(status)
    if grows:
        yield grows
    if server is None:
        return
    if server.share is not None and server.share > NEARLY_FULL:
        yield (
            f"the server has used {server.share:.0%} of its maxmemory: when it is full,"
            " workers hold back what they find"
        )
    if server.policy.startswith("allkeys-"):
        yield (
            f"maxmemory-policy is {server.policy}: a full server would delete parts of"
            " the crawl: CONFIG SET maxmemory-policy noeviction"
        )
