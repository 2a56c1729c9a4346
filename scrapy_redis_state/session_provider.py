"""What a project says about its sessions: when one is no good, and how to renew it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.outcomes import SessionInvalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_redis_state.store.sessions import Session
    from scrapy_redis_state.store.sessions.inputs import CookieInput

__all__ = ["RenewedSession", "SessionContent", "SessionInvalid", "SessionProvider"]


@dataclass(frozen=True)
class SessionContent:
    """A new session, as :meth:`SessionProvider.renew` may return it."""

    cookies: CookieInput = field(default_factory=dict, repr=False)
    """``{"name": "value"}``, or cookies in full, as Playwright has them."""
    user_agent: str | None = None
    """With which the cookies were got, as were the others."""
    proxy: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    tokens: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RenewedSession:
    """The session that is being made anew: at the start there is nothing in it."""

    site: str
    """Registrable domain, such as ``shop.example``."""
    name: Any
    """What its requests have as ``cookiejar`` in meta; None: the default session."""
    crawler: Crawler
    _download: Callable[[Request], Awaitable[Response]] = field(repr=False)

    async def download(self, request: Request) -> Response:
        """Download a page in this session, as ``engine.download_async`` does.

        Cookies of the response become part of the session.
        """
        return await self._download(request)


class SessionProvider:
    """Base class of ``REDIS_STATE_SESSION_PROVIDER``.

    Each worker has one. Methods may raise: :meth:`renew` for a renewal that failed, and
    whatever the others raise is an error of their request.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:  # noqa: ARG003
        """Make it, before the crawl starts."""
        return cls()

    def handles(self, request: Request) -> bool:  # noqa: ARG002
        """Whether the session of this request is any of its business."""
        return True

    async def is_needed(
        self,
        request: Request,  # noqa: ARG002
        session: Session,
    ) -> bool:
        """Whether the session has to be renewed before the request is sent.

        Asked for each request; do not wait for anything here.
        """
        return not session.current_cookies()

    async def is_valid(
        self,
        response: Response,  # noqa: ARG002
        request: Request,  # noqa: ARG002
    ) -> bool:
        """Whether a response is what a good session gets.

        Asked before redirects are followed. It may take the response alone.
        """
        return True

    async def renew(self, session: RenewedSession) -> SessionContent | None:
        """Make the session anew. It runs once at a time in the whole fleet.

        :returns: the new session; None: what the responses to ``session.download`` have
            made of it
        """
        raise NotImplementedError
