"""Messages: what other programs push, stored as they pushed it.

A spider with a method ``redis_state_request(message)`` makes requests of them by
itself; for all others a message has to be a request, by name of field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from w3lib.url import safe_url_string

from scrapy_redis_state.codec.errors import NotDecodable, NotEncodable, UnknownCode
from scrapy_redis_state.codec.label import SHOWN
from scrapy_redis_state.codec.payload import (
    BODY,
    COMPRESS_BYTES,
    ENCODING,
    HEADERS,
    MAX_BYTES,
    MESSAGE,
    META,
    METHOD,
    NAMES,
    URL,
    check_types,
    encode_fields,
)
from scrapy_redis_state.codec.values import Codec

NUMBERS = {name: number for number, name in NAMES.items()}
"""Those of the fields that a request may have, by name."""

HOOK = "redis_state_request"
"""The method of a spider that makes requests of messages."""

UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""What :func:`request_fields` may raise."""


_codec = Codec()


def encode_message(message: Mapping[str, Any], max_bytes: int = MAX_BYTES) -> bytes:
    """Return the payload of a message.

    :raises NotEncodable: with the path to what cannot be written
    """
    for name in message:
        if not isinstance(name, str):
            raise NotEncodable(f"has a field {name!r}: names of fields are texts")
    return encode_fields(_codec, {MESSAGE: dict(message)}, max_bytes)


def encode_url(url: str, priority: int | None = None) -> bytes:
    """Return the payload of a message that is but a URL, of :data:`SHORT` characters.

    That of ``{"url": url}``, with the priority if there is one, in a fraction of the
    time.
    """
    head, tail = _around_url(priority)
    return head + _codec.pack(url) + tail


SHORT = COMPRESS_BYTES // 2
"""No URL of so many characters is in a payload that is compressed."""


@lru_cache(typed=True)
def _around_url(priority: int | None) -> tuple[bytes, bytes]:
    message = {"url": ""} if priority is None else {"url": "", "priority": priority}
    name = _codec.pack("url")
    head, tail = encode_message(message).split(name + _codec.pack(""))
    return head + name, tail


def is_verbatim(meta: object) -> bool:
    """Whether the URL is to be taken as it is, as newer Scrapy does."""
    return isinstance(meta, Mapping) and bool(meta.get("verbatim_url"))


def unknown_names(message: Mapping[str, Any]) -> list[str]:
    """The fields that no request has."""
    return sorted(set(message) - set(NUMBERS))


def request_fields(message: Mapping[str, Any]) -> dict[int, Any]:
    """Return the fields of the request that a message describes, by number.

    What is None counts as left out, and so do fields that no request has.

    :raises ValueError: it describes none (or one of :data:`UNREADABLE`)
    """
    given = {
        NUMBERS[name]: value
        for name, value in message.items()
        if name in NUMBERS and value is not None
    }
    url = given.get(URL)
    if not isinstance(url, str) or "://" not in url:
        raise ValueError(
            f"Not the URL of a request, which needs a scheme: {url!r:.{SHOWN}}."
        )
    encoding = given.get(ENCODING, "utf-8")
    if not is_verbatim(given.get(META)):
        given[URL] = safe_url_string(url, encoding)
    given[METHOD] = str(given.get(METHOD, "GET")).upper()
    if isinstance(given.get(BODY), str):
        given[BODY] = given[BODY].encode(encoding)
    if HEADERS in given:
        given[HEADERS] = _header_lists(given[HEADERS])
    return given


def decoded_fields(message: dict[str, Any]) -> dict[int, Any]:
    """The same, of a message that was stored and that nobody has a hook for.

    :raises UnknownCode: a spider with the hook could make a request of it
    :raises NotDecodable: nobody can
    """
    if unknown := unknown_names(message):
        raise UnknownCode(
            f"is a message with a field that no request has, {unknown[0]!r}, for a"
            f" spider with a method {HOOK}(message)"
        )
    try:
        fields = request_fields(message)
    except UNREADABLE as error:
        raise NotDecodable(f"is a message that is no request: {error}") from error
    check_types(fields)
    return fields


def _header_lists(headers: Mapping[Any, Any]) -> dict[bytes, list[bytes]]:
    def as_bytes(value: Any) -> bytes:
        return value if isinstance(value, bytes) else str(value).encode()

    return {
        as_bytes(name).title(): [
            as_bytes(value)
            for value in (values if isinstance(values, list | tuple) else [values])
        ]
        for name, values in headers.items()
    }
