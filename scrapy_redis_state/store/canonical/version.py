"""The version of the rules, which is recorded with a crawl."""

from __future__ import annotations

import hashlib

from w3lib.url import canonicalize_url, safe_url_string

from scrapy_redis_state.store.canonical.urls import DEFAULT_RULES

RULES_VERSION = 1
"""Raised by every change that gives any URL another fingerprint."""

SAMPLES = (
    "http://h",
    "http://h?b=2&a=1",
    "http://H.Example:80/a/../b/./c//d",
    "https://user:p%40ss@h.example.:443/;v=1?;x=1;y=2",
    "http://münchen.example/straße?größe=ü&a=b+c%20d",
    "http://[::0:1]:8080/x%25/x%/%2f/%3b/%3f/%23/%41/%7e/%e4",
    "http://h/[a]|b^c`{d}\\'\"<e>?[a]=|b^c`{d}\\'\"<e>#f",
    "http://h/?&a&b=&=c&a=2&a=1&%e4=%E4&q=%&r=%25&utm_source=x#!f",
)
"""URLs in whose handling versions of w3lib differ, or may come to."""


def rules_version(*, with_w3lib: bool) -> str:
    """The version, and a digest of what becomes of sample URLs here.

    :param with_w3lib: the crawl's fingerprinter is the project's own, which is likely
        to canonicalise once more
    """
    digest = hashlib.sha256()
    for sample in SAMPLES:
        url = DEFAULT_RULES.canonical(safe_url_string(sample))
        digest.update((canonicalize_url(url) if with_w3lib else url).encode() + b"\n")
    return f"{RULES_VERSION}-{digest.hexdigest()[:8]}"
