"""Cookies of :mod:`http.cookiejar` <-> cookies as they are stored.

A cookie that a jar had comes back equal. One that another program wrote, who knows
nothing of jars, becomes what a jar would have made of the same ``Set-Cookie``.
"""

from __future__ import annotations

import time
from http.cookiejar import Cookie as JarCookie
from typing import Any

from scrapy_redis_state.store.sessions import Cookie, CookieKey
from scrapy_redis_state.store.sessions.cookie import LAST_SECOND

EXTRA = "jar"
"""Field of a stored cookie with what only a jar knows of it."""


_TYPES: dict[str, tuple[type, ...]] = {
    "version": (int, type(None)),
    "port": (str, type(None)),
    "port_specified": (bool,),
    "domain_specified": (bool,),
    "domain_initial_dot": (bool,),
    "path_specified": (bool,),
    "discard": (bool,),
    "comment": (str, type(None)),
    "comment_url": (str, type(None)),
    "rfc2109": (bool,),
}
"""Attributes that a stored cookie has no field for."""


def key_of(cookie: JarCookie) -> CookieKey:
    """What a cookie of a jar is told apart by."""
    return CookieKey(cookie.domain, cookie.path, cookie.name)


def to_stored(cookie: JarCookie) -> Cookie:
    """The cookie as it is stored."""
    rest: dict[str, Any] = cookie._rest  # type: ignore[attr-defined]
    lower = {name.lower(): value for name, value in rest.items()}
    stored = Cookie(
        name=cookie.name,
        value=cookie.value,
        domain=cookie.domain,
        path=cookie.path,
        expires=_expires(cookie),
        secure=bool(cookie.secure),
        http_only="httponly" in lower,
        same_site=_same_site(lower.get("samesite")),
    )
    extra = _differences(cookie, to_jar(stored))
    if not extra:
        return stored
    return Cookie(**_fields(stored), extra={EXTRA: extra})


def to_jar(cookie: Cookie) -> JarCookie:
    """The cookie as a jar has it."""
    has_dot = cookie.domain.startswith(".")
    rest: dict[str, Any] = {}
    if cookie.http_only:
        rest["HttpOnly"] = None
    if cookie.same_site:
        rest["SameSite"] = cookie.same_site
    made = JarCookie(
        version=0,
        name=cookie.name,
        value=cookie.value,
        port=None,
        port_specified=False,
        domain=cookie.domain,
        domain_specified=has_dot,
        domain_initial_dot=has_dot,
        path=cookie.path,
        path_specified=True,
        secure=cookie.secure,
        expires=None if cookie.expires is None else int(cookie.expires),
        discard=cookie.expires is None,
        comment=None,
        comment_url=None,
        rest=rest,
    )
    _put_back(made, cookie.extra.get(EXTRA))
    return made


def is_expired(cookie: JarCookie) -> bool:
    """Whether no request gets it any more."""
    return bool(cookie.is_expired(int(time.time())))


def _fields(cookie: Cookie) -> dict[str, Any]:
    names = ("name", "value", "domain", "path", "expires", "secure")
    return {name: getattr(cookie, name) for name in (*names, "http_only", "same_site")}


def _expires(cookie: JarCookie) -> float | None:
    if cookie.expires is None:
        return None
    return float(max(min(cookie.expires, LAST_SECOND), -LAST_SECOND))


def _same_site(value: Any) -> str | None:
    text = value.capitalize() if isinstance(value, str) else None
    return text if text in ("Strict", "Lax", "None") else None


def _differences(cookie: JarCookie, other: JarCookie) -> dict[str, Any]:
    extra = {
        name: getattr(cookie, name)
        for name in _TYPES
        if getattr(cookie, name) != getattr(other, name)
    }
    rest: dict[str, Any] = cookie._rest  # type: ignore[attr-defined]
    if list(rest.items()) != list(other._rest.items()):  # type: ignore[attr-defined]
        extra["rest"] = rest
    return extra


def _put_back(cookie: JarCookie, extra: Any) -> None:
    """Set what a jar knew; what others wrote in its place is left out."""
    if not isinstance(extra, dict):
        return
    for name, types in _TYPES.items():
        if name in extra and type(extra[name]) in types:
            setattr(cookie, name, extra[name])
    rest = extra.get("rest")
    if isinstance(rest, dict):
        cookie._rest = rest  # type: ignore[attr-defined]
