"""Texts that are requests, as JSON."""

from __future__ import annotations

import json
from typing import Any

from scrapy_redis_state.store.requests import RequestLike

_TYPES: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "headers": (dict,),
    "body": (str,),
    "cookies": (dict, list),
    "meta": (dict,),
    "cb_kwargs": (dict,),
    "callback": (str,),
    "errback": (str,),
    "dont_filter": (bool,),
    "encoding": (str,),
    "flags": (list,),
}
"""What fields are in JSON; null is as if they were not there."""


def read_object(text: str) -> str | dict[str, Any]:
    """A URL, or an object with whatever fields, as JSON.

    :raises ValueError: if it is neither
    """
    try:
        given = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(given, (str, dict)):
        raise ValueError("is neither a URL nor an object")  # noqa: TRY004 - of a value
    return given


def read_request(text: str) -> RequestLike:
    """A request that is JSON: a URL, or an object with its fields.

    :raises ValueError: if it is none
    """
    request = read_object(text)
    if isinstance(request, str):
        return request
    fields = {name: value for name, value in request.items() if value is not None}
    for name, value in fields.items():
        types = _TYPES.get(name)
        if types and not isinstance(value, types):
            kinds = " or ".join(_JSON_NAMES[one] for one in types)
            raise ValueError(f"{name} is not {kinds}")
    return fields


_JSON_NAMES: dict[Any, str] = {
    str: "a text",
    dict: "an object",
    list: "a list",
    bool: "true or false",
}
