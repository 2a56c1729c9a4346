from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class MembersSpider(scrapy.Spider):
    """Logs in, if it is told as whom, and then asks for pages.

    :param users: comma-separated; each has a cookie jar of its own if there are several
    :param login: query of the login, besides the user
    :param pages: so many for each user, or without a login
    :param query: of each page
    :param meta: of each page, as JSON
    """

    name = "members"

    def __init__(
        self,
        site: str,
        *,
        users: str = "",
        login: str = "",
        pages: str = "20",
        query: str = "",
        meta: str = "{}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.users = users.split(",") if users else []
        self.login = login
        self.pages = int(pages)
        self.query = query
        self.meta = json.loads(meta)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for user in self.users:
            meta = {"cookiejar": user} if len(self.users) > 1 else {}
            url = f"{self.site}/login?user={user}&{self.login}"
            yield scrapy.Request(url, self.parse_login, meta=meta)
        if not self.users:
            for request in self.requests("", self.meta):
                yield request

    def parse_login(self, response: Response) -> Iterator[scrapy.Request]:
        jar = response.meta.get("cookiejar")
        meta = self.meta if jar is None else {**self.meta, "cookiejar": jar}
        yield from self.requests(jar or "", meta)

    def requests(self, user: str, meta: dict[str, Any]) -> Iterator[scrapy.Request]:
        for number in range(self.pages):
            query = self.query.replace("NUMBER", str(number))
            url = f"{self.site}/detail/{user}{number}?{query}"
            yield scrapy.Request(url, meta=dict(meta), cb_kwargs={"user": user})

    def parse(self, response: Response, user: str) -> Iterator[dict[str, Any]]:
        yield {"url": response.url, "user": response.text, "wanted": user}
