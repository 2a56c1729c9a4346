"""``peek``: what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_redis_state.commands.output import say, say_json, say_table
from scrapy_redis_state.commands.parsing import at_least

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store import LeasedRequest


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("peek", peek, "show the requests that come next", reads=True)
    parser.add_argument(
        "count",
        metavar="N",
        type=at_least(1),
        nargs="?",
        default=10,
        help="how many (10; 4000 at most)",
    )


def peek(args: argparse.Namespace, place: Place) -> int | None:
    """Show them, best first; an empty frontier is no error."""
    with place.state() as state:
        found = state.peek(args.count)
        if not found and not state.status().generation:
            raise place.missing()
    if args.json:
        say_json([_fields(one) for one in found])
    elif found:
        say_table(
            ("priority", "deliveries", "url"),
            [(one.priority, one.deliveries, one.url or "?") for one in found],
        )
    else:
        say("nothing is pending")
    return None


def _fields(request: LeasedRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "priority": request.priority,
        "deliveries": request.deliveries,
        "url": request.url,
    }
