"""What is checked before a crawl starts: the server, and what a join would say.

While it can still be told in one line, and before any page is fetched.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.durability import durability
from scrapy_redis_state.store.elsewhere import check_elsewhere
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.messages import JoinStatus
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_check import (
    check_seen_set,
    check_server,
    wait_for_server,
)
from scrapy_redis_state.store.start_keys import check_start_keys

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.crawl import SharedCrawl
    from scrapy_redis_state.store.messages import JoinReply
    from scrapy_redis_state.store.server_facts import Finding

logger = logging.getLogger(__name__)

PATIENCE_SECS = 10.0
"""How long a start waits for the server."""
_PAUSE_SECS = 0.2


def check_before_start(crawl: SharedCrawl, *, joins: bool) -> Redis:
    """Look at everything that could keep a crawl from working.

    :param joins: whether the scheduler is ours, and will join the crawl
    :return: the connection that was used; it stays open
    :raises ValueError: for anything that cannot work, in one line
    """
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        client = _connect(crawl, max(_PAUSE_SECS, deadline - time.monotonic()))
        try:
            findings = _check(crawl, client, joins=joins)
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


def _connect(crawl: SharedCrawl, patience_secs: float) -> Redis:
    try:
        return wait_for_server(crawl.config.url, patience_secs)
    except Refused:
        raise
    except RedisStateError as error:
        raise ValueError(str(error)) from None


def _away(crawl: SharedCrawl, error: Unavailable) -> str:
    return (
        f"redis_unavailable: REDIS_STATE_URL = {crawl.config.masked_url!r}: {error},"
        f" again and again for {PATIENCE_SECS:g} s: see that the server stays up"
    )


def _check(crawl: SharedCrawl, client: Redis, *, joins: bool) -> list[Finding]:
    """What is worth a line in the log.

    :raises Unavailable: if the server stops answering
    """
    findings = _findings(crawl, client)
    for finding in findings:
        if finding.fatal:
            url = crawl.config.masked_url
            raise ValueError(f"REDIS_STATE_URL = {url!r}: {finding.text}")
    if joins:
        refusal = crawl.refusal(_try_to_join(crawl, client))
        if refusal is not None:
            raise refusal
    return findings


def _findings(crawl: SharedCrawl, client: Redis) -> list[Finding]:
    key = crawl.keys.named("crawl")
    return [
        *check_server(client, key),
        *check_seen_set(client, key, crawl.seen_set),
        *check_elsewhere(crawl.config.other_urls, crawl.keys),
        *check_start_keys(client, crawl.keys, crawl.start_keys.keys),
        *durability(client, key),
    ]


def _try_to_join(crawl: SharedCrawl, client: Redis) -> JoinReply:
    """What a join would be answered."""
    request = crawl.join_request(dry_run=True)
    while True:
        with translated():
            reply = run(client, scripts.join(crawl.keys, request))
        if reply.status is not JoinStatus.EPOCH:
            return reply
        request = replace(request, epoch=reply.summary.epoch)
