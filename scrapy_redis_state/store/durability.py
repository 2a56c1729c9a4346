"""What becomes of a crawl when its server dies: what to know before the start.

A server that comes back with an earlier state is consistent all the same: pages done
since then are crawled again, since their end and all that they made is gone together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import redis

from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.server_facts import Finding, ServerFacts, facts_of
from scrapy_redis_state.store.translate import translated

_AGAIN = "pages done since then are crawled again"
_USE_AOF = "CONFIG SET appendonly yes, and CONFIG REWRITE to keep it so"


def durability(client: redis.Redis, key: str = "") -> list[Finding]:
    """What the server's settings mean for a crawl, one finding for each kind of loss.

    Empty if the user may not ask, which :func:`~.server_check.check_server` reports.

    :param key: one of the crawl's, to know which node of a cluster is meant
    """
    try:
        with translated():
            return durability_by(facts_of(client, key))
    except RedisStateError:
        return []


def durability_by(facts: ServerFacts) -> list[Finding]:
    """As :func:`durability`, of a server that was asked already."""
    info, settings = facts.info, facts.settings
    if not info:
        return []
    return [
        *_check_failures(info),
        _check_disk(info, settings),
        *_check_replicas(info, settings),
    ]


def _check_failures(persistence: Mapping[str, str]) -> list[Finding]:
    found = []
    if persistence.get("aof_last_write_status") == "err":
        found.append("the last write to its append-only file failed")
    if persistence.get("rdb_last_bgsave_status") == "err":
        found.append("its last snapshot failed")
    return [
        Finding(
            f"the server cannot save what it has ({failure}): it may refuse writes, and"
            " has an old state when it restarts: see its log; often the disk is full",
            fatal=False,
        )
        for failure in found
    ]


def _check_disk(persistence: Mapping[str, str], settings: Mapping[str, str]) -> Finding:
    if persistence.get("aof_enabled") == "1":
        return _check_sync(settings.get("appendfsync", ""))
    snapshots = settings.get("save")
    if snapshots == "":
        return Finding(
            "the server keeps nothing on disk (appendonly no, save ''): when it ends,"
            f" the crawl is lost: {_USE_AOF}",
            fatal=False,
        )
    rule = f"save '{snapshots}'" if snapshots else "save cannot be read"
    return Finding(
        f"the server keeps snapshots only (appendonly no, {rule}): when it dies, the"
        f" crawl goes back to the last one, and {_AGAIN}: {_USE_AOF}",
        fatal=False,
    )


def _check_sync(sync: str) -> Finding:
    if sync == "always":
        return _calm(
            "the server writes all to disk before it answers (appendfsync always): a"
            " crash loses nothing"
        )
    if sync == "everysec":
        return _calm(
            "the server writes to disk each second (appendfsync everysec): a crash of"
            f" its machine loses about the last second, and {_AGAIN}; appendfsync"
            " always loses nothing, and is slower"
        )
    if sync == "no":
        return Finding(
            "the server leaves it to its system when to write to disk (appendfsync no):"
            f" a crash of the machine loses some 30 s, and {_AGAIN}: CONFIG SET"
            " appendfsync everysec",
            fatal=False,
        )
    return _calm(
        "the server has an append-only file; how often it is written to disk cannot be"
        f" read: with appendfsync everysec a crash loses about a second, and {_AGAIN}"
    )


def _check_replicas(
    replication: Mapping[str, str], settings: Mapping[str, str]
) -> list[Finding]:
    if replication.get("role") == "slave":
        return [
            Finding(
                "the server is a replica, which takes no writes: name its master, or"
                " let redis+sentinel:// or redis+cluster:// find it",
                fatal=False,
            )
        ]
    count = int(replication.get("connected_slaves", "0"))
    if not count:
        return []
    least = settings.get("min-replicas-to-write", "")
    text = (
        f"the server has {count} replica{'s' * (count > 1)}, which may be behind:"
        f" what they lack at a failover is lost, and {_AGAIN}:"
        " REDIS_STATE_WAIT_REPLICAS = 1 waits for them"
    )
    if least in ("", "0"):
        text += (
            "; min-replicas-to-write 1 keeps a master that is cut off from taking"
            " what will be lost"
        )
    return [_calm(text)]


def _calm(text: str) -> Finding:
    return Finding(text, fatal=False, level=logging.INFO)
