"""Messages of start keys become requests of the spider."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_redis_state.codec import Codec, payload
from scrapy_redis_state.codec.label import text_label
from scrapy_redis_state.requests.message_hook import NothingWanted, message_hook
from scrapy_redis_state.store.errors import one_line
from scrapy_redis_state.store.messages import StoreDead
from scrapy_redis_state.store.request_text import read_object, read_request
from scrapy_redis_state.store.requests import (
    MOST_PRIORITY,
    message_operation,
    store_operation,
)
from scrapy_redis_state.store.start_keys import MESSAGE_META

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.statscollectors import StatsCollector

    from scrapy_redis_state.requests.serialize import RequestSerializer
    from scrapy_redis_state.store.messages import Answer, Operation
    from scrapy_redis_state.store.start_keys import Message

logger = logging.getLogger(__name__)

_KEPT = 8192
"""Characters of a message in a dead letter."""
_STAT = "redis_state/start_keys"


class StartMessages:
    """Makes of each message what is stored in its place.

    A spider that has ``make_request_from_data``, as those of scrapy-redis do, is asked
    for its requests, and one with ``redis_state_request`` for its request. Else a
    message is a URL, or JSON with the fields of a request; its callback is a method of
    the spider. What no request can be made of becomes a dead letter.

    :param operation: makes the operation that stores a request; None if the request is
        dropped
    :param answered: told what became of a request
    :param changed: told that the worker may have something to take, or to end
    """

    def __init__(
        self,
        spider: Spider,
        serializer: RequestSerializer,
        stats: StatsCollector,
        *,
        operation: Callable[[Request], Operation | None],
        answered: Callable[[Request, Answer], None],
        changed: Callable[[], None],
    ) -> None:
        self._spider = spider
        self._serializer = serializer
        self._stats = stats
        self._hook = message_hook(spider)
        self._operation = operation
        self._answered = answered
        self.changed = changed

    def read(self, message: Message) -> Sequence[tuple[Operation, Request | str]]:
        """The operations of a message, each with the request that it stores.

        That of a dead letter with its reason.
        """
        try:
            return list(self._operations(message))
        except Exception as error:  # noqa: BLE001 - whatever a spider raises
            letter = _dead_letter(message, error)
            return [(letter, letter.reason)]

    def moved(self, message: Message) -> None:
        """Count a message that is not in its key any more."""
        self._stats.inc_value(f"{_STAT}/read")
        logger.debug(
            "Message %(label)s of start key %(key)s",
            {"label": text_label(_text(message)), "key": message.key},
        )

    def answered(self, tag: Request | str, answer: Answer) -> None:
        """Tell of a request, or count a message that none could be made of."""
        if isinstance(tag, Request):
            self._answered(tag, answer)
            return
        self._stats.inc_value(f"{_STAT}/bad")
        logger.error("Dead letter: %(reason)s", {"reason": tag})

    def _operations(self, message: Message) -> Iterator[tuple[Operation, Request]]:
        for request in self._requests(message):
            if message.score is not None and request.priority == 0:
                request.priority = _priority(message.score)
            operation = self._operation(request)
            if operation is not None:
                yield operation, request

    def _requests(self, message: Message) -> Iterator[Request]:
        make = getattr(self._spider, "make_request_from_data", None)
        if not callable(make):
            yield from self._described(message)
            return
        made = make(message.text)
        if made is None:
            return
        for request in made if isinstance(made, Iterable) else [made]:
            if not isinstance(request, Request):
                raise TypeError(
                    "make_request_from_data() made an object of type"
                    f" {type(request).__name__}, not a request"
                )
            yield request

    def _described(self, message: Message) -> Iterator[Request]:
        text = message.text.decode("utf-8-sig").strip()
        if self._hook is not None:
            stored = message_operation(_fields(text))
        else:
            is_json = text.startswith(("{", '"'))
            stored = store_operation(read_request(text) if is_json else text)
        # By way of what a push stores: its checks are those of a worker.
        try:
            yield self._serializer.decode(stored.payload)
        except NothingWanted:
            return


def _fields(text: str) -> dict[str, Any]:
    """A message for the spider's hook: an object as it is, or a URL."""
    if not text.startswith(("{", '"')):
        return {"url": text}
    found = read_object(text)
    return found if isinstance(found, dict) else {"url": found}


def _priority(score: float) -> int:
    return round(max(-MOST_PRIORITY, min(MOST_PRIORITY, score)))


def _text(message: Message) -> str:
    return message.text.decode(errors="replace")


def _dead_letter(message: Message, error: Exception) -> StoreDead:
    text = _text(message)
    reason = (
        f"message {text_label(text)} of start key {message.key!r}: {one_line(error)}"
    )
    fields = {
        payload.DESCRIBED: True,
        payload.URL: _url(text),
        payload.META: {MESSAGE_META: text[:_KEPT]},
    }
    return StoreDead(
        payload.encode_fields(Codec(), fields), reason, _priority(message.score or 0)
    )


def _url(text: str) -> str:
    """What is likely to be meant as the URL."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = text
    if isinstance(found, dict):
        found = found.get("url", "")
    return found[:_KEPT] if isinstance(found, str) else ""
