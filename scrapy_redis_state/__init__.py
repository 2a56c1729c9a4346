"""One crawl over many Scrapy processes: shared crawl state in Redis."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_redis_state.addon import Addon
    from scrapy_redis_state.cookies import CookiesMiddleware
    from scrapy_redis_state.dupefilter import DupeFilter
    from scrapy_redis_state.reaper import Reaper
    from scrapy_redis_state.scheduler import Scheduler
    from scrapy_redis_state.session_provider import (
        SessionContent,
        SessionInvalid,
        SessionProvider,
    )

__all__ = [
    "Addon",
    "CookiesMiddleware",
    "DupeFilter",
    "Reaper",
    "Scheduler",
    "SessionContent",
    "SessionInvalid",
    "SessionProvider",
]

_MODULES = {
    "Addon": "addon",
    "CookiesMiddleware": "cookies",
    "DupeFilter": "dupefilter",
    "Reaper": "reaper",
    "Scheduler": "scheduler",
    **dict.fromkeys(
        ("SessionContent", "SessionInvalid", "SessionProvider"), "session_provider"
    ),
}


def __getattr__(name: str) -> Any:
    """The public names, when they are asked for.

    Every ``scrapy`` command loads this package for the sake of its own command, and
    most of them need nothing else of it.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
