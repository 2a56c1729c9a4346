from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response
    from twisted.python.failure import Failure


class AccountsSpider(scrapy.Spider):
    """Asks for pages that only users see, and leaves logins to the provider.

    :param users: comma-separated; each has a cookie jar, but a single one
    :param pages: for each user
    :param kind: of page, see the site; ``mixed``: the last is never good
    :param others: so many pages of the other site
    :param mode: ``errback``: with one; ``inner``: a callback downloads the page;
        ``bare``: without merging cookies
    :param sid: for the provider that hands it in
    """

    name = "accounts"

    def __init__(
        self,
        site: str,
        *,
        users: str = "ann",
        pages: str = "20",
        kind: str = "page",
        others: str = "0",
        mode: str = "",
        sid: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.users = users.split(",")
        self.pages = int(pages)
        self.kind = kind
        self.others = int(others)
        self.mode = mode
        self.sid = sid

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(self.pages):
            for user in self.users:
                yield self.request(user, number)
        other = self.site.replace("127.0.0.1", "localhost")
        for number in range(self.others):
            yield scrapy.Request(f"{other}/open/{number}", self.parse_other)

    def request(self, user: str, number: int) -> scrapy.Request:
        kind = self.kind
        if kind == "mixed":
            kind = "never" if number == self.pages - 1 else "page"
        url = f"{self.site}/{kind}/{user}/{number}"
        jar: dict[str, Any] = {"cookiejar": user} if len(self.users) > 1 else {}
        if self.mode == "bare":
            jar["dont_merge_cookies"] = True
        if self.mode == "inner":
            outer = f"{self.site}/open/{user}/{number}".replace(
                "127.0.0.1", "localhost"
            )
            return scrapy.Request(
                outer, self.parse_outer, cb_kwargs={"url": url, "jar": jar}
            )
        errback = self.note if self.mode == "errback" else None
        return scrapy.Request(url, meta=jar, errback=errback, priority=1)

    async def parse_outer(
        self, response: Response, url: str, jar: dict[str, Any]
    ) -> dict[str, Any]:
        request = scrapy.Request(url, meta=jar)
        inner = await self.crawler.engine.download_async(request)
        return {"url": url, "user": inner.text}

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        agent = response.request.headers.get("User-Agent", b"").decode()  # type: ignore[union-attr]
        yield {"url": response.url, "user": response.text, "agent": agent}

    def parse_other(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url, "other": response.text}

    def note(self, failure: Failure) -> Iterator[dict[str, Any]]:
        yield {"failed": type(failure.value).__name__, "why": str(failure.value)}
