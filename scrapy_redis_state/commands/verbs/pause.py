"""``pause`` and ``resume``: hold a crawl, and let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.commands.output import say

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put both among the verbs."""
    verbs.add("pause", pause, "start no more pages; workers stay, also new ones")
    verbs.add("resume", resume, "let a crawl go on that is paused or drains")


def pause(_args: argparse.Namespace, place: Place) -> int | None:
    """Do it; no error if it was done already."""
    with place.state() as state:
        was = "is" if state.pause() else "was already"
    say(f"crawl {place.config.crawl_id!r} {was} paused; what runs is finished")
    return None


def resume(_args: argparse.Namespace, place: Place) -> int | None:
    """Do it; no error if it was done already."""
    with place.state() as state:
        was = "goes on" if state.resume() else "was not held"
    say(f"crawl {place.config.crawl_id!r} {was}")
    return None
