"""URLs that take the short way: it ends where the long one does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request
from w3lib.url import safe_url_string

from scrapy_redis_state.store.canonical import (
    StripRules,
    UrlRules,
    is_plain,
    needs_no_quoting,
)
from scrapy_redis_state.store.requests import store_operation

RULES = (
    UrlRules(StripRules.of(["tracking"])),
    UrlRules(StripRules.of(["*"])),
    UrlRules(StripRules.of([])),
)

_HOSTS = st.from_regex(r"[a-zA-Z0-9._:@%\[\]-]{1,20}", fullmatch=True) | st.lists(
    st.sampled_from(["a", "shop", "xn--a", "1", "0x7f", "a-", "-a", "a_b", "", "80"]),
    min_size=1,
    max_size=4,
).map(".".join)
_ENDS = st.sampled_from(["", ":", ":80", ":443", ":8080", ":0", ":080", ".", ".:80"])
_PATHS = st.text(st.characters(max_codepoint=127), max_size=12) | st.lists(
    st.sampled_from([".", "..", "a", "A.b", "", "...", ".a", "%2e", "a;b", "~", "*"]),
    max_size=5,
).map("/".join)
_QUERIES = st.just("") | st.text("ab=&+?/#%.:;@!'()*,-_~ \"é", max_size=12)


@st.composite
def urls(draw):
    scheme = draw(st.sampled_from(["http", "https", "HTTP", "ftp", "file"]))
    url = f"{scheme}://{draw(_HOSTS)}{draw(_ENDS)}{draw(st.sampled_from(['', '/']))}"
    query = draw(_QUERIES)
    return url + draw(_PATHS) + ("?" + query if query else "")


def plain_urls():
    """So that there are enough that take it."""
    hosts = st.from_regex(r"[a-z0-9-]{1,8}(\.[a-z0-9-]{1,8}){0,3}", fullmatch=True)
    ports = st.sampled_from(["", ":80", ":443", ":8080", ":99", ":8000"])
    schemes = st.sampled_from(["http://", "https://"])
    paths = st.text("abZ09_.~,=+:@!()*/-", max_size=20)
    queries = st.just("") | st.text("ab=&+?/.:@!()*,-_~", max_size=10).map("?".__add__)
    return st.tuples(schemes, hosts, ports, st.just("/"), paths, queries).map("".join)


@example("https://shop.example/catalogue/hose-1234.html")
@example("http://shop.example:8080/")
@given(urls() | plain_urls())
def test_a_plain_url_is_what_the_long_way_makes_of_it(url):
    """By w3lib, and by any rules."""
    if is_plain(url):
        assert safe_url_string(url) == url
        for rules in RULES:
            assert rules.parsed(url) == rules.parsed(url, keep_fragment=True) == url


@example("https://shop.example/list?page=2&sort=price")
@given(urls() | plain_urls())
def test_what_needs_no_quoting_is_what_a_request_makes_of_it(url):
    """With a query, too."""
    if needs_no_quoting(url):
        assert safe_url_string(url) == Request(url).url == url


@example("https://shop.example/list?page=2&utm_source=x&a=1", None)
@given(plain_urls(), st.none() | st.integers(-9, 9))
def test_a_pushed_url_is_the_request_with_that_url(url, priority):
    """Byte by byte, whichever way it takes."""
    fields = {"url": url}
    assert store_operation(url, priority) == store_operation(fields, priority)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://shop.example",
        "http://shop.example:80/",
        "http://Shop.example/",
        "http://shop.example./",
        "http://shop.example/a/../b",
        "http://shop.example/a%20b",
        "http://user@shop.example/",
        "http://xn--mnchen-3ya.example/",
        f"http://{'a' * 64}.example/",
        "ftp://shop.example/",
    ],
)
def test_what_may_have_other_spellings_takes_the_long_way(url):
    """Even those that are canonical: the short way is for what is sure."""
    assert not is_plain(url)
