"""Playwright's form of cookies: ``context.cookies()`` and ``storage_state``.

Also read: what browser extensions export (``expirationDate``, ``hostOnly``, and other
words for ``sameSite``). Written is only what a browser takes, for one cookie that it
refuses makes the whole call fail.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scrapy_redis_state.store.sessions.cookie import (
    LAST_SECOND,
    Cookie,
    NotACookie,
    is_finite,
    read_json,
)
from scrapy_redis_state.store.sessions.formats.imported import (
    ORIGINS_TOKEN,
    Imported,
    checked,
)
from scrapy_redis_state.store.sessions.session import Session
from scrapy_redis_state.store.sessions.site import host_of, site_of

_SAME_SITE = {
    "strict": "Strict",
    "lax": "Lax",
    "none": "None",
    "no_restriction": "None",  # browser extensions
}
_READ = frozenset(
    (
        *("name", "value", "domain", "path", "url", "expires", "expirationDate"),
        *("secure", "httpOnly", "sameSite", "partitionKey", "hostOnly", "session"),
    )
)
_WRITTEN_EXTRA = "_crHasCrossSiteAncestor"
"""Which Chromium has with a partition key, and wants back."""


def read_storage_state(state: Mapping[str, Any]) -> Imported:
    """All of a storage state.

    :raises ValueError: if it is none
    """
    cookies, origins = state.get("cookies", []), state.get("origins", [])
    if not isinstance(cookies, list) or not isinstance(origins, list):
        raise ValueError("A storage state has a list of cookies and one of origins.")  # noqa: TRY004
    found = read_cookies(cookies)
    kept, skipped = [], list(found.skipped)
    for origin in origins:
        try:
            site_of(origin["origin"])
            kept.append(origin)
        except (KeyError, TypeError, ValueError, AttributeError):
            skipped.append("an entry of origins names no origin")
    skipped += [
        f"{name!r} of a storage state is not known"
        for name in state
        if name not in ("cookies", "origins")
    ]
    return Imported(found.cookies, tuple(kept), tuple(skipped))


def read_cookies(cookies: Sequence[Any]) -> Imported:
    """A list of cookies; expired ones are left out."""
    now = time.time()
    found, skipped = [], []
    for number, one in enumerate(cookies, 1):
        try:
            cookie = read_cookie(one, now)
        except NotACookie as error:
            skipped.append(f"cookie {number} {error}")
        else:
            found += [cookie] if cookie else []
    return Imported(tuple(found), skipped=tuple(skipped))


def read_cookie(fields: Any, now: float, default_host: str = "") -> Cookie | None:
    """One cookie; None if it has expired.

    :param default_host: of a cookie that names neither domain nor URL
    :raises NotACookie: if it cannot be used
    """
    if not isinstance(fields, Mapping):
        raise NotACookie("is not an object")
    if "value" not in fields:
        raise NotACookie("has no value")
    expires = _read_expires(fields)
    if expires is not None and expires <= now:
        return None
    extra = {k: v for k, v in fields.items() if k not in _READ and _is_json(v)}
    is_https = str(fields.get("url")).lower().startswith("https:")
    cookie = Cookie(
        name=fields.get("name", None),
        value=fields["value"],
        domain=_read_domain(fields, default_host),
        path=fields.get("path") or "/",
        expires=expires,
        secure=bool(fields.get("secure", is_https)),
        http_only=bool(fields.get("httpOnly", False)),
        same_site=_read_same_site(fields.get("sameSite")),
        partition_key=fields.get("partitionKey"),
        extra=extra,
    )
    check_prefix(checked(cookie))
    return cookie


def _read_same_site(word: Any) -> str | None:
    return _SAME_SITE.get(word.lower()) if isinstance(word, str) else None


def _read_expires(fields: Mapping[str, Any]) -> float | None:
    """Absolute seconds; None for the ways to say "with the browser"."""
    value = fields.get("expires", fields.get("expirationDate"))
    if value is None or value in (-1, 0):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not is_finite(value):
        raise NotACookie("expires at what is no time")
    seconds: float = value / 1000 if value > LAST_SECOND else value
    return seconds


def _read_domain(fields: Mapping[str, Any], default: str) -> str:
    given = fields.get("domain") or fields.get("url") or default
    try:
        domain = ("." if given.startswith(".") else "") + host_of(given)
    except (ValueError, AttributeError):
        raise NotACookie("has no usable domain") from None
    if fields.get("hostOnly") is False and not domain.startswith("."):
        return f".{domain}"
    return domain


def check_prefix(cookie: Cookie) -> None:
    """Browsers refuse cookies that break the promise of their name.

    :raises NotACookie: for such a one
    """
    name = cookie.name.lower()
    if name.startswith("__secure-") and not cookie.secure:
        raise NotACookie("is named __Secure- and not secure")
    if name.startswith("__host-") and not (
        cookie.secure and cookie.host_only and cookie.path == "/"
    ):
        raise NotACookie("is named __Host-, and not secure, of one host and of path /")


def write_cookies(
    cookies: Iterable[Cookie], now: float | None = None
) -> list[dict[str, Any]]:
    """What ``context.add_cookies`` takes; without what is expired or refused."""
    now = time.time() if now is None else now
    return [
        write_cookie(cookie)
        for cookie in cookies
        if not cookie.is_expired(now) and _is_taken(cookie)
    ]


def write_cookie(cookie: Cookie) -> dict[str, Any]:
    """One cookie."""
    expires: float = -1
    if cookie.expires is not None:
        expires = min(cookie.expires, LAST_SECOND)
    fields: dict[str, Any] = {
        "name": cookie.name,
        "value": cookie.value or "",
        "domain": cookie.domain,
        "path": cookie.path,
        "expires": expires,
        "httpOnly": cookie.http_only,
        "secure": cookie.secure,
    }
    if cookie.same_site and (cookie.secure or cookie.same_site != "None"):
        fields["sameSite"] = cookie.same_site
    if cookie.partition_key is not None:
        fields["partitionKey"] = cookie.partition_key
        if _WRITTEN_EXTRA in cookie.extra:
            fields[_WRITTEN_EXTRA] = cookie.extra[_WRITTEN_EXTRA]
    return fields


def write_storage_state(*sessions: Session) -> dict[str, Any]:
    """A storage state with all of these sessions, for a new browser context.

    :raises ValueError: if the local storage in a session is none
    """
    cookies: list[dict[str, Any]] = []
    origins: list[Any] = []
    for session in sessions:
        cookies += write_cookies(session.cookies.values())
        origins += _stored_origins(session)
    return {"cookies": cookies, "origins": origins}


def _stored_origins(session: Session) -> list[Any]:
    try:
        origins = read_json(session.tokens.get(ORIGINS_TOKEN, "[]"))
    except NotACookie:
        origins = None
    if not isinstance(origins, list):
        raise ValueError(  # noqa: TRY004 - of a value, not of an argument
            f"The token {ORIGINS_TOKEN!r} of the session of {session.site} is not a"
            " list of origins: delete it, or save the session again."
        )
    return origins


def _is_taken(cookie: Cookie) -> bool:
    try:
        check_prefix(cookie)
    except NotACookie:
        return False
    return bool(cookie.name) and cookie.path.startswith("/")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
