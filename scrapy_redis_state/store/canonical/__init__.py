"""What is one page: canonical URLs and their fingerprints. No Scrapy."""

from scrapy_redis_state.store.canonical.fingerprints import (
    request_fingerprint,
    url_fingerprint,
)
from scrapy_redis_state.store.canonical.parameters import StripRules
from scrapy_redis_state.store.canonical.plain import is_plain, needs_no_quoting
from scrapy_redis_state.store.canonical.tracking import TRACKING
from scrapy_redis_state.store.canonical.urls import DEFAULT_RULES, UrlRules
from scrapy_redis_state.store.canonical.version import RULES_VERSION, rules_version

__all__ = [
    "DEFAULT_RULES",
    "RULES_VERSION",
    "TRACKING",
    "StripRules",
    "UrlRules",
    "is_plain",
    "needs_no_quoting",
    "request_fingerprint",
    "rules_version",
    "url_fingerprint",
]
