"""What to say when the server does not let its user do what is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redis.exceptions import NoPermissionError

from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    from redis import Redis

_NAMED = re.compile(r"\bUser \S+ has no")
_HELP = "the documentation has all that a crawl needs under 'Rights'"


def refusal(
    error: NoPermissionError, client: Redis, keys: Sequence[str] = ()
) -> Refused:
    """Name the command or the key that is missing in the user's ACL, and the remedy.

    The server is asked which key it is, for it does not say. The user's name is not
    shown, as it is part of a login.

    :param keys: those of the call that was refused, in the order of scripts
    """
    text = without_user(str(error))
    commands = _commands(text)
    if commands:
        names, rules = ", ".join(commands), [f"+{name.lower()}" for name in commands]
        missing = f"run {names}"
    elif keys and (key := _refused_key(client, keys)):
        missing, rules = f"use the key {key!r}", [f"~{_pattern(keys[0])}"]
    else:
        return Refused(
            f"the user may not do what is needed ({text}): give it the commands and"
            f" keys in its ACL ({_HELP})"
        )
    return Refused(
        f"the user may not {missing}: allow it with ACL SETUSER <user>"
        f" {' '.join(rules)} ({_HELP})"
    )


def without_user(text: str) -> str:
    """What a server says, but for the user's name."""
    return _NAMED.sub("the user has no", text)


def _commands(text: str) -> list[str]:
    """Those that an error names: one of the server, or several of join.lua."""
    if found := re.search(r"may not run ([\w, ]+)", text):
        return found[1].split(", ")
    return [name.upper() for name in re.findall(r"run the '([^']+)' command", text)]


def _refused_key(client: Redis, keys: Sequence[str]) -> str:
    for key in keys:
        try:
            client.type(key)
        except NoPermissionError as error:
            return "" if _commands(str(error)) else key
    return ""


def _pattern(key: str) -> str:
    """What an ACL needs for the crawl whose first key this is.

    With a key prefix it is for all crawls, and whatever else is under that prefix.
    """
    prefix, brace, rest = key.partition("{")
    prefix = prefix.removesuffix("crawl:")
    escaped = re.sub(r"[\\*?\[\]]", r"\\\g<0>", prefix or f":{brace}{rest}")
    return f"{escaped}*" if prefix else f"*{escaped}*"
