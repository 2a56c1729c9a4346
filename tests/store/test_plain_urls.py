"""URLs that take the short way: it ends where the long one does."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import quote_plus, unquote_to_bytes

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from scrapy import Request
from w3lib.url import safe_url_string

from scrapy_redis_state.codec import encode_message
from scrapy_redis_state.codec.message import SHORT, is_verbatim, request_fields
from scrapy_redis_state.codec.payload import BODY, META, METHOD, URL
from scrapy_redis_state.store.canonical import (
    StripRules,
    UrlRules,
    is_plain,
    needs_no_quoting,
    request_fingerprint,
)
from scrapy_redis_state.store.canonical.parts import canonical_component
from scrapy_redis_state.store.messages import Store
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


def the_long_way(message, priority, rules):
    """A request as any is stored, whatever its URL and its fields are."""
    fields = request_fields(message)
    page = fields[URL]
    if not is_verbatim(fields.get(META)):
        page = rules.parsed(page)
    fingerprint = request_fingerprint(page, fields[METHOD], fields.get(BODY, b""))
    if priority is not None:
        message = {**message, "priority": priority}
    filtered = b"" if message.get("dont_filter") else fingerprint
    return Store(encode_message(message), message.get("priority") or 0, filtered)


LONGEST = "https://shop.example/" + "a" * (SHORT - 21)

_PRIORITIES = st.none() | st.integers(-(2**53), 2**53)


@example("https://shop.example/list?page=2&utm_source=x&a=1", None, RULES[0])
@example(LONGEST, 2**53, RULES[0])
@example(LONGEST + "a", None, RULES[0])
@example(LONGEST * 2, None, RULES[0])
@given(plain_urls(), _PRIORITIES, st.sampled_from(RULES))
def test_a_pushed_url_is_the_request_with_that_url(url, priority, rules):
    """Byte by byte, whichever way it takes."""
    expected = the_long_way({"url": url}, priority, rules)
    assert store_operation(url, priority, rules) == expected
    assert store_operation({"url": url}, priority, rules) == expected


@given(
    st.fixed_dictionaries(
        {"url": plain_urls() | urls()},
        optional={
            "meta": st.sampled_from([{}, {"a": [1]}, {"verbatim_url": True}, []]),
            "dont_filter": st.booleans(),
            "callback": st.just("parse"),
            "priority": st.integers(-9, 9),
            "method": st.sampled_from(["GET", "post"]),
            "body": st.sampled_from(["", "é"]),
            "encoding": st.sampled_from(["utf-8", "utf-16", "latin-1"]),
        },
    ),
    _PRIORITIES,
)
def test_a_request_with_a_plain_url_is_stored_as_any(message, priority):
    """What else it says counts, as far as it says which page it is."""
    try:
        expected = the_long_way(message, priority, RULES[0])
    except ValueError:
        reject()
    assert store_operation(message, priority, RULES[0]) == expected


@pytest.mark.parametrize("priority", [True, 1.0, 2**53 + 1, "1", [1]])
def test_the_priority_of_a_plain_url_must_be_a_whole_number(priority):
    """Also after an equal one that is."""
    url = "https://shop.example/"
    assert store_operation(url, 1).priority == 1
    with pytest.raises(ValueError, match=f"The priority of {url} is "):
        store_operation(url, priority)


@given(
    st.sampled_from(["GET", "POST", "get", '"']),
    st.text(max_size=20) | urls(),
    st.sampled_from([b"", b"a"]),
)
def test_fingerprints_are_those_of_scrapy(method, url, body):
    """Of the JSON text that says what the request is."""
    what = {"method": method, "url": url, "body": body.hex(), "headers": {}}
    text = json.dumps(what, sort_keys=True).encode()
    expected = hashlib.sha1(text, usedforsecurity=False).digest()
    assert request_fingerprint(url, method, body) == expected


@given(st.text("ab+ %2B&;=é~_.-", max_size=12))
def test_parts_of_a_query_that_need_no_work_are_what_the_work_makes(text):
    """Such as texts with a plus for a space."""
    if "%" not in text and ";" not in text:
        expected = quote_plus(unquote_to_bytes(text.replace("+", " ")))
        assert canonical_component(text) == expected


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
