"""What was read from elsewhere, before it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scrapy_redis_state.store.sessions.cookie import Cookie, NotACookie
from scrapy_redis_state.store.sessions.session import Changes
from scrapy_redis_state.store.sessions.site import site_of

ORIGINS_TOKEN = "storage_state:origins"  # noqa: S105
"""The token of a session that has the ``origins`` of a storage state, as JSON."""


def checked(cookie: Cookie) -> Cookie:
    """The cookie.

    :raises NotACookie: if it cannot be stored
    """
    cookie.to_json()
    try:
        site_of(cookie.domain)
    except ValueError:
        raise NotACookie("has no usable domain") from None
    return cookie


@dataclass(frozen=True, slots=True)
class Imported:
    """Cookies of any number of sites, and what else came with them."""

    cookies: tuple[Cookie, ...]
    origins: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """Local storage and the like of a browser: kept as it is, for another browser."""
    skipped: tuple[str, ...] = ()
    """What could not be used, one line each, without values."""

    def by_site(self) -> dict[str, Changes]:
        """What belongs to each site, to be saved as its session."""
        cookies: dict[str, list[Cookie]] = {}
        for cookie in self.cookies:
            cookies.setdefault(site_of(cookie.domain), []).append(cookie)
        origins: dict[str, list[Mapping[str, Any]]] = {}
        for origin in self.origins:
            origins.setdefault(site_of(origin["origin"]), []).append(origin)
        return {
            site: Changes(
                cookies=tuple(cookies.get(site, ())),
                tokens=(
                    {ORIGINS_TOKEN: json.dumps(origins[site])}
                    if site in origins
                    else {}
                ),
            )
            for site in cookies | origins
        }
