"""What may stand after the ``?`` of a server URL, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

SECRET = ("username", "password", "sentinel_username", "sentinel_password")
"""Options that are never shown."""


def names_for(scheme: str) -> list[str]:
    """The options that a URL with this scheme may have."""
    left_out: tuple[str, ...] = ()
    if not scheme.startswith("rediss"):
        left_out += ("ssl_",)
    if not scheme.endswith("+sentinel"):
        left_out += ("sentinel_",)
    if scheme == "embedded":
        left_out += SECRET  # it has no users
    return [name for name in _OPTIONS if not name.startswith(left_out)]


def read_options(query: Sequence[tuple[str, str]], scheme: str) -> dict[str, Any]:
    """Names and values of a query as keyword arguments.

    :raises ValueError: saying what the URL "has", without any part of it
    """
    known = names_for(scheme)
    options: dict[str, Any] = {}
    for name, value in query:
        if name not in known or name in options:
            raise ValueError(
                "has an option that is unknown or given twice: with "
                f"{beginning(scheme)} use only {', '.join(known)}"
            )
        try:
            options[name] = _OPTIONS[name](value)
        except ValueError:
            raise ValueError(f"has an unusable value for its option {name}") from None
    return options


def beginning(scheme: str) -> str:
    """How a URL with this scheme begins."""
    return f"{scheme}:" if scheme == "embedded" else f"{scheme}://"


def _database(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError
    return int(value)


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "1", "false", "0"):
        raise ValueError
    return value.lower() in ("true", "1")


def _text(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _verification(value: str) -> str:
    if value not in ("none", "optional", "required"):
        raise ValueError
    return value


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "db": _database,
    "username": _text,
    "password": _text,
    "sentinel_username": _text,
    "sentinel_password": _text,
    "client_name": _text,
    "socket_timeout": _seconds,
    "socket_connect_timeout": _seconds,
    "ssl_cert_reqs": _verification,
    "ssl_check_hostname": _flag,
    "ssl_ca_certs": _text,
    "ssl_certfile": _text,
    "ssl_keyfile": _text,
}
