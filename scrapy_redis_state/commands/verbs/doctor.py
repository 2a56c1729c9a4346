"""``doctor``: whether servers and a crawl are as they should be."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import count, say, say_json
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.durability import durability
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus, JoinRequest
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.scripts import join
from scrapy_redis_state.store.server_check import check_seen_set, check_server
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    import argparse

    from redis import Redis

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.server_facts import Finding

OK, NOTE, WARNING, FAILED = "ok", "note", "warning", "failed"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The outcome of one check."""

    check: str
    level: str
    text: str
    """What was found; the remedy, where one is needed."""


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    verbs.add(
        "doctor",
        doctor,
        "check the server, the user's rights and the crawl; reads all of the crawl",
        reads=True,
    )


def doctor(args: argparse.Namespace, place: Place) -> int | None:
    """A line for each check; 1 if one failed."""
    found = list(_check_all(place))
    if args.json:
        say_json([{"check": d.check, "level": d.level, "text": d.text} for d in found])
    else:
        for one in found:
            say(f"{one.level.ljust(len(WARNING))}  {one.check}: {one.text}")
    return REFUSED if any(one.level == FAILED for one in found) else None


def _check_all(place: Place) -> Iterator[Diagnosis]:
    try:
        keys = place.keys
        urls: tuple[str, ...] = (place.config.url,)
    except UsageError:
        # Which crawl does not matter to what a server is, nor to what its users may.
        keys, urls = CrawlKeys("doctor", place.prefix), place.urls
        named = False
    else:
        named = True
    for url in urls:
        with ExitStack() as stack:
            try:
                client = stack.enter_context(place.client(url))
            except Refused as error:
                yield Diagnosis("connection", FAILED, str(error))
                continue
            connection = _connection(client, url)
            yield connection
            if connection.level == FAILED:
                continue
            yield from _server(client, keys)
            if named:
                yield from _crawl(client, keys)


def _connection(client: Redis, url: str) -> Diagnosis:
    try:
        with translated():
            client.ping()
    except RedisStateError as error:
        is_away = isinstance(error, Unavailable) and not error.answers
        remedy = ": start it, or correct the URL" if is_away else ""
        return Diagnosis("connection", FAILED, f"{masked(url)}: {error}{remedy}")
    return Diagnosis("connection", OK, f"{masked(url)} answers")


def _server(client: Redis, keys: CrawlKeys) -> Iterator[Diagnosis]:
    key = keys.named("crawl")
    yield from _findings("server", check_server(client, key), "version and policy")
    yield from _findings("persistence", durability(client, key), "cannot be read")
    yield from _rights(client, keys)
    what = f"the server can keep a seen set of kind {keys.seen_set.kind}"
    yield from _findings("seen set", check_seen_set(client, key, keys.seen_set), what)


def _findings(check: str, findings: list[Finding], fine: str) -> Iterator[Diagnosis]:
    for finding in findings:
        level = WARNING if finding.level >= logging.WARNING else NOTE
        yield Diagnosis(check, FAILED if finding.fatal else level, finding.text)
    if not findings:
        yield Diagnosis(check, OK, fine)


def _rights(client: Redis, keys: CrawlKeys) -> Iterator[Diagnosis]:
    """What a worker is told when it joins, without joining."""
    request = JoinRequest(
        worker=uuid.uuid4().hex[:12],
        identity={"seen": keys.seen_set.spec},
        dry_run=True,
    )
    try:
        with translated():
            run(client, join(keys, request))
    except RedisStateError as error:
        if _is_importing(client, keys):
            yield Diagnosis("import", FAILED, str(error))
            yield Diagnosis("rights", NOTE, "cannot be tried before the import is over")
        else:
            yield Diagnosis("rights", FAILED, str(error))
    else:
        yield Diagnosis("rights", OK, "the user may run all that a crawl needs")


def _is_importing(client: Redis, keys: CrawlKeys) -> bool:
    try:
        status = CrawlState(client, keys).status()
    except RedisStateError:
        return False
    return status.summary.status is CrawlStatus.IMPORTING


def _crawl(client: Redis, keys: CrawlKeys) -> Iterator[Diagnosis]:
    state = CrawlState(client, keys)
    name = f"crawl {keys.crawl!r}"
    try:
        status = state.status()
        if not status.generation:
            yield Diagnosis("crawl", NOTE, f"there is no {name} yet")
            return
        if status.summary.status is CrawlStatus.IMPORTING:
            return  # a part of it, of which all is said
        yield _agreement(status.seen_set, keys)
        problems = state.fsck()
    except RedisStateError as error:
        yield Diagnosis("crawl", FAILED, str(error))
        return
    for problem in problems:
        yield Diagnosis("keys", WARNING, f"{problem}; workers mend it, or 'reset'")
    if not problems:
        total = status.summary.pending + status.summary.dead
        yield Diagnosis(
            "keys", OK, f"{name} is whole ({count(total, 'request')} in it)"
        )


def _agreement(spec: str, keys: CrawlKeys) -> Diagnosis:
    wanted = keys.seen_set
    if spec in ("", wanted.spec):
        return Diagnosis("crawl", OK, f"its seen set is {spec or 'not decided yet'}")
    return Diagnosis(
        "crawl",
        WARNING,
        f"its seen set is {spec}, and the settings here say {wanted.spec}: workers with"
        " them would be refused; use the same, or another crawl id",
    )
