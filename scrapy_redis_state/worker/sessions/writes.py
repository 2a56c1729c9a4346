"""Changes of sessions on their way to the server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_redis_state.store.sessions import Changes, Cookie, CookieKey

if TYPE_CHECKING:
    import asyncio

    from scrapy_redis_state.store.sessions import Saved


@dataclass(slots=True, eq=False)
class Write:
    """Changes of one session that are based on its state of one epoch."""

    changes: Changes
    epoch: str
    done: asyncio.Future[Saved | None]
    """Its result is None when the server did not answer and the write has to wait."""
    in_air: bool = True
    keys: frozenset[CookieKey] = field(init=False)
    """The cookies it changes."""

    def __post_init__(self) -> None:
        set_here = (cookie.key for cookie in self.changes.cookies)
        self.keys = frozenset((*set_here, *self.changes.deleted))

    def settle(self, saved: Saved | None) -> None:
        """Tell who waits for it."""
        self.in_air = False
        if not self.done.done():
            self.done.set_result(saved)


@dataclass(slots=True, eq=False)
class Confirmation:
    """A cookie that a response set as it was known to be."""

    cookie: Cookie
    epoch: str
    """Of the session that the response belongs to."""
    at: float
    """When it came, by the worker's clock."""
    in_air: bool = False
    """The server is being told."""


def merged(changes: Iterable[Changes]) -> Changes:
    """One change of cookies in the place of several; the later ones count."""
    cookies: dict[CookieKey, Cookie] = {}
    deleted: dict[CookieKey, None] = {}
    for one in changes:
        for key in one.deleted:
            cookies.pop(key, None)
            deleted[key] = None
        for cookie in one.cookies:
            # What was deleted before it is set stays deleted first, so that it comes
            # last among its like.
            cookies[cookie.key] = cookie
    return Changes(cookies=tuple(cookies.values()), deleted=tuple(deleted))
