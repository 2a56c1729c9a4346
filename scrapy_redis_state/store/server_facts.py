"""What a server tells about itself, as far as the user may ask, in one round trip."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import ResponseError

from scrapy_redis_state.store.cluster import node_for

if TYPE_CHECKING:
    from scrapy_redis_state.store.call import Call

COMMANDS = ("GETEX", "ZMSCORE", "BF.ADD")
"""Commands that say how old the server is, and which modules it has."""
SETTINGS = (
    "appendfsync",
    "maxmemory-policy",
    "min-replicas-to-write",
    "save",
    "set-max-intset-entries",
)
_QUESTIONS = (
    ("PING",),
    # A script that the server knows needs EVALSHA alone, until the server forgets it.
    ("EVAL", "return 1", 0),
    ("INFO",),
    # One name: redis-py fails on the reply for an unknown command if it knows that the
    # command is COMMAND.
    ("COMMAND INFO", *COMMANDS),
    # Redis before 7.0 takes one at a time.
    *(("CONFIG GET", name) for name in SETTINGS),
)


@dataclass(frozen=True)
class Finding:
    """Something about a server that a person should know."""

    text: str
    """One line: what is wrong and what to do."""
    fatal: bool
    """No crawl may use this server as it is."""
    level: int = logging.WARNING
    """For the log, if it is not fatal."""


@dataclass(frozen=True)
class ServerFacts:
    """What one node of a server said."""

    info: Mapping[str, str]
    """INFO; empty if the user may not ask."""
    settings: Mapping[str, str]
    """Those of ``SETTINGS`` that the user may read and the server has.

    Hosted servers often allow INFO but not CONFIG.
    """
    commands: Mapping[str, bool] | None
    """Which of ``COMMANDS`` it has; None if the user may not ask."""
    refused: ResponseError | None
    """What it said instead of an answer to PING, or to a script."""


def ask(
    client: redis.Redis, key: str = "", calls: Sequence[Call[Any]] = ()
) -> tuple[ServerFacts, list[Any]]:
    """Ask a server about itself, and on the way run some scripts that it may know.

    Raises what redis-py raises if there is no answer at all.

    :param key: one of the crawl's, to know which node of a cluster is meant
    :return: the facts, and the raw reply to each call, or the error
    """
    with node_for(client, key).pipeline(transaction=False) as pipeline:
        for question in _QUESTIONS:
            pipeline.execute_command(*question)  # type: ignore[no-untyped-call]
        for call in calls:
            arguments: list[Any] = [call.script.sha, len(call.keys), *call.keys]
            pipeline.execute_command("EVALSHA", *arguments, *call.args)  # type: ignore[no-untyped-call]
        replies = pipeline.execute(raise_on_error=False)
    for reply in replies:
        if isinstance(reply, Exception) and not isinstance(reply, ResponseError):
            raise reply  # it is loading its data
    answers, others = replies[: len(_QUESTIONS)], replies[len(_QUESTIONS) :]
    return _facts(*answers), others


def facts_of(client: redis.Redis, key: str = "") -> ServerFacts:
    """What a server says about itself; see :func:`ask`."""
    return ask(client, key)[0]


def _facts(
    ping: Any, script: Any, info: Any, commands: Any, *settings: Any
) -> ServerFacts:
    known: dict[str, str] = {}
    for setting in settings:
        known.update(_texts(setting))
    refusals = [one for one in (ping, script) if isinstance(one, ResponseError)]
    may_ask = not isinstance(commands, ResponseError)
    return ServerFacts(
        _texts(info),
        known,
        {name: bool(one) for name, one in zip(COMMANDS, commands, strict=True)}
        if may_ask
        else None,
        refusals[0] if refusals else None,
    )


def _texts(reply: Any) -> dict[str, str]:
    if isinstance(reply, ResponseError):
        return {}
    return {str(name): str(value) for name, value in reply.items()}


def read_info(client: redis.Redis, section: str) -> dict[str, str]:
    """One section of INFO; empty if the user may not ask."""
    try:
        return _texts(client.info(section))
    except ResponseError:
        return {}
