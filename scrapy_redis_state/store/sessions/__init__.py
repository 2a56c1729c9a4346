"""Sessions that all share: the cookies, identity and tokens of a site."""

from scrapy_redis_state.store.sessions.cookie import Cookie, CookieKey, NotACookie
from scrapy_redis_state.store.sessions.names import session_name
from scrapy_redis_state.store.sessions.session import (
    SESSION_TTL_SECS,
    Changes,
    Claimed,
    Identity,
    Renewal,
    Saved,
    Session,
    SessionInfo,
    Stamp,
)
from scrapy_redis_state.store.sessions.site import site_of

__all__ = [
    "SESSION_TTL_SECS",
    "Changes",
    "Claimed",
    "Cookie",
    "CookieKey",
    "Identity",
    "NotACookie",
    "Renewal",
    "Saved",
    "Session",
    "SessionInfo",
    "Stamp",
    "session_name",
    "site_of",
]
