"""What processes of one crawl must agree on about which requests are the same page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object
from scrapy.utils.request import RequestFingerprinter

from scrapy_redis_state.store.canonical import rules_version

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_redis_state.settings import Config

_ATTRIBUTE = "_redis_state_canonicalizes_urls"
_UNUSED = "none"


def note_canonical_urls(crawler: Crawler) -> None:
    """This crawler's fingerprints are of canonical URLs, maybe among other things."""
    setattr(crawler, _ATTRIBUTE, True)


def has_canonical_urls(crawler: Crawler) -> bool:
    """Whether this crawler's fingerprints are of canonical URLs."""
    return getattr(crawler, _ATTRIBUTE, False)


def page_identity(crawler: Crawler, config: Config) -> dict[str, str]:
    """Names and values that a join records and compares.

    The fingerprinter is the project's own, as it was before ours stood before it: a
    crawl that an older version began has no other name, and goes on.
    """
    used: str | type = crawler.settings["REQUEST_FINGERPRINTER_CLASS"]
    if getattr(load_object(used), "canonicalizes_urls", False):
        used = config.fallback_request_fingerprinter_class
    if getattr(load_object(used), "stands_alone", False):
        return identity_of(load_object(used))
    names = {
        "fingerprinter": component_path(used),
        "url_rules": _UNUSED,
        "strip_params": _UNUSED,
    }
    if has_canonical_urls(crawler):
        is_stock = load_object(used) is RequestFingerprinter
        names["url_rules"] = rules_version(with_w3lib=not is_stock)
        names["strip_params"] = config.strip_query_params.describe()
    return names


def identity_of(fingerprinter: type) -> dict[str, str]:
    """The same for a fingerprinter that is handed URLs as they are."""
    return {
        "fingerprinter": component_path(fingerprinter),
        "url_rules": _UNUSED,
        "strip_params": _UNUSED,
    }


def component_path(component: object) -> str:
    """The path of a component that a setting names by its class or path."""
    if isinstance(component, str):
        return component
    return f"{component.__module__}.{getattr(component, '__qualname__', component)}"
