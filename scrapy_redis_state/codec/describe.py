"""What a payload says, for readers that know no spider."""

from __future__ import annotations

from typing import Any

from scrapy_redis_state.codec.errors import NotDecodable, UnknownCode
from scrapy_redis_state.codec.kinds import (
    ITEM,
    PAGE_METHOD,
    SPIDER,
    SPIDER_METHOD,
    Kind,
)
from scrapy_redis_state.codec.message import NUMBERS, UNREADABLE, request_fields
from scrapy_redis_state.codec.payload import (
    ATTRIBUTES,
    CALLBACK,
    CLASS,
    DESCRIBED,
    ERRBACK,
    MAX_BYTES,
    MESSAGE,
    METHOD,
    NAMES,
    PRIORITY,
    SCRAPY_CLASSES,
    STATE,
    URL,
    check,
    unseal,
)
from scrapy_redis_state.codec.values import Codec


def describe_payload(payload: bytes, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return what a payload says, by name of field, without a spider.

    What was pushed is told as the request that it describes, with the fields that no
    request has; its ``class`` is "message" if it may be none without the spider's hook.

    ``class``, ``url``, ``method``, ``callback``, ``errback``, ``priority`` and
    ``complete`` are always there. ``complete`` is false when the request could not be
    stored and this is all that was kept of it. What needs a spider is given as text.

    :raises NotDecodable, UnknownCode: as for a worker.
    """
    try:
        fields = check(_readable.unpack(unseal(payload, max_bytes)))
    except (NotDecodable, UnknownCode) as error:
        raise type(error)(f"stored request {error}") from error
    if MESSAGE in fields:
        return _of_message(fields[MESSAGE])
    return _of_request(fields)


def _of_request(fields: dict[int, Any]) -> dict[str, Any]:
    values = {**_ALWAYS_SHOWN, **fields}
    for number in (CALLBACK, ERRBACK):
        values[number] = "NO_CALLBACK" if values[number] is False else values[number]
    return {
        **fields.get(ATTRIBUTES, {}),
        **fields.get(STATE, {}),
        **{name: values[number] for number, name in NAMES.items() if number in values},
        "class": _class_name(fields.get(CLASS)),
        "complete": not fields.get(DESCRIBED, False),
    }


_ALWAYS_SHOWN = {CALLBACK: None, METHOD: "GET", ERRBACK: None, PRIORITY: 0}


def _of_message(message: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in message.items() if name not in NUMBERS}
    try:
        shown = _of_request(request_fields(message))
    except UNREADABLE:
        shown = {**_of_request({URL: ""}), **message}
        shown["url"] = str(shown["url"] or "")
        return {**shown, "class": "message"}
    if not others:
        return shown
    return {**others, **shown, "class": "message"}


def _class_name(code: Any) -> str:
    if code is None:
        return "Request"
    return SCRAPY_CLASSES.get(code, "?") if type(code) is int else str(code)


def _text(form: str) -> Any:
    return lambda parts: form.format(*map(str, parts))


class _Nothing:
    """Type of kinds that are only read."""


_readable = Codec(
    (
        Kind(SPIDER_METHOD, _Nothing, tuple, _text("spider.{}")),
        Kind(SPIDER, _Nothing, tuple, _text("spider")),
        Kind(ITEM, _Nothing, tuple, _text("{} {}")),
        Kind(PAGE_METHOD, _Nothing, tuple, _text("PageMethod {} {} {}")),
    )
)
