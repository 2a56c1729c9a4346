"""What a server tells about itself, as far as the user may ask."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import redis
from redis.exceptions import ResponseError


@dataclass(frozen=True)
class Finding:
    """Something about a server that a person should know."""

    text: str
    """One line: what is wrong and what to do."""
    fatal: bool
    """No crawl may use this server as it is."""
    level: int = logging.WARNING
    """For the log, if it is not fatal."""


def read_info(client: redis.Redis, section: str) -> dict[str, str]:
    """One section of INFO; empty if the user may not ask."""
    try:
        return {name: str(value) for name, value in client.info(section).items()}
    except ResponseError:
        return {}


def read_config(client: redis.Redis, *names: str) -> dict[str, str]:
    """Settings by name; without those that the user may not read or it does not have.

    Hosted servers often allow INFO but not CONFIG.
    """
    found: dict[str, str] = {}
    for name in names:  # Redis before 7.0 takes one at a time
        try:
            reply = client.config_get(name)
        except ResponseError:
            return {}
        found.update((str(known), str(value)) for known, value in reply.items())
    return found


def lacks_commands(client: redis.Redis, *names: str) -> bool | None:
    """Whether the server is without some of these; None if the user may not ask."""
    try:
        # One name: redis-py fails on the reply for an unknown command if it knows that
        # the command is COMMAND.
        reply = client.execute_command(  # type: ignore[no-untyped-call]
            "COMMAND INFO", *names
        )
    except ResponseError:
        return None
    return None in reply
