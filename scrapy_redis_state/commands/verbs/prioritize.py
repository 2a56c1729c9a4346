"""``prioritize``: change the order of what is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.commands.output import count, say
from scrapy_redis_state.commands.parsing import regex

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add(
        "prioritize", prioritize, "raise or lower the priority of requests that wait"
    )
    parser.add_argument(
        "--match",
        metavar="REGEX",
        type=regex,
        required=True,
        help="found in the URLs of the requests that are meant",
    )
    parser.add_argument(
        "--by",
        metavar="N",
        type=int,
        required=True,
        help="what is added to their priority; may be negative",
    )


def prioritize(args: argparse.Namespace, place: Place) -> int | None:
    """Say how many requests have another priority now; none is no error."""
    with place.state() as state:
        if not state.status().generation:
            raise place.missing()
        changed = state.prioritize(args.match, args.by)
    say(f"{count(changed, 'request')} changed by {args.by:+d}")
    return None
