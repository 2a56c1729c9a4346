from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import scrapy

from scrapy_redis_state.worker import worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

if "NEVER_ASK" in os.environ:
    # Exchanges without a reason: then only the server's word explains that a request is
    # taken.
    worker.BEAT_SECS = worker.IDLE_SECS = 3600


class FedSpider(scrapy.Spider):
    """Has no start requests, and lives on what is pushed."""

    name = "fed"
    custom_settings = {"REDIS_STATE_KEEP_ALIVE": True}  # noqa: RUF012

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for _ in ():
            yield _

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, **kwargs}


class MessageSpider(FedSpider):
    """Makes its requests of what is pushed."""

    name = "messages"

    def redis_state_request(self, message: dict[str, Any]) -> scrapy.Request | None:
        self.logger.info("message %r", message)
        if message.get("unwanted"):
            return None
        return scrapy.Request(
            message["url"], cb_kwargs={"sku": message["sku"]}, dont_filter=True
        )


class AwaitingSpider(FedSpider):
    """Its hook cannot be called where it would have to be."""

    name = "awaits"

    async def redis_state_request(self, message: dict[str, Any]) -> scrapy.Request:
        return scrapy.Request(message["url"])
