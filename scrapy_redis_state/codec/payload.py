"""The stored form of a request: two bytes, then a map of its fields.

The first byte is one that no text, no pickle and no MessagePack starts with. The second
is the version of the format, with the highest bit set if the map is compressed. Fields
have numbers and are left out when they have their default.
"""

from __future__ import annotations

import zlib
from typing import Any

from scrapy_redis_state.codec.errors import NotDecodable, NotEncodable, UnknownCode
from scrapy_redis_state.codec.values import Codec

VERSION = 1

MAX_BYTES = 16 * 2**20
"""Default limit of a request, before compression (and so of what a payload of a few
bytes may unfold to)."""

COMPRESS_BYTES = 1024
"""Requests from this size on are compressed, if that makes them smaller."""

_MAGIC = 0xC1
_COMPRESSED = 0x80

URL, CALLBACK, METHOD, HEADERS, BODY, COOKIES, META, ENCODING = range(8)
PRIORITY, DONT_FILTER, ERRBACK, FLAGS, CB_KWARGS = range(8, 13)
CLASS, ATTRIBUTES, STATE, DESCRIBED, SESSION, MESSAGE = range(13, 19)
"""Class of the request; its attributes beyond those of every request; what else its
instance holds; whether this only describes a request that could not be stored; which
state of its session its maker knew (epoch, version, and which of its headers come from
the session); instead of all others: what was pushed, as it was (see :mod:`.message`).
"""

NAMES = {
    URL: "url",
    CALLBACK: "callback",
    METHOD: "method",
    HEADERS: "headers",
    BODY: "body",
    COOKIES: "cookies",
    META: "meta",
    ENCODING: "encoding",
    PRIORITY: "priority",
    DONT_FILTER: "dont_filter",
    ERRBACK: "errback",
    FLAGS: "flags",
    CB_KWARGS: "cb_kwargs",
}
"""The fields of every request."""

_PATHS = {**NAMES, MESSAGE: "message"}

TYPES: dict[int, tuple[type, ...]] = {
    URL: (str,),
    CALLBACK: (str, bool),
    METHOD: (str,),
    HEADERS: (dict,),
    BODY: (bytes,),
    META: (dict,),
    ENCODING: (str,),
    PRIORITY: (int,),
    ERRBACK: (str, bool),
    CB_KWARGS: (dict,),
    ATTRIBUTES: (dict,),
    STATE: (dict,),
    SESSION: (list,),
    MESSAGE: (dict,),
}
"""Types of stored fields, where a request has no choice. A callback is the name of a
method of the spider, or False for none at all (Scrapy's ``NO_CALLBACK``). Headers are
lists of bytes by name, with names as Scrapy writes them: ``b"Content-Type"``."""


def defaults() -> dict[int, Any]:
    """Return what fields have that are left out (new objects at each call)."""
    return {
        CALLBACK: None,
        METHOD: "GET",
        HEADERS: {},
        BODY: b"",
        COOKIES: {},
        META: {},
        ENCODING: "utf-8",
        PRIORITY: 0,
        DONT_FILTER: False,
        ERRBACK: None,
        FLAGS: [],
        CB_KWARGS: {},
    }


def seal(packed: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the payload for packed fields.

    :raises NotEncodable: they are larger than ``max_bytes``.
    """
    if len(packed) > max_bytes:
        raise NotEncodable(
            f"takes {len(packed)} bytes, more than the {max_bytes} a request may have; "
            "keep large data out of meta, cb_kwargs and body, and store a reference"
        )
    if len(packed) >= COMPRESS_BYTES:
        # Level 1: higher ones take twice the time for some percent of the size.
        smaller = zlib.compress(packed, 1)
        if len(smaller) < len(packed):
            return bytes((_MAGIC, VERSION | _COMPRESSED)) + smaller
    return bytes((_MAGIC, VERSION)) + packed


def unseal(payload: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the packed fields of a payload.

    :raises NotDecodable: it is none, or unfolds to more than ``max_bytes``.
    :raises UnknownCode: its version is newer.
    """
    if len(payload) < 2 or payload[0] != _MAGIC:  # noqa: PLR2004
        raise NotDecodable(f"is in no known format: it starts with {payload[:16]!r}")
    version = payload[1] & ~_COMPRESSED
    if version > VERSION:
        raise UnknownCode(
            f"has version {version} of the format, this worker knows {VERSION}; "
            "upgrade scrapy-redis-state here"
        )
    if version < 1:
        raise NotDecodable(f"is damaged: version {version} of the format never was")
    packed = payload[2:]
    if payload[1] & _COMPRESSED:
        return _decompress(packed, max_bytes)
    if len(packed) > max_bytes:
        raise NotDecodable(f"has {len(packed)} bytes, more than {max_bytes}")
    return packed


def _decompress(data: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        packed = stream.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise NotDecodable(f"is damaged: {error}") from error
    if len(packed) > max_bytes:
        raise NotDecodable(f"unfolds to more than {max_bytes} bytes")
    if not stream.eof or stream.unused_data:
        raise NotDecodable("is damaged: its compressed data has the wrong length")
    return packed


def check(fields: Any) -> dict[int, Any]:
    """Return ``fields`` if they are those of a request, or of a message.

    :raises NotDecodable, UnknownCode: they are not; there are fields unknown here.
    """
    if type(fields) is not dict or any(type(number) is not int for number in fields):
        raise NotDecodable("is damaged: it is not a map of fields")
    if unknown := [number for number in fields if not URL <= number <= MESSAGE]:
        raise UnknownCode(f"has fields that this version does not know: {unknown}")
    if MESSAGE in fields:
        if len(fields) > 1:
            raise NotDecodable("is damaged: a message has no other fields")
    elif URL not in fields:
        raise NotDecodable("is damaged: it has no URL")
    if not fields.get(DESCRIBED):
        check_types(fields)
    return fields


def check_types(fields: dict[int, Any]) -> None:
    """:raises NotDecodable: for a field whose value is of no type that it may have."""
    for number, value in fields.items():
        if number in TYPES and type(value) not in TYPES[number]:
            name = repr(NAMES[number]) if number in NAMES else number
            raise NotDecodable(
                f"is damaged: field {name} is of type {type(value).__name__}"
            )


def encode_fields(
    codec: Codec, fields: dict[int, Any], max_bytes: int = MAX_BYTES
) -> bytes:
    """Return the payload of a request with these fields, those with defaults left out.

    :raises NotEncodable: with the path to what cannot be written.
    """
    wired = {}
    for number, value in fields.items():
        try:
            wired[number] = codec.wire(value)
        except NotEncodable as error:
            error.path = _PATHS.get(number, "attributes") + error.path
            raise
    return seal(codec.pack(wired), max_bytes)


SCRAPY_CLASSES = {1: "FormRequest", 2: "JsonRequest", 3: "XmlRpcRequest"}
"""Numbers of Scrapy's own subclasses of Request; others go by their name."""
