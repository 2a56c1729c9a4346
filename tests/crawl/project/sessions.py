"""A provider that logs in through a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import FormRequest, Request

from scrapy_redis_state import SessionContent, SessionProvider
from scrapy_redis_state.sessions import readiness
from scrapy_redis_state.worker.sessions import renewal

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_redis_state.session_provider import RenewedSession


class Login(SessionProvider):
    """For the site of the spider, but not for the same under another host."""

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        renewal.LEASE_SECS = settings.getfloat("RENEWAL_LEASE", 30)
        readiness.PATIENCE_SECS = settings.getfloat("RENEWAL_PATIENCE", 300)
        spider: Any = crawler.spider
        return cls(spider.site)

    def handles(self, request: Request) -> bool:
        return urlsplit(request.url).netloc == urlsplit(self.url).netloc

    async def is_valid(self, response: Response) -> bool:  # type: ignore[override]
        return response.status == 200 and "<form" not in response.text

    async def renew(self, session: RenewedSession) -> SessionContent | None:
        form = await session.download(Request(f"{self.url}/form"))
        token = form.css("[name=csrf]::attr(value)").get()
        login = FormRequest(
            f"{self.url}/login",
            formdata={"csrf": token or "", "user": session.name or "ann"},
        )
        response = await session.download(login)
        if response.text != "welcome":
            raise ValueError(f"the login was answered with {response.status}")
        return None


class Everywhere(Login):
    """For all sites, robots.txt too."""

    def handles(self, request: Request) -> bool:
        return True


class HandsIn:
    """No subclass, and no coroutines; it gets its session elsewhere."""

    def __init__(self, crawler: Crawler) -> None:
        self.spider: Any = crawler.spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def renew(self, session: RenewedSession) -> SessionContent:
        return SessionContent(
            {"sid": self.spider.sid},
            user_agent="browser/1",
            tokens={"of": session.site},
        )


class Useless(HandsIn):
    """Renews, and has nothing to show for it."""

    def renew(self, session: RenewedSession) -> SessionContent:
        return SessionContent(tokens={"of": session.site})
