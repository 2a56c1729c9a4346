"""``reset``: start a crawl over."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrapy_redis_state.commands.output import say
from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.status import StatusReply


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("reset", reset, "start a crawl over: nothing of it is kept")
    add_force(parser)


def add_force(parser: argparse.ArgumentParser) -> None:
    """The option of what is dangerous."""
    parser.add_argument(
        "--force", action="store_true", help="also while workers live, which then end"
    )


def reset(args: argparse.Namespace, place: Place) -> int | None:
    """Do it, and say what there was."""
    with place.state() as state:
        status = state.status()
        if not status.generation:
            raise place.missing()
        with telling(status):
            state.reset(force=args.force)
    say(f"crawl {place.config.crawl_id!r} is as new; removed: {contents(status)}")
    return None


def contents(status: StatusReply) -> str:
    """What a crawl has."""
    summary = status.summary
    return (
        f"{summary.pending:,} pending, {summary.in_flight:,} in flight,"
        f" {summary.delayed + summary.suspects:,} delayed, {summary.dead:,} dead,"
        f" {summary.seen:,} seen"
    )


@contextmanager
def telling(status: StatusReply) -> Iterator[None]:
    """Where something is refused inside, tell what it would remove."""
    try:
        yield
    except Refused as error:
        text = str(error).replace("with force=True", "with --force")
        raise Refused(f"{text} It would remove: {contents(status)}.") from None
