"""Finds out whether there is a server, and one that keeps what it is given."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from redis.exceptions import NoPermissionError

from scrapy_redis_state.store.client import (
    masked,
    sync_client,
    translate,
    translated,
)
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.rights import refusal
from scrapy_redis_state.store.seen import MOST_PACKED, SeenSet, most_bytes
from scrapy_redis_state.store.server_facts import Finding, ServerFacts, facts_of
from scrapy_redis_state.store.url import parse

__all__ = ["Finding", "check_seen_set", "check_server", "first_answer"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

OLDEST = "6.2"
# Both came with Redis 6.2. The version itself proves nothing: Valkey reports 7.2.4.
_NEEDED = ("GETEX", "ZMSCORE")
_PAUSE_SECS = 0.1
_USUAL_SECS = 5.0
"""How long a client waits for an answer."""


def check_server(client: redis.Redis, key: str = "") -> list[Finding]:
    """Look at a server's version and at what it does when its memory is full.

    Empty if all is well. Commands the user may not run are done without. What is not
    Redis is one fatal finding.

    :param key: one of the crawl's, to know which node of a cluster is meant
    :raises Unavailable: if the server does not answer
    """
    try:
        with translated():
            return check_facts(client, facts_of(client, key))
    except Unavailable:
        raise
    except RedisStateError as error:
        return [Finding(str(error), fatal=True)]


def check_facts(client: redis.Redis, facts: ServerFacts) -> list[Finding]:
    """As :func:`check_server`, of a server that was asked already."""
    return [
        *_check_refusal(client, facts),
        *_check_version(facts),
        *_check_eviction(facts),
    ]


def check_seen_set(client: redis.Redis, key: str, seen: SeenSet) -> list[Finding]:
    """Whether the server can keep such a seen set; empty if it can.

    :param key: one of the crawl's, to know which node of a cluster is meant
    """
    try:
        with translated():
            return check_seen_by(facts_of(client, key), seen)
    except Unavailable:
        raise
    except RedisStateError as error:
        return [Finding(str(error), fatal=True)]


def check_seen_by(facts: ServerFacts, seen: SeenSet) -> list[Finding]:
    """As :func:`check_seen_set`, of a server that was asked already."""
    check = {"bloom": _check_bloom, "packed": _check_packing}.get(seen.kind)
    return [] if check is None else check(facts, seen)


def _check_bloom(facts: ServerFacts, seen: SeenSet) -> list[Finding]:
    if facts.commands is None or facts.commands["BF.ADD"]:
        return _check_size(facts, seen)
    return [
        Finding(
            "REDIS_STATE_SEEN = 'bloom' needs a server with RedisBloom (the commands"
            " BF.*), and this one has none: use 'packed', which needs nothing, or load"
            " the module",
            fatal=True,
        )
    ]


def _check_packing(facts: ServerFacts, _: SeenSet) -> list[Finding]:
    setting = "set-max-intset-entries"
    most = int(facts.settings.get(setting, MOST_PACKED))
    if most >= MOST_PACKED:
        return []
    return [
        Finding(
            f"{setting} = {most}: REDIS_STATE_SEEN = 'packed' is made for"
            f" {MOST_PACKED}, and takes several times the memory with less: set it with"
            f" CONFIG SET {setting} {MOST_PACKED}",
            fatal=False,
        )
    ]


def _check_size(facts: ServerFacts, seen: SeenSet) -> list[Finding]:
    """Some servers end themselves when they are asked for more than there is."""
    info = facts.info
    most = int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))
    needed = most_bytes(seen)
    if not most or needed <= most:
        return []
    return [
        Finding(
            f"REDIS_STATE_SEEN_CAPACITY = {seen.capacity:,} at"
            f" REDIS_STATE_SEEN_ERROR_RATE = {seen.error_rate:g} takes {needed:,}"
            f" bytes, and the server has {most:,}: set a smaller capacity or a larger"
            " rate",
            fatal=True,
        )
    ]


def first_answer(
    url: str, ask: Callable[[redis.Redis], T], patience_secs: float = 10.0
) -> tuple[redis.Redis, T]:
    """What a server answers, and the client: it may be away or still loading its data.

    Blocks for at most ``patience_secs`` seconds; a server that accepts connections and
    is silent may cost twice that.

    :param ask: asks the server, again if there was no answer
    :raises Unavailable: when the patience is over.
    :raises Refused: at once, when waiting cannot help (bad URL, wrong password, not
        Redis).
    """
    named = f"REDIS_STATE_URL = {masked(url)!r}"
    deadline = time.monotonic() + patience_secs
    told = False
    while True:
        try:
            return _ask(url, ask, deadline)
        except Refused as error:
            raise Refused(f"{named}: {error}") from None
        except Unavailable as error:
            if time.monotonic() + _PAUSE_SECS >= deadline:
                raise Unavailable(
                    f"redis_unavailable: {named}: {error} within {patience_secs:.3g} s:"
                    " start the server, or set REDIS_STATE_URL to where it is"
                    + _hint(url)
                ) from None
            if not told:
                logger.info(
                    "Waiting up to %(secs).3g s for the server: %(named)s: %(error)s",
                    {"secs": patience_secs, "named": named, "error": error},
                )
                told = True
        time.sleep(_PAUSE_SECS)


def _ask(
    url: str, ask: Callable[[redis.Redis], T], deadline: float
) -> tuple[redis.Redis, T]:
    # The probe may wait no longer than the patience lasts; the client that is handed
    # out has the usual time.
    left = min(_USUAL_SECS, max(_PAUSE_SECS, deadline - time.monotonic()))
    probe = sync_client(url, timeout=left, connect_timeout=left)
    try:
        with translated():
            answer = ask(probe)
    except BaseException:
        probe.close()
        raise
    if left == _USUAL_SECS:
        return probe, answer
    probe.close()
    return sync_client(url), answer


def _hint(url: str) -> str:
    address = parse(url)
    if address.uses_tls and "ssl_certfile" not in address.options:
        # That it wants one is lost when it closes the connection too soon.
        return "; if it wants client certificates, name one with ?ssl_certfile=FILE"
    return ""


def _check_refusal(client: redis.Redis, facts: ServerFacts) -> list[Finding]:
    error = facts.refused
    if error is None:
        return []
    if isinstance(error, NoPermissionError):
        return [Finding(str(refusal(error, client)), fatal=True)]
    problem = translate(error)
    if isinstance(problem, Unavailable):
        raise problem
    return [Finding(str(problem), fatal=True)]


def _check_version(facts: ServerFacts) -> list[Finding]:
    version = facts.info.get("redis_version", "")
    old: bool | None = None
    if facts.commands is not None:
        old = not all(facts.commands[name] for name in _NEEDED)
    elif version:
        old = _number(version) < _number(OLDEST)
    if old is None:
        return [
            Finding(
                "the server's version cannot be read (the user may run neither COMMAND "
                f"INFO nor INFO): make sure that it is Redis {OLDEST} or newer",
                fatal=False,
            )
        ]
    if not old:
        return []
    known = f"version {version}, " if version else ""
    return [
        Finding(
            f"the server is too old ({known}without {' or '.join(_NEEDED)}): use Redis "
            f"{OLDEST} or newer, or Valkey",
            fatal=True,
        )
    ]


def _check_eviction(facts: ServerFacts) -> list[Finding]:
    name = "maxmemory-policy"
    # Empty if the user may not ask.
    policy = facts.info.get("maxmemory_policy", "") or facts.settings.get(name, "")
    remedy = "set it to noeviction (CONFIG SET maxmemory-policy noeviction)"
    if not policy:
        text = (
            "the server's settings cannot be read (the user may run neither INFO nor "
            "CONFIG GET): make sure of maxmemory-policy noeviction, else a full server "
            "deletes parts of the crawl, and of appendonly yes, else it is lost when "
            "the server ends"
        )
    elif policy.startswith("allkeys-"):
        text = (
            f"maxmemory-policy = {policy!r}: a full server would delete parts of the "
            f"crawl: {remedy}"
        )
    elif policy.startswith("volatile-"):
        text = (
            f"maxmemory-policy = {policy!r}: a full server deletes finished crawls "
            f"before their time: {remedy} to keep them"
        )
    else:
        return []
    return [Finding(text, fatal=policy.startswith("allkeys-"))]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2])
