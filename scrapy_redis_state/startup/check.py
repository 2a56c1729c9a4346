"""What is checked before a crawl starts: the server, and what a join would say.

While it can still be told in one line, and before any page is fetched. All that every
crawl asks is one round trip.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.durability import durability_by
from scrapy_redis_state.store.elsewhere import check_elsewhere
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.messages import JoinStatus
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_check import (
    check_facts,
    check_seen_by,
    first_answer,
)
from scrapy_redis_state.store.server_facts import ask
from scrapy_redis_state.store.start_keys import check_start_keys

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.crawl import SharedCrawl
    from scrapy_redis_state.store.messages import JoinReply
    from scrapy_redis_state.store.server_facts import Finding, ServerFacts

logger = logging.getLogger(__name__)

PATIENCE_SECS = 10.0
"""How long a start waits for the server."""
_PAUSE_SECS = 0.2


@dataclass(frozen=True)
class _Answers:
    """What the server said to the first questions."""

    facts: ServerFacts
    join_reply: Any
    """The reply to a join without effect, or an error, which may mean only that the
    server does not know the script; None: it was not asked."""


def check_before_start(crawl: SharedCrawl, *, joins: bool) -> Redis:
    """Look at everything that could keep a crawl from working.

    :param joins: whether the scheduler is ours, and will join the crawl
    :return: the connection that was used; it stays open
    :raises ValueError: for anything that cannot work, in one line
    """
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        patience_secs = max(_PAUSE_SECS, deadline - time.monotonic())
        client, answers = _ask(crawl, patience_secs, joins=joins)
        try:
            findings = _check(crawl, client, answers)
        except Unavailable as error:
            # It went away between two questions, as in a failover.
            client.close()
            if time.monotonic() >= deadline:
                raise ValueError(_away(crawl, error)) from None
            time.sleep(_PAUSE_SECS)
        except Exception:
            client.close()
            raise
        else:
            for finding in findings:
                logger.log(finding.level, "%(finding)s", {"finding": finding.text})
            return client


def _ask(
    crawl: SharedCrawl, patience_secs: float, *, joins: bool
) -> tuple[Redis, _Answers]:
    request = crawl.join_request(dry_run=True)
    calls = [scripts.join(crawl.keys, request)] if joins else []

    def ask_all(client: Redis) -> _Answers:
        facts, replies = ask(client, crawl.keys.named("crawl"), calls)
        return _Answers(facts, replies[0] if replies else None)

    try:
        return first_answer(crawl.config.url, ask_all, patience_secs)
    except Refused:
        raise
    except RedisStateError as error:
        raise ValueError(str(error)) from None


def _away(crawl: SharedCrawl, error: Unavailable) -> str:
    return (
        f"redis_unavailable: REDIS_STATE_URL = {crawl.config.masked_url!r}: {error},"
        f" again and again for {PATIENCE_SECS:g} s: see that the server stays up"
    )


def _check(crawl: SharedCrawl, client: Redis, answers: _Answers) -> list[Finding]:
    """What is worth a line in the log.

    :raises Unavailable: if the server stops answering
    """
    findings = _findings(crawl, client, answers.facts)
    for finding in findings:
        if finding.fatal:
            url = crawl.config.masked_url
            raise ValueError(f"REDIS_STATE_URL = {url!r}: {finding.text}")
    if answers.join_reply is not None:
        refusal = crawl.refusal(_try_to_join(crawl, client, answers.join_reply))
        if refusal is not None:
            raise refusal
    return findings


def _findings(crawl: SharedCrawl, client: Redis, facts: ServerFacts) -> list[Finding]:
    return [
        *check_facts(client, facts),
        *check_seen_by(facts, crawl.seen_set),
        *check_elsewhere(crawl.config.other_urls, crawl.keys),
        *check_start_keys(client, crawl.keys, crawl.start_keys.keys),
        *durability_by(facts),
    ]


def _try_to_join(crawl: SharedCrawl, client: Redis, answer: Any) -> JoinReply:
    """What a join would be answered.

    :param answer: what one was answered already
    """
    request = crawl.join_request(dry_run=True)
    call = scripts.join(crawl.keys, request)
    known = None if isinstance(answer, Exception) else call.read(answer)
    while True:
        if known is None:
            with translated():
                known = run(client, call)
        if known.status is not JoinStatus.EPOCH:
            return known
        request = replace(request, epoch=known.summary.epoch)
        call, known = scripts.join(crawl.keys, request), None
