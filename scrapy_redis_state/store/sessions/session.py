"""A session: the cookies of one site, what they are bound to, and free tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scrapy_redis_state.store.sessions.cookie import Cookie, CookieKey
from scrapy_redis_state.store.sessions.partition import is_sent_by

SESSION_TTL_SECS = 1800
"""How long a session that nobody uses is kept, unless told otherwise."""

MAX_SESSION_BYTES = 1_048_576
"""What does not fit into this is not stored."""


class Stamp(NamedTuple):
    """Which state of a session: a later one is greater."""

    epoch: str = ""
    """A number of 16 digits, new when a session is created, replaced or invalidated."""
    version: int = 0
    """Raised by every change."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a session's cookies are bound to; None and empty: nothing."""

    user_agent: str | None = None
    proxy: str | None = field(default=None, repr=False)
    """A label, or a URL."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A renewal that is not ended: under way, to be tried again, or given up."""

    holder: str = ""
    """Who makes the session anew; empty: nobody at the moment."""
    failures: int = 0
    failed: bool = False
    """Given up after too many failures, until somebody publishes a session."""
    since: float = field(default=0.0, compare=False)
    """Unix time, of the server, at which the holder began; 0: nobody holds it."""
    retry_at: float = field(default=0.0, compare=False)
    """Unix time, of the server, from which on it may be tried again; 0: at once, or
    not at all."""
    why: str = ""
    """Of the last failure, if it was given up: ``failed``, ``died`` (its holder), or
    ``invalid`` (its pages)."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session as it was loaded; without an epoch there is none."""

    site: str
    name: str = ""
    """As :func:`~.names.session_name` gives it; empty: the default session."""
    version: int = 0
    epoch: str = ""
    cookies: Mapping[CookieKey, Cookie] = field(default_factory=dict, hash=False)
    """In the order in which they came; some may have expired since."""
    identity: Identity = field(default_factory=Identity)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    updated_at: float = 0.0
    """Unix time, of the server; 0: never."""
    skipped: tuple[str, ...] = ()
    """What is stored and could not be read, one line each, without values."""
    unreadable: str = ""
    """Why nothing of it can be read or changed: another type, or a newer schema."""
    renewal: Renewal | None = None
    """None: it is as good as anybody knows."""
    grown: bool = False
    """It was made by responses to requests of no session, or by ``update``, and nobody
    published or renewed it."""
    unproven: bool = False
    """It was made anew, and no page has been good with it yet."""

    @property
    def stamp(self) -> Stamp:
        """Which state of the session this is."""
        return Stamp(self.epoch, self.version)

    def goes_on_from(self, epoch: str) -> bool:
        """Whether it is still the session that somebody knew, by its epoch.

        Who knew of none (an empty epoch) goes on with what has grown since then. The
        scripts decide by the same.
        """
        return not self.epoch or epoch == self.epoch or (not epoch and self.grown)

    def current_cookies(self, now: float | None = None) -> list[Cookie]:
        """Those that may be sent to the site now, in order.

        Expired ones are left out, and those of another partition: a browser sends
        them only from pages of another site.
        """
        now = time.time() if now is None else now
        return [
            cookie
            for cookie in self.cookies.values()
            if not cookie.is_expired(now) and is_sent_by(cookie, self.site)
        ]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be changed in a session; the rest of it is not touched."""

    cookies: tuple[Cookie, ...] = ()
    """To set, in this order. One that has expired deletes."""
    deleted: tuple[CookieKey, ...] = ()
    deleted_names: tuple[str, ...] = field(default=(), repr=False)
    """Of cookies to delete wherever they belong, before the others are set."""
    user_agent: str | None = None
    proxy: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    """These three: None leaves what there is; empty deletes it."""
    tokens: Mapping[str, str | None] = field(
        default_factory=dict, repr=False, hash=False
    )
    """None deletes a token."""

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(
            self.cookies
            or self.deleted
            or self.deleted_names
            or self.tokens
            or any(part is not None for part in self.bound_to)
        )

    @property
    def bound_to(self) -> tuple[str | Mapping[str, str] | None, ...]:
        """User agent, proxy and headers."""
        return self.user_agent, self.proxy, self.headers


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of changes."""

    stale: bool
    """Nothing was written: the session was replaced or invalidated meanwhile."""
    session: Session
    """As it is now."""
    refused: tuple[str, ...] = ()
    """What was too large or unusable and so not stored, one line each, no values."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of an attempt to begin a renewal."""

    status: Literal["yours", "busy", "renewed", "failed", "disproved", "blamed"]
    """``busy``: somebody makes it, or it is too early to try again. ``renewed``: the
    session is another one already. ``failed``: given up, or nothing of ours.
    ``disproved``: ``busy`` or ``failed``, since this claim has made a failure of the
    last renewal. ``blamed``: the session is good, and the page that was judged is not.
    """
    session: Session
    """As it is now."""
    ms: int = 0
    """How long it is ``busy`` at most, if nobody gives a sign of life."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of a list of sessions."""

    site: str
    session: str | None
    """None: the default one. It can be given to ``load`` and the others."""
    cookies: int
    """How many, without expired ones."""
    updated_at: float
    """Unix time, of the server."""
    ttl: float | None
    """Seconds until it is forgotten unless it is used; None: never."""
    renewal: Renewal | None = None
    """None: it is as good as anybody knows."""
    unproven: bool = False
    """It was made anew, and no page has been good with it yet."""
