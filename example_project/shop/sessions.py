"""The session that the shop's members' area and its outlet ask for."""

from __future__ import annotations

import logging
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy_redis_state import SessionProvider
from shop import solver

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_redis_state import SessionContent
    from scrapy_redis_state.session_provider import RenewedSession
    from scrapy_redis_state.store.sessions import Session

logger = logging.getLogger(__name__)

COOKIES = {"member", "clearance"}


class ShopSessions(SessionProvider):
    """Logs in and passes the challenge: once, for all workers.

    :param login: name and password
    :param chromium: path of a browser; None: the small solver does it
    """

    def __init__(self, login: tuple[str, str], chromium: str | None) -> None:
        self.login = login
        self.chromium = chromium

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(settings["SHOP_LOGIN"], _find(settings["SHOP_BROWSER"]))

    def handles(self, request: Request) -> bool:
        """The rest of the shop is for everybody."""
        return urlsplit(request.url).path.startswith(("/members/", "/outlet/"))

    async def is_needed(self, request: Request, session: Session) -> bool:  # noqa: ARG002
        names = {cookie.name for cookie in session.current_cookies()}
        return not names >= COOKIES

    async def is_valid(self, response: Response) -> bool:
        """Neither sent to the login, nor challenged."""
        is_to_login = b"/login" in response.headers.get("Location", b"")
        return not is_to_login and response.status != solver.CHALLENGED

    async def renew(self, session: RenewedSession) -> SessionContent:
        """Earn both cookies, and say with which user agent."""
        site = session.crawler.spider.site
        if self.chromium is None:
            content = await solver.earn(session.download, site, self.login)
        else:
            # Not above: Playwright may be missing.
            from shop import browser  # noqa: PLC0415

            content = await browser.earn(self.chromium, site, self.login)
        logger.info(
            "Logged in, and solved the challenge, as %(agent)s",
            {"agent": content.user_agent},
        )
        return content


def _find(browser: str) -> str | None:
    """The path of a browser that can be used."""
    has_playwright = find_spec("playwright") is not None
    return shutil.which(browser) if browser and has_playwright else None
