"""What is in the file of a crawl.

Lines of JSON, compressed with gzip or not. Each is an object with its ``kind``:

=============  =======================================================================
``header``     the first: ``format``, ``version``, ``package`` (version that wrote it),
               ``exported_at``, ``server``, ``crawl``, ``prefix``, ``settings`` that
               workers must agree on, ``expected`` (about how much follows, by kind)
``crawl``      the second: ``status``, ``epoch`` of the seen set, and ``fields`` of the
               crawl's hash
``seen``       ``members`` of the seen set; ``age``: 0 for its epoch, 1 for the one
               before, ...; ``shard`` of a packed set
``bloom``      a chunk of a Bloom filter, as its server dumps it: ``age``,
               ``iterator``, ``data``
``seeds``      start requests stored (``members``), until seeding is done
``sites``      ``pages``: site -> pairs of age and number of pages, where that is
               limited; age -1: those with a time of their own
``revisits``   ``until``: pairs of a fingerprint and the time until which it counts
``pending``    a request in the frontier, best first: ``id``, ``priority``,
               ``deliveries``, ``payload``
``in_flight``  one that a worker held; pending in the copy
``suspect``    one that may have killed workers
``delayed``    one that waits, ``not_before``; ``handed_back`` if some worker did
``dead``       one that was given up: ``given_up``, ``reason``, ``worker``
``session``    a session: ``site``, ``name``, ``expires_at`` (0:
               never), ``fields``: pairs of a name and a value
``end``        the last: ``counts`` by kind, ``changed`` (whether the crawl did while it
               was read), ``sequence`` (that ids were taken from up to then),
               ``sha256`` of all bytes before this line, uncompressed
=============  =======================================================================

Bytes are a text where they are one, else ``{"base64": "..."}``. Times are Unix times in
milliseconds. ``score``, ``entry`` and ``info`` are for what is not as it should be in
the crawl, and is kept as it is.

Request ids are kept, and with them the order among equal priorities; so is the sequence
they are taken from.

How it may grow: what an older version may ignore is a new field of a line. What it must
not ignore is a new kind of line, which it refuses by its name, or another ``version``,
which it refuses at once; both errors name the version that wrote the file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

FORMAT = "scrapy-redis-state crawl"
VERSION = 1

REQUEST_KINDS = ("pending", "in_flight", "suspect", "delayed", "dead")
KINDS = (*REQUEST_KINDS, "seen", "bloom", "seeds", "sites", "revisits", "session")
"""Of the lines between the second and the last."""

MOST_MEMBERS = 1000
"""In one line, of the kinds that have several."""

MOST_NUMBER = 2**63 - 1

LEFT_BEHIND = frozenset(
    (
        *("token", "status", "epoch", "clock", "last_time", "stamp", "pushed_at"),
        *("seed_worker", "seed_token", "suspect", "suspect_worker"),
        *("tidy", "tidy_from", "expires_at", "prioritized_at", "samples"),
    )
)
"""Fields of the crawl's hash that are about its workers, its clock or its server, or
that the copy has of its own. All others are moved."""

AGREED = "agreed:"
"""Before the names of settings in the crawl's hash."""

Record: TypeAlias = Mapping[str, Any]
Progress: TypeAlias = Callable[[int, int], None]
"""Told how much is done, and how much there is, about."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What was written to a file, or read from one."""

    crawl: str
    """Id of the crawl that was exported."""
    status: str
    counts: Mapping[str, int]
    """By kind; only those that there are."""
    notes: Sequence[str] = field(default=())
    """What a person should know, one line each."""


def package_version() -> str:
    """Of this package; ``unknown`` where it is not installed."""
    try:
        return version("scrapy-redis-state")
    except PackageNotFoundError:
        return "unknown"


def json_of(value: bytes) -> str | dict[str, str]:
    """Bytes as they stand in a line."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable():
            return text
    return {"base64": base64.b64encode(value).decode()}


def bytes_of(value: Any) -> bytes:
    """The opposite of :func:`json_of`.

    :raises ValueError: if it is no such thing
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ValueError("has bytes that are not base64") from None
    raise ValueError("has no text, and nothing in base64, where it needs one")


def whole(record: Record, name: str, least: int | None = None) -> int:
    """A whole number of a line.

    :raises ValueError: if it is none
    """
    value = record.get(name)
    if type(value) is not int:
        raise ValueError(f"has no whole number as {name}")
    if not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise ValueError(f"has a number that is too large as {name}")
    if least is not None and value < least:
        raise ValueError(f"has {value} as {name}, and {least} is the least")
    return value


def listed(record: Record, name: str) -> list[Any]:
    """Several values of a line, as many as one call takes.

    :raises ValueError: if there are none, or too many
    """
    value = record.get(name)
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MEMBERS:
        raise ValueError(f"has no list of 1 to {MOST_MEMBERS} as {name}")
    return value


def paired(record: Record, name: str) -> list[tuple[Any, Any]]:
    """Pairs of values of a line.

    :raises ValueError: if there are none, or something else
    """
    value = record.get(name)
    if not isinstance(value, list) or not value or not all(map(_is_pair, value)):
        raise ValueError(f"has no list of pairs as {name}")
    return [(first, second) for first, second in value]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2  # noqa: PLR2004 - a pair


def mapped(record: Record, name: str) -> dict[str, Any]:
    """An object of a line.

    :raises ValueError: if it is none
    """
    if isinstance(value := record.get(name), dict):
        return value
    raise ValueError(f"has no object as {name}")
