from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.http import Response
    from scrapy.http.request import CallbackT

Output = scrapy.Request | dict[str, Any]


def path_of(response: Response) -> str:
    return urlsplit(response.url).path


def by_closure(callback: Callable[[Response], Any]) -> CallbackT:
    """The same callback, as only this process has it."""

    def call(response: Response) -> Any:
        return callback(response)

    return call


class SiteSpider(scrapy.Spider):
    """Starts at ``/start`` of a site, and reports the path of each page."""

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site

    async def start(self) -> AsyncIterator[Any]:
        yield self.page("/start")

    def page(
        self, path: str, callback: CallbackT | None = None, **fields: Any
    ) -> scrapy.Request:
        return scrapy.Request(f"{self.site}{path}", callback, **fields)

    def report(self, response: Response, **_: Any) -> Iterator[Output]:
        yield {"page": path_of(response)}
