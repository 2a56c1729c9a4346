"""Requests of programs that are not Scrapy: how they are stored and recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scrapy_redis_state.codec import (
    NotDecodable,
    UnknownCode,
    describe_payload,
    encode_message,
)
from scrapy_redis_state.codec.label import without_login
from scrapy_redis_state.codec.message import (
    HOOK,
    NUMBERS,
    SHORT,
    UNREADABLE,
    encode_url,
    is_verbatim,
    request_fields,
    unknown_names,
)
from scrapy_redis_state.codec.payload import (
    BODY,
    DONT_FILTER,
    META,
    METHOD,
    URL,
    check_types,
)
from scrapy_redis_state.store.canonical import (
    DEFAULT_RULES,
    UrlRules,
    needs_no_quoting,
    request_fingerprint,
)
from scrapy_redis_state.store.messages import Store

RequestLike: TypeAlias = str | Mapping[str, Any]
"""A URL, or fields of a request by name: ``url``, ``method``, ``headers``, ``body``,
``cookies``, ``meta``, ``cb_kwargs``, ``callback`` and ``errback`` (names of methods of
the spider), ``priority``, ``dont_filter``, ``encoding``, ``flags``."""

MOST_PRIORITY = 2**53
"""Scores are doubles, in which larger numbers are not exact."""


def store_operation(
    request: RequestLike, priority: int | None = None, rules: UrlRules = DEFAULT_RULES
) -> Store:
    """The operation that stores *request*.

    :param priority: instead of the request's own
    :param rules: which URLs are the same page
    :raises ValueError: for a request that no worker could run
    """
    if type(request) is str and len(request) <= SHORT and needs_no_quoting(request):
        return _store_plain(request, priority, rules)
    given: Mapping[str, Any] = {"url": request} if isinstance(request, str) else request
    message = {name: value for name, value in given.items() if value is not None}
    if not message.keys() <= NUMBERS.keys():
        raise ValueError(
            f"A request has no field {unknown_names(message)[0]!r}: use"
            f" {', '.join(NUMBERS)}; or push it as a message (--messages), for a spider"
            f" with a method {HOOK}(message)."
        )
    fingerprint = _plain_fingerprint(message, rules)
    if fingerprint is None:
        fingerprint = _request_fingerprint(request_fields(message), rules)
    if "headers" in message:
        message["headers"] = dict(message["headers"])
    return _store(message, priority, fingerprint)


def message_operation(
    message: Mapping[str, Any],
    priority: int | None = None,
    rules: UrlRules = DEFAULT_RULES,
) -> Store:
    """The operation that stores a message, whatever its fields are.

    :param priority: instead of the message's own
    :param rules: which URLs are the same page
    :raises ValueError: for what cannot be stored
    """
    return _store(message, priority, message_fingerprint(message, rules))


def _store_plain(url: str, priority: int | None, rules: UrlRules) -> Store:
    """The same as for any other URL, in a third of the time: most are so."""
    used = 0
    if priority is not None:
        used = _checked_priority({"url": url, "priority": priority})
    page = rules.parsed(url) if "?" in url else url
    return Store(encode_url(url, priority), used, request_fingerprint(page))


def _store(
    message: Mapping[str, Any], priority: int | None, fingerprint: bytes
) -> Store:
    if priority is not None:
        message = {**message, "priority": priority}
    used = _checked_priority(message)
    return Store(encode_message(message), used, fingerprint)


def message_fingerprint(
    message: Mapping[str, Any], rules: UrlRules = DEFAULT_RULES
) -> bytes:
    """What makes a message the same one: URL, method and body, or all of it.

    All but its priority, where it has no URL of a request. Empty with ``dont_filter``:
    each such message is one of its own.

    :raises ValueError: for what cannot be stored
    """
    if message.get("dont_filter"):
        return b""
    plain = _plain_fingerprint(message, rules)
    if plain is not None:
        return plain
    named = {name: message[name] for name in _IDENTIFYING if name in message}
    try:
        fields = request_fields(named)
        check_types(fields)
    except UNREADABLE:
        whole = {name: value for name, value in message.items() if name != "priority"}
        packed = encode_message(_in_order(whole))
        return hashlib.sha1(packed, usedforsecurity=False).digest()
    return _request_fingerprint(fields, rules)


_IDENTIFYING = ("url", "method", "body", "encoding", "meta")

_NOT_PLAIN = frozenset({"method", "headers", "body", "encoding"})


def _plain_fingerprint(message: Mapping[str, Any], rules: UrlRules) -> bytes | None:
    """The fingerprint, where there is nothing but a plain URL to look at; else None."""
    url, meta = message.get("url"), message.get("meta")
    if type(url) is not str or type(meta) not in _META:
        return None
    if not (needs_no_quoting(url) and _NOT_PLAIN.isdisjoint(message)):
        return None
    if message.get("dont_filter"):
        return b""
    page = rules.parsed(url) if "?" in url and not is_verbatim(meta) else url
    return request_fingerprint(page)


_META = (dict, type(None))


def _request_fingerprint(fields: Mapping[int, Any], rules: UrlRules) -> bytes:
    if fields.get(DONT_FILTER):
        return b""
    url = fields[URL]
    if not is_verbatim(fields.get(META)):
        url = rules.canonical(url)
    return request_fingerprint(url, fields[METHOD], fields.get(BODY, b""))


def _in_order(value: Any) -> Any:
    """The same, with the fields of all its objects in one order."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=repr)}
    return [_in_order(one) for one in value] if isinstance(value, list) else value


def _checked_priority(message: Mapping[str, Any]) -> int:
    priority = message.get("priority")
    if priority is None:
        return 0
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_whole or abs(priority) > MOST_PRIORITY:
        raise ValueError(
            f"The priority of {_name(message)} is {priority!r:.60}: use a whole number"
            " between -2**53 and 2**53."
        )
    return int(priority)


def _name(message: Mapping[str, Any]) -> str:
    url = message.get("url")
    return without_login(url) if isinstance(url, str) else "a message"


@dataclass(frozen=True, slots=True)
class LeasedRequest:
    """A request that is this program's to do until its lease ends."""

    id: str
    batch: int
    priority: int
    deliveries: int
    """How many earlier deliveries did not end well."""
    payload: bytes = field(repr=False)
    worker: str = ""
    """As which worker the program got it; it has another identity after a silence."""

    @classmethod
    def from_entry(
        cls, id: str, batch: int, entry: bytes, worker: str
    ) -> LeasedRequest:
        """Read what is stored: ``<priority>;<deliveries>;<handed back by>;<payload>``.

        :raises ValueError: if it is not that
        """
        try:
            priority, deliveries, _, payload = entry.split(b";", 3)
            return cls(id, batch, int(priority), int(deliveries), payload, worker)
        except ValueError:
            raise ValueError(f"no readable head: {entry[:16]!r}") from None

    @property
    def fields(self) -> dict[str, Any]:
        """The request by name of field; what needs a spider is given as text.

        :raises ValueError: if the payload is damaged or from a newer version
        """
        return describe_payload(self.payload)

    @property
    def url(self) -> str:
        """The request's URL; empty if it cannot be read."""
        try:
            return str(self.fields["url"])
        except (NotDecodable, UnknownCode):
            return ""
