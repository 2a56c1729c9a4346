"""A check that a crawl's keys agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_redis_state.store.keys import CrawlKeys

_PLACES = ("frontier", "delayed", "suspects", "inflight", "dead")
_HASHES = ("requests", "deadinfo", "leases")


def read_commands(keys: CrawlKeys) -> list[tuple[str, ...]]:
    """The commands whose replies :func:`check_crawl` takes.

    To be run as one transaction. They read the whole crawl: not for the hot path.
    """
    zsets = [("ZRANGE", keys.named(name), "0", "-1") for name in _PLACES]
    hashes = [("HKEYS", keys.named(name)) for name in _HASHES]
    return [*zsets, *hashes]


def check_crawl(replies: Sequence[Any]) -> list[str]:
    """What does not fit, one line each; empty when all is well.

    Each request id is in exactly one place; it has a request (a dead one: its
    information); every id in flight has a lease, and no other id has any of these.
    """
    sets = [set(map(_text, reply)) for reply in replies]
    places = dict(zip(_PLACES, sets, strict=False))
    requests, deadinfo, leases = sets[len(_PLACES) :]
    problems = []
    for i, one in enumerate(_PLACES):
        for other in _PLACES[i + 1 :]:
            problems += [
                f"request {id} is in {one} and in {other}"
                for id in sorted(places[one] & places[other])
            ]
    alive = set().union(*(places[name] for name in _PLACES if name != "dead"))
    problems += _compare("no entry in requests", alive, requests)
    problems += _compare("an entry in requests, but no place", requests, alive)
    problems += _compare("no entry in deadinfo", places["dead"], deadinfo)
    problems += _compare(
        "an entry in deadinfo, but is not dead", deadinfo, places["dead"]
    )
    problems += _compare("in flight without a lease", places["inflight"], leases)
    problems += _compare("a lease, but is not in flight", leases, places["inflight"])
    return problems


def _compare(problem: str, these: set[str], those: set[str]) -> list[str]:
    return [f"request {id}: {problem}" for id in sorted(these - those)]


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
