"""Entries of an old queue become requests of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from scrapy_redis_state.codec import Codec
from scrapy_redis_state.codec.message import NUMBERS, request_fields
from scrapy_redis_state.codec.payload import (
    ATTRIBUTES,
    BODY,
    CLASS,
    METHOD,
    PRIORITY,
    SCRAPY_CLASSES,
    URL,
    check,
    encode_fields,
)
from scrapy_redis_state.store.canonical import UrlRules, request_fingerprint
from scrapy_redis_state.store.messages import Store
from scrapy_redis_state.store.migration.pickles import is_pickle, load_plain
from scrapy_redis_state.store.requests import MOST_PRIORITY

_CLASS_FIELD = "_class"
_SCRAPYS = "scrapy.http.request."
_CODES = {name: code for code, name in SCRAPY_CLASSES.items()}


class Entries:
    """Reads entries of a queue.

    :param unpickle: whether pickles are read (as far as they are plain data)
    :param has_method: whether the spider has a method; None: nobody knows
    :param rules: which URLs are the same page, for requests that are to be filtered;
        None: they were marked as seen when they were put into the queue
    """

    def __init__(
        self,
        *,
        unpickle: bool,
        has_method: Callable[[str], bool] | None,
        rules: UrlRules | None,
    ) -> None:
        self._unpickle = unpickle
        self._has_method = has_method
        self._rules = rules

    def read(self, data: bytes, priority: int | None) -> Store:
        """The operation that stores the request of an entry.

        :param priority: by which it is sorted; None: the request's own
        :raises ValueError: if it is none that a worker could run
        """
        described = self._parsed(data)
        if not isinstance(described, dict) or not isinstance(described.get("url"), str):
            raise ValueError("is no description of a request")  # noqa: TRY004
        try:
            fields = self._fields(described)
            payload = encode_fields(Codec(), fields)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        except (TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"is no description of a request: {error!r}") from None
        used = fields.get(PRIORITY, 0) if priority is None else priority
        if abs(used) > MOST_PRIORITY:
            raise ValueError(f"has the priority {used}, which is too much")
        return Store(payload, used, self._fingerprint(described, fields))

    def _parsed(self, data: bytes) -> Any:
        if is_pickle(data):
            if not self._unpickle:
                raise ValueError("is a pickle, which --unpickle reads")
            return load_plain(data)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError(
                f"is neither a pickle nor JSON: it begins with {data[:16]!r}"
            ) from None

    def _fields(self, described: Mapping[str, Any]) -> dict[int, Any]:
        named = {name: value for name, value in described.items() if name in NUMBERS}
        for role in ("callback", "errback"):
            self._check_method(role, named.get(role))
        fields = request_fields(named)
        own = {
            name: value
            for name, value in described.items()
            if name not in NUMBERS and name != _CLASS_FIELD
        }
        code = _class_code(described.get(_CLASS_FIELD))
        if code is not None:
            fields[CLASS] = code
        if own:
            if code is None:
                raise ValueError(f"has a field that no request has, {min(own)!r}")
            fields[ATTRIBUTES] = own
        return check(fields)

    def _check_method(self, role: str, name: object) -> None:
        if name is None:
            return
        if not isinstance(name, str):
            raise ValueError(f"has a {role} that is no name: {name!r:.60}")  # noqa: TRY004
        if self._has_method is not None and not self._has_method(name):
            raise ValueError(f"names a {role} that the spider lacks: {name!r}")

    def _fingerprint(
        self, described: Mapping[str, Any], fields: Mapping[int, Any]
    ) -> bytes:
        if self._rules is None or described.get("dont_filter"):
            return b""
        url = self._rules.canonical(fields[URL])
        return request_fingerprint(url, fields[METHOD], fields.get(BODY, b""))


def _class_code(path: object) -> int | str | None:
    """How a payload names a class; None: Request itself."""
    if path is None:
        return None
    if not isinstance(path, str):
        raise ValueError("has a class that is no name")  # noqa: TRY004
    module, _, name = path.rpartition(".")
    if path.startswith(_SCRAPYS) and name in _CODES:
        return _CODES[name]
    return f"{module}:{name}"
