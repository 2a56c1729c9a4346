"""``forget``: have pages count as new again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import complain, count, say

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("forget", forget, "have pages count as new again")
    parser.add_argument("urls", metavar="URL", nargs="+", help="that may be seen again")


def forget(args: argparse.Namespace, place: Place) -> int | None:
    """Say how many pages had been seen; 1 if one was not."""
    with place.state() as state:
        if not state.status().generation:
            raise place.missing()
        forgotten = state.forget_many(args.urls)
    say(f"{count(sum(forgotten), 'page')} forgotten")
    unknown = [
        url for url, was_seen in zip(args.urls, forgotten, strict=True) if not was_seen
    ]
    for url in unknown:
        complain(f"not seen yet: {url}")
    return REFUSED if unknown else None
