"""``crawls``: what crawls there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_redis_state.commands.figures import figures_of
from scrapy_redis_state.commands.output import say, say_json, say_table
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.crawls import find_crawls
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import Summary
from scrapy_redis_state.store.status import StatusReply
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.keys import CrawlKeys


@dataclass(frozen=True, slots=True)
class Found:
    """A crawl on a server."""

    url: str
    keys: CrawlKeys
    status: StatusReply | None
    problem: str = ""
    """Why it could not be looked at."""


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    verbs.add(
        "crawls",
        crawls,
        "list all crawls of the servers; under one prefix, if there is one",
        crawl=False,
        reads=True,
    )


def crawls(args: argparse.Namespace, place: Place) -> int | None:
    """List them; none is no error."""
    found = list(look(place, place.prefix or None))
    if args.json:
        say_json([_fields(one) for one in found])
    elif found:
        names = list(_fields(found[0]))
        say_table(names, [list(_fields(one).values()) for one in found])
    else:
        say("no crawls")
    return None


def look(place: Place, prefix: str | None) -> Iterator[Found]:
    """The crawls of all servers, with what they are up to."""
    for url in place.urls:
        with place.client(url) as client:
            for keys in find_crawls(client, prefix):
                try:
                    status = CrawlState(client, keys).status()
                except Refused as error:  # not ours to see, or something else
                    yield Found(url, keys, None, str(error))
                else:
                    if status.generation:
                        yield Found(url, keys, status)


def _fields(found: Found) -> dict[str, object]:
    fields: dict[str, object] = {
        "crawl": found.keys.crawl,
        "prefix": found.keys.prefix,
        "server": masked(found.url),
    }
    if found.status is None:
        names = figures_of(StatusReply(0, False, "", (), Summary()))
        return fields | dict.fromkeys(names) | {"state": f"? ({found.problem})"}
    return fields | figures_of(found.status)
