"""The canonical form of a URL: what its fingerprint is made of."""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter

from w3lib.url import canonicalize_url

from scrapy_redis_state.store.canonical.parameters import (
    LIST,
    NameReader,
    StripRules,
    name_reader,
)
from scrapy_redis_state.store.canonical.parts import (
    DEFAULT_PORTS,
    canonical_authority,
    canonical_component,
    canonical_path,
)
from scrapy_redis_state.store.canonical.plain import is_plain

_HOSTS_REMEMBERED = 1024


class UrlRules:
    """Tells which URLs are the same page."""

    def __init__(self, strip: StripRules) -> None:
        self.strip = strip
        self._reader_for = lru_cache(_HOSTS_REMEMBERED)(self._for_host)
        self._reader_by = lru_cache(_HOSTS_REMEMBERED)(name_reader)

    def canonical(self, url: str, *, keep_fragment: bool = False) -> str:
        """The one spelling of a URL, which is never to be fetched.

        :param url: as a request has it (see :func:`w3lib.url.safe_url_string`)
        """
        return url if is_plain(url) else self.parsed(url, keep_fragment=keep_fragment)

    def parsed(self, url: str, *, keep_fragment: bool = False) -> str:
        """The same, whatever the URL looks like; :meth:`canonical` is quicker."""
        scheme, separator, rest = url.partition("://")
        scheme = scheme.lower()
        if not separator or scheme not in DEFAULT_PORTS:
            return canonicalize_url(url, keep_fragments=keep_fragment)
        rest, _, fragment = rest.partition("#")
        rest, _, query = rest.partition("?")
        authority, _, path = rest.partition("/")
        authority, host = canonical_authority(authority, scheme)
        url = f"{scheme}://{authority}{canonical_path('/' + path)}"
        if query and (query := self._canonical_query(query, host)):
            url += f"?{query}"
        if fragment and keep_fragment:
            url += f"#{fragment}"
        return url

    def _canonical_query(self, query: str, host: str) -> str:
        """Without what is left out; by name, and equal names in their order."""
        read_name = self._reader_for(host)
        kept: list[tuple[bytes, str]] = []
        for field in query.split("&"):
            if not field:
                continue
            name, _, value = field.partition("=")
            read = read_name(name)
            if read is not None:
                decoded, text = read
                kept.append((decoded, f"{text}={canonical_component(value)}"))
        kept.sort(key=_BY_NAME)
        return "&".join([text for _, text in kept])

    def _for_host(self, host: str) -> NameReader:
        return self._reader_by(self.strip.for_host(host))


_BY_NAME = itemgetter(0)


DEFAULT_RULES = UrlRules(StripRules.of([LIST]))
"""Those of a crawl whose settings say nothing else."""
