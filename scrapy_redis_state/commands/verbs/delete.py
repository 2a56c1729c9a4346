"""``delete``: remove crawls with all their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import complain, count, say
from scrapy_redis_state.commands.parsing import at_least
from scrapy_redis_state.commands.verbs.crawls import Found, look
from scrapy_redis_state.commands.verbs.reset import add_force, contents, telling
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place

_DAY_SECS = 86_400


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("delete", delete, "remove a crawl, or old ones, with all keys")
    add_force(parser)
    parser.add_argument(
        "--older-than",
        metavar="DAYS",
        type=at_least(1),
        default=0,
        help="only if nobody used it for so long; all such crawls under the prefix,"
        " where none is named",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be removed"
    )


def delete(args: argparse.Namespace, place: Place) -> int | None:
    """Do it, and say what there was."""
    if args.older_than and not place.names_a_crawl:
        return _delete_old(args, place)
    with place.state() as state:
        status = state.status()
        with telling(status):
            done = state.delete(
                force=args.force,
                unused_secs=args.older_than * _DAY_SECS,
                dry_run=args.dry_run,
            )
    if not done:
        raise place.missing()
    say(f"{_done(args)} {place.config.crawl_id!r}: {contents(status)}")
    return None


def _done(args: argparse.Namespace) -> str:
    return "would delete" if args.dry_run else "deleted"


def _delete_old(args: argparse.Namespace, place: Place) -> int | None:
    deleted, problems = 0, 0
    for found in look(place, place.prefix):
        if found.status is None:
            complain(f"crawl {found.keys.crawl!r} cannot be used: {found.problem}")
            problems += 1
        elif _delete_if_old(found, args, place):
            deleted += 1
            say(f"{_done(args)} {found.keys.crawl!r}: {contents(found.status)}")
    if not deleted:
        say(f"no crawl that nobody used for {count(args.older_than, 'day')}")
    return REFUSED if problems else None


def _delete_if_old(found: Found, args: argparse.Namespace, place: Place) -> bool:
    """Whether it was old enough."""
    with place.client(found.url) as client:
        state = CrawlState(client, found.keys)
        try:
            return state.delete(
                unused_secs=args.older_than * _DAY_SECS, dry_run=args.dry_run
            )
        except Refused:
            return False  # it was used
