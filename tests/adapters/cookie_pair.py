"""Stock Scrapy's cookies middleware and ours, given the same requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware as StockMiddleware
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_redis_state.cookies import CookiesMiddleware
from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.store.keys import SessionKey
from tests.processes import await_until


class Shop(Spider):
    name = "shop"


class Ours:
    """The middleware of one worker, without the rest of it."""

    def __init__(self, url: str, prefix: str, **settings: Any) -> None:
        ours = {"REDIS_STATE_URL": url, "REDIS_STATE_KEY_PREFIX": prefix, **settings}
        self.crawler = get_crawler(Shop, ours)
        self.crawler.spider = Shop.from_crawler(self.crawler)
        self.middleware = CookiesMiddleware.from_crawler(self.crawler)
        self.crawl = SharedCrawl.of(self.crawler)

    async def send(self, request: Request) -> bytes | None:
        """The ``Cookie`` header that a request is sent with."""
        await self.middleware.process_request(request)
        return request.headers.get("Cookie")

    async def receive(self, request: Request, *cookies: str | bytes) -> None:
        """Get a response with such ``Set-Cookie`` headers."""
        await self.middleware.process_response(request, answer(request, cookies))

    async def get(self, url: str, *cookies: str, **fields: Any) -> bytes | None:
        """A page, which sets cookies; the header that it was asked for with."""
        request = Request(url, **fields)
        sent = await self.send(request)
        await self.receive(request, *cookies)
        return sent

    def forget(self) -> None:
        """Have nothing in memory, as after a long time."""
        sharing = self.middleware._sharing
        assert sharing
        for value, key in list(sharing._used):
            self.middleware.jars[value].forget(key.site)
            if self.middleware.jars[value].is_unused:
                del self.middleware.jars[value]
        sharing._used.clear()
        self.crawl.sessions._entries.clear()

    def expire(self) -> None:
        """Have everything loaded again."""
        self.crawl.forget_sessions()

    async def saved(self, key: SessionKey) -> None:
        """Wait until the server has all that this worker knows."""
        await await_until(lambda: not self.crawl.sessions.unsaved(key), 20)

    def stat(self, name: str) -> int:
        """A counter under ``redis_state/sessions``."""
        return int(self.crawler.stats.get_value(f"redis_state/sessions/{name}", 0))

    async def close(self) -> None:
        if self.crawl._sessions is not None:
            await self.crawl._close_sessions()


class Stock:
    """Scrapy's middleware."""

    def __init__(self) -> None:
        crawler = get_crawler(Shop)
        crawler.spider = Shop.from_crawler(crawler)
        self.middleware = StockMiddleware.from_crawler(crawler)

    def send(self, request: Request) -> bytes | None:
        self.middleware.process_request(request)
        return request.headers.get("Cookie")

    def receive(self, request: Request, *cookies: str | bytes) -> None:
        self.middleware.process_response(request, answer(request, cookies))


def answer(request: Request, cookies: Sequence[str | bytes]) -> Response:
    headers = {"Set-Cookie": list(cookies)} if cookies else {}
    return Response(request.url, headers=headers)
