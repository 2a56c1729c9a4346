"""Cookies that browsers keep apart by the site of the page (CHIPS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.store.sessions.site import site_of

if TYPE_CHECKING:
    from scrapy_redis_state.store.sessions.cookie import Cookie


def is_sent_by(cookie: Cookie, site: str) -> bool:
    """Whether a page of *site* sends it: all but those of another page's partition."""
    key = cookie.partition_key
    if key is None:
        return True
    top_level = key.get("topLevelSite") if isinstance(key, dict) else key
    try:
        return isinstance(top_level, str) and site_of(top_level) == site
    except ValueError:
        return False
