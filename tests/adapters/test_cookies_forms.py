"""Cookies of jars and stored cookies are the same cookies."""

from __future__ import annotations

from dataclasses import replace
from http.cookiejar import Cookie as JarCookie
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http.cookies import CookieJar

from scrapy_redis_state.sessions.cookie_forms import to_jar, to_stored
from scrapy_redis_state.store.sessions import Cookie
from scrapy_redis_state.store.sessions.cookie import LAST_SECOND, cookie_from_json
from tests.adapters.cookie_pair import answer
from tests.adapters.test_cookies_parity import FAMILIES, set_cookies

HOSTS = FAMILIES[0]


def attributes(cookie: JarCookie) -> dict[str, Any]:
    found = dict(vars(cookie))
    if found["expires"] is not None:
        found["expires"] = min(found["expires"], int(LAST_SECOND))
    return found


@given(header=set_cookies(HOSTS), host=st.sampled_from(HOSTS))
def test_what_a_jar_had_comes_back_equal(header, host):
    """All attributes of it, whatever the site wrote."""
    request = Request(f"https://{host}:8080/a/b")
    jar = CookieJar()
    jar.extract_cookies(answer(request, [header]), request)
    for made in jar:
        stored = cookie_from_json(to_stored(made).to_json())
        assert attributes(to_jar(stored)) == attributes(made)
        assert to_stored(to_jar(stored)) == stored


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"expires": 1_999_999_999.5},
        {"http_only": True, "same_site": "Lax", "secure": True},
        {"value": None},
        {"value": ""},
        {"domain": ".shop.example", "path": "/a"},
    ],
)
def test_a_cookie_of_another_program_is_as_if_a_site_had_set_it(fields):
    """It is sent, and stored again as it was."""
    fields = {"name": "a", "value": "1", "domain": "shop.example", **fields}
    cookie = Cookie(**fields)
    again = to_stored(to_jar(cookie))
    assert again == replace(cookie, expires=again.expires)
    assert not again.extra
    jar, request = CookieJar(), Request("https://shop.example/a/b")
    jar.set_cookie(to_jar(cookie))
    jar.add_cookie_header(request)
    expected = "a" if cookie.value is None else f"a={cookie.value}"
    assert request.headers["Cookie"] == expected.encode()


@pytest.mark.parametrize(
    "extra",
    [
        None,
        7,
        [],
        {"version": "1", "port": 80, "discard": 1, "rest": [], "unknown": 1},
        {"value": "other", "name": "b", "domain": "b.example"},
    ],
)
def test_what_nobody_can_use_is_left_out(extra):
    """Another program wrote where we keep what only jars know."""
    cookie = Cookie("a", "1", "shop.example", extra={"jar": extra})
    assert vars(to_jar(cookie)) == vars(to_jar(replace(cookie, extra={})))
