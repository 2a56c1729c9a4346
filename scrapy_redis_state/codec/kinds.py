"""The kinds of values that MessagePack lacks, and how each is taken apart and built.

The numbers are part of the format: never use one for something else.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from scrapy_redis_state.codec.errors import NotEncodable, UnknownCode


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of values; not its subclasses, which would not come back as such."""

    number: int
    type: type
    parts: Callable[[Any], Collection[Any]]
    """The parts of a value, each of a type that can be written itself."""
    build: Callable[[list[Any]], Any]
    """The value of these parts. They may be forged: raises ValueError or TypeError."""
    indexed: bool = False
    """Parts have a position that tells the user which one is meant."""


def _whole(value: Any) -> Any:
    return value


def _dict_build(parts: list[Any]) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _int_parts(value: int) -> tuple[bytes]:
    return (value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True),)


def _int_build(parts: list[Any]) -> int:
    return int.from_bytes(_single(parts, bytes), "big", signed=True)


def _datetime_parts(value: datetime) -> tuple[Any, ...]:
    moment = (value.year, value.month, value.day, value.hour, value.minute)
    return (*moment, value.second, value.microsecond, value.tzinfo, value.fold)


def _datetime_build(parts: list[Any]) -> datetime:
    year, month, day, hour, minute, second, micro, zone, fold = parts
    return datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _date_build(parts: list[Any]) -> date:
    year, month, day = parts
    return date(year, month, day)


def _time_parts(value: time) -> tuple[Any, ...]:
    moment = (value.hour, value.minute, value.second, value.microsecond)
    return (*moment, value.tzinfo, value.fold)


def _time_build(parts: list[Any]) -> time:
    hour, minute, second, micro, zone, fold = parts
    return time(hour, minute, second, micro, zone, fold=fold)


def _timezone_parts(value: timezone) -> tuple[Any, ...]:
    offset, name = value.utcoffset(None), value.tzname(None)
    return (offset,) if timezone(offset).tzname(None) == name else (offset, name)


_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,3}")


def _zone_parts(value: zoneinfo.ZoneInfo) -> tuple[str]:
    if not _ZONE_KEY.fullmatch(value.key or ""):  # no key: made from a file
        raise NotEncodable(f"is a time zone without a common name ({value!r}); use UTC")
    return (value.key,)


def _zone_build(parts: list[Any]) -> zoneinfo.ZoneInfo:
    key = _single(parts, str)
    # Keys become paths of files, and modules of the package tzdata.
    if not _ZONE_KEY.fullmatch(key):
        raise ValueError(f"not a time zone: {key!r}")
    try:
        return zoneinfo.ZoneInfo(key)
    except zoneinfo.ZoneInfoNotFoundError as error:
        raise UnknownCode(
            f"names time zone {key!r}, unknown on this machine"
        ) from error


def _single(parts: list[Any], cls: type) -> Any:
    """Return the only part. ``bytearray(10**12)`` is why its type is looked at."""
    (part,) = parts
    if type(part) is not cls:
        raise TypeError(f"{cls.__name__} expected, not {type(part).__name__}")
    return part


LIST = Kind(0, list, _whole, _whole, indexed=True)
DICT = Kind(1, dict, lambda v: [*chain.from_iterable(v.items())], _dict_build)
"""A dict with keys that are not plain; others are maps."""
LARGE_INT = Kind(5, int, _int_parts, _int_build)
"""An integer of more than 64 bits; others are integers of MessagePack."""

STANDARD = (
    LIST,
    DICT,
    Kind(2, tuple, _whole, tuple, indexed=True),
    Kind(3, set, _whole, set),
    Kind(4, frozenset, _whole, frozenset),
    LARGE_INT,
    Kind(6, bytearray, lambda v: (bytes(v),), lambda p: bytearray(_single(p, bytes))),
    Kind(7, datetime, _datetime_parts, _datetime_build),
    Kind(8, date, lambda v: (v.year, v.month, v.day), _date_build),
    Kind(9, time, _time_parts, _time_build),
    Kind(
        10,
        timedelta,
        lambda v: (v.days, v.seconds, v.microseconds),
        lambda p: timedelta(*p),
    ),
    Kind(11, timezone, _timezone_parts, lambda p: timezone(*p)),
    Kind(12, zoneinfo.ZoneInfo, _zone_parts, _zone_build),
    Kind(13, Decimal, lambda v: (str(v),), lambda p: Decimal(_single(p, str))),
    Kind(14, UUID, lambda v: (v.bytes,), lambda p: UUID(bytes=_single(p, bytes))),
    Kind(15, complex, lambda v: (v.real, v.imag), lambda p: complex(*p)),
)

SPIDER_METHOD, SPIDER, ITEM, PAGE_METHOD = 16, 17, 18, 19
"""Numbers of the kinds that need a spider."""
