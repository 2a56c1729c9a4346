"""What programs hand in, as what is stored; unlike what is read, it must be right."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from scrapy_redis_state.store.sessions.cookie import UNSENDABLE, Cookie, NotACookie
from scrapy_redis_state.store.sessions.formats.imported import Imported, checked
from scrapy_redis_state.store.sessions.formats.playwright import (
    read_cookie,
    read_storage_state,
)
from scrapy_redis_state.store.sessions.session import Changes
from scrapy_redis_state.store.sessions.site import host_of, is_alone, site_of

CookieInput: TypeAlias = Mapping[str, Any] | Iterable[Cookie | Mapping[str, Any]]
"""``{"name": "value"}``; or cookies in full, as :class:`Cookie` or as Playwright has
them; or a ``storage_state`` of Playwright."""


def changes_from(
    domain: str,
    cookies: CookieInput | None = None,
    *,
    user_agent: str | None = None,
    proxy: str | None = None,
    headers: Mapping[str, str] | None = None,
    tokens: Mapping[str, str | None] | None = None,
) -> Changes:
    """The changes that these arguments ask for; None: no change.

    :raises ValueError: naming the argument, and never a value
    """
    for name, text in [("user_agent", user_agent), ("proxy", proxy)]:
        if text is not None:
            _check_text(name, text)
    for name, text in (headers or {}).items():
        _check_text("name of a header", name)
        _check_text(f"header {name!r}", text)
    given = _cookies_from(domain, {} if cookies is None else cookies)
    return Changes(
        cookies=given.cookies,
        deleted_names=given.names,
        user_agent=user_agent,
        proxy=proxy,
        headers=headers,
        tokens=_checked_tokens({**given.tokens, **(tokens or {})}),
    )


class _Given:
    def __init__(
        self,
        cookies: Iterable[Cookie],
        names: Iterable[str] = (),
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.cookies = tuple(cookies)
        self.names = tuple(names)
        self.tokens = tokens or {}


def _cookies_from(domain: str, cookies: CookieInput) -> _Given:
    if isinstance(cookies, Mapping):
        if isinstance(cookies.get("cookies"), list):
            state = read_storage_state(cookies)
            _refuse_skipped(state)
            return _of_one_site(domain, state)
        plain = [_plain(domain, name, value) for name, value in cookies.items()]
        return _Given([one for one in plain if one], cookies)
    if isinstance(cookies, str | bytes):
        raise TypeError("cookies are a dict of names and values, or full cookies")
    full = [_full(domain, one) for one in cookies]
    return _of_one_site(domain, Imported(tuple(one for one in full if one)))


def _refuse_skipped(state: Imported) -> None:
    if state.skipped:
        raise ValueError(f"A storage state cannot be used: {state.skipped[0]}.")


def _of_one_site(domain: str, given: Imported) -> _Given:
    site = site_of(domain)
    by_site = given.by_site()
    others = sorted(set(by_site) - {site})
    if others:
        raise ValueError(
            f"Not all of this belongs to {site}: some is of {', '.join(others[:3])}."
            " Sort it with Imported.by_site(), and save each site by itself."
        )
    content = by_site.get(site, Changes())
    tokens = {name: text for name, text in content.tokens.items() if text is not None}
    return _Given(content.cookies, tokens=tokens)


def _full(domain: str, cookie: Any) -> Cookie | None:
    try:
        if isinstance(cookie, Cookie):
            return checked(cookie)
        return read_cookie(cookie, time.time(), host_of(domain))
    except NotACookie as error:
        name = getattr(cookie, "name", None)
        if isinstance(cookie, Mapping):
            name = cookie.get("name")
        raise ValueError(f"A cookie ({name!r}) cannot be used: it {error}.") from None


def _plain(domain: str, name: Any, value: Any) -> Cookie | None:
    """A cookie for the whole site, as far as its name allows; None: to be deleted."""
    if isinstance(name, str) and value is None:
        return None
    if not isinstance(name, str) or not isinstance(value, str):
        raise ValueError(f"Cookie {name!r} needs a text as its value.")  # noqa: TRY004
    _check_text(f"cookie {name[:100]!r}", name + value)
    lower = name.lower()
    host = host_of(domain)
    wide = not lower.startswith("__host-") and not is_alone(host)
    return Cookie(
        name,
        value,
        f".{site_of(domain)}" if wide else host,
        secure=lower.startswith(("__host-", "__secure-")),
    )


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str) or UNSENDABLE.search(text):
        raise ValueError(f"The {name} must be a text without line ends.")


def _checked_tokens(tokens: Mapping[Any, Any]) -> Mapping[str, str | None]:
    for name, value in tokens.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise ValueError(f"Token {name!r} must be a text, or None to delete it.")  # noqa: TRY004
    return tokens
