"""Sessions on a real server, and what tests look at behind their back."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine
from typing import Any

import redis

from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.sessions import (
    Changes,
    Cookie,
    Saved,
    Session,
    Stamp,
    scripts,
    session_name,
    site_of,
)
from scrapy_redis_state.store.sessions.sessions import AsyncSessions, Sessions

TTL = 1800
SITE = "shop.example"
BROWSER = {
    "name": "sid",
    "value": "1",
    "domain": ".shop.example",
    "path": "/",
    "expires": -1,
    "httpOnly": True,
    "secure": True,
    "sameSite": "Lax",
}
"""A cookie as browsers and Playwright have it."""


class Store:
    """``await store.load(...)`` with either API; and the scripts themselves."""

    def __init__(
        self, api: Sessions | AsyncSessions, client: redis.Redis, prefix: str
    ) -> None:
        self.api = api
        self.client = client
        self.prefix = prefix

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self.api, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            return await result if inspect.isawaitable(result) else result

        return call

    def key(self, domain: str = SITE, session: Any = None) -> SessionKey:
        return SessionKey(site_of(domain), session_name(session), self.prefix)

    def run(self, call: Call[Any]) -> Any:
        return run(self.client, call)

    def load_session(self, known: Stamp | None = None, ttl: int = TTL) -> Session:
        session = self.run(scripts.load(self.key(), ttl, known))
        assert isinstance(session, Session)
        return session

    def save_changes(
        self, *cookies: Cookie, epoch: str | None = None, ttl: int = TTL, **others: Any
    ) -> Saved:
        changes = Changes(cookies=cookies, **others)
        saved = self.run(scripts.save(self.key(), changes, epoch, ttl))
        assert isinstance(saved, Saved)
        return saved

    def put(self, *, session: Any = None, **fields: str | bytes) -> None:
        """Write fields as another program might."""
        mapping: Any = fields
        self.client.hset(str(self.key(session=session)), mapping=mapping)

    def put_raw(self, field: str | bytes, value: str | bytes) -> None:
        self.client.hset(str(self.key()), field, value)

    def fields(self) -> dict[str, str]:
        found: Any = self.client.hgetall(str(self.key()))
        return {name.decode(): value.decode() for name, value in found.items()}

    def ttl(self) -> float:
        """Seconds; infinite: for ever."""
        ms: int = self.client.pttl(str(self.key()))
        return math.inf if ms < 0 else ms / 1000


def cookie(name: str, value: str | None = "1", **fields: Any) -> Cookie:
    """A cookie of the shop."""
    return Cookie(name, value, **{"domain": f".{SITE}", **fields})


def names(session: Session) -> list[str]:
    return [one.name for one in session.cookies.values()]
