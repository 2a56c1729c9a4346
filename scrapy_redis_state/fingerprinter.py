"""Canonical fingerprints: requests for one page are recognised however it is spelt."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter

from scrapy_redis_state.requests.page_identity import note_canonical_urls
from scrapy_redis_state.settings import setting_value
from scrapy_redis_state.startup.invocation import takes_part
from scrapy_redis_state.store.canonical import UrlRules, request_fingerprint

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.request import RequestFingerprinterProtocol

FALLBACK = "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS"
STRIP = "REDIS_STATE_STRIP_QUERY_PARAMS"

URLS_REMEMBERED = 4096
LONGEST_REMEMBERED = 2048
"""Characters of a URL; a cache of longer ones could fill the memory."""


class CanonicalRequestFingerprinter:
    """Makes fingerprints of canonical URLs; the request keeps its own.

    The request goes on to *fallback* as it is but for its URL, so that method, body,
    and whatever else the fallback looks at stay parts of the fingerprint. A request
    with ``verbatim_url`` in its meta asks to be taken as it is, and is.
    """

    canonicalizes_urls = True

    def __init__(self, rules: UrlRules, fallback: RequestFingerprinterProtocol) -> None:
        self._rules = rules
        self._fallback = fallback
        # Scrapy's own is known to look at URL, method and body alone.
        self._is_stock = type(fallback) is RequestFingerprinter
        self._of_plain_get = lru_cache(URLS_REMEMBERED)(self._stock_fingerprint)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RequestFingerprinterProtocol:
        """This one, or the project's own where nothing is to be shared."""
        settings = crawler.settings
        fallback: Any = load_object(setting_value(settings, FALLBACK))
        fallback = build_from_crawler(fallback, crawler)
        if not takes_part(settings):
            return fallback  # type: ignore[no-any-return]
        note_canonical_urls(crawler)
        return cls(UrlRules(setting_value(settings, STRIP)), fallback)

    def fingerprint(self, request: Request) -> bytes:
        """Bytes that are equal for requests of the same page."""
        if request.meta.get("verbatim_url"):
            return self._fallback.fingerprint(request)
        if not self._is_stock:
            return self._fallback.fingerprint(self._canonical(request))
        url, method, body = request.url, request.method, request.body
        if method == "GET" and not body and len(url) <= LONGEST_REMEMBERED:
            return self._of_plain_get(url)
        return self._stock_fingerprint(url, method, body)

    def _stock_fingerprint(
        self, url: str, method: str = "GET", body: bytes = b""
    ) -> bytes:
        return request_fingerprint(self._rules.canonical(url), method, body)

    def _canonical(self, request: Request) -> Request:
        # With its fragment: some projects crawl pages that are made by scripts, and
        # ask Scrapy to keep it (keep_fragments).
        url = self._rules.canonical(request.url, keep_fragment=True)
        return request if url == request.url else request.replace(url=url)
