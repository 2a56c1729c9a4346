"""``drain``: have the workers of a crawl end, and none begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.commands.output import say

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    verbs.add("drain", drain, "start no more pages; workers end, also new ones")


def drain(_args: argparse.Namespace, place: Place) -> int | None:
    """Do it; no error if it was done already."""
    with place.state() as state:
        was = "drains" if state.drain() else "drains already"
    say(f"crawl {place.config.crawl_id!r} {was}; workers finish what runs, and close")
    return None
