"""What sessions are called in their keys.

A session may be named by whatever can be the key of a dict, as Scrapy's cookie jars
are. Values that are equal in Python get one name, and others get other names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from scrapy_redis_state.codec.errors import NotEncodable

LONGEST_TEXT = 80
"""Characters; a longer text of a value is replaced by a digest of it."""

_LARGEST_EXPONENT = 1000
_PLAIN = re.compile(r"[^\ud800-\udfff]+")


class SessionName(str):
    """A name as it is in a key, which stands for itself."""

    __slots__ = ()


def session_name(value: Any) -> SessionName:
    """The name of a session: empty for None, the default session.

    A text is its own name. Other values (numbers, bytes, tuples, dates, ...) begin with
    ``~``; so does a text that begins with it, doubled.

    :raises NotEncodable: for a value that has no text, or is not equal to itself
    """
    if value is None:
        return SessionName()
    if isinstance(value, SessionName):
        return value
    if type(value) is str and _PLAIN.fullmatch(value):
        return SessionName(f"~{value}" if value.startswith("~") else value)
    text = _text(value)
    if len(text) > LONGEST_TEXT:
        text = "#" + hashlib.sha256(text.encode()).hexdigest()
    return SessionName(f"~{text}")


def session_value(name: str) -> str | None:
    """What names the session of a key; :func:`session_name` gives the same again."""
    if not name:
        return None
    if name.startswith("~~"):
        return name[1:]
    return SessionName(name) if name.startswith("~") else name


def _text(value: Any) -> str:
    write = _WRITERS.get(type(value))
    if write is None:
        raise NotEncodable(
            f"is of type {type(value).__name__}, which cannot name a session that is"
            " shared: use a text, a number or a tuple of these"
        )
    return write(value)


def _number(value: Any) -> str:
    if isinstance(value, complex):
        if value.imag:
            return f"complex({_number(value.real)},{_number(value.imag)})"
        value = value.real
    if value.is_nan() if isinstance(value, Decimal) else value != value:  # noqa: PLR0124
        raise NotEncodable("is not equal to itself and so cannot name a session")
    if not value:
        return "0"
    if isinstance(value, Decimal) and abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise NotEncodable("is too large or too small a number to name a session")
    if isinstance(value, int) and abs(value) >= 10**_LARGEST_EXPONENT:
        raise NotEncodable("is too large or too small a number to name a session")
    if value in (float("inf"), float("-inf")):
        return str(float(value))
    return str(Fraction(value))


def _time(value: time) -> str:
    since_midnight = timedelta(
        hours=value.hour,
        minutes=value.minute,
        seconds=value.second,
        microseconds=value.microsecond,
    )
    offset = value.utcoffset()
    if offset is None:
        return f"time({_delta(since_midnight)})"
    return f"time({_delta(since_midnight - offset)}Z)"


def _delta(value: timedelta) -> str:
    return f"{value.days}d{value.seconds}s{value.microseconds}"


def _datetime(value: datetime) -> str:
    offset = value.utcoffset()
    naive = value.replace(tzinfo=None, fold=0)
    if offset is None:
        return f"datetime({naive.isoformat()})"
    # Not astimezone(), which fails near the first and the last year.
    return f"datetime({_delta(naive - datetime.min - offset)}Z)"  # noqa: DTZ901


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({','.join(map(_text, value))})"


def _frozenset(value: frozenset[Any]) -> str:
    return f"{{{','.join(sorted(map(_text, value)))}}}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((bool, int, float, complex, Decimal), _number),
    type(None): str,
    str: json.dumps,
    bytes: lambda value: f"b{value.hex()}",
    tuple: _tuple,
    frozenset: _frozenset,
    datetime: _datetime,
    date: lambda value: f"date({value.isoformat()})",
    time: _time,
    timedelta: lambda value: f"timedelta({_delta(value)})",
    timezone: lambda value: f"timezone({_delta(value.utcoffset(None))})",
    ZoneInfo: lambda value: f"zone({json.dumps(value.key)})",
    UUID: lambda value: f"uuid({value.hex})",
}
