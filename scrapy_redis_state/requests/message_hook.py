"""The spider's own way from what was pushed to a request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy import Request

from scrapy_redis_state.codec.label import message_label
from scrapy_redis_state.codec.message import HOOK

if TYPE_CHECKING:
    from scrapy import Spider

MessageHook: TypeAlias = Callable[[dict[str, Any]], Request]
"""Makes the request of a message."""


class HookFailed(Exception):
    """The spider's ``redis_state_request`` raised; what, is its cause."""


class NothingWanted(Exception):
    """The spider's ``redis_state_request`` returned None."""


def message_hook(spider: Spider | type[Spider]) -> MessageHook | None:
    """What makes requests of messages, if *spider* does; for a class, whether it does.

    The request has the priority of the message, as it has its place in the frontier.

    :raises ValueError: for a method that cannot be called at the delivery of a message
    """
    own: Any = getattr(spider, HOOK, None)
    if own is None:
        return None
    kinds = (
        inspect.iscoroutinefunction,
        inspect.isasyncgenfunction,
        inspect.isgeneratorfunction,
    )
    if not callable(own) or any(is_kind(own) for is_kind in kinds):
        raise ValueError(
            f"{HOOK} of spider {spider.name!r} is no plain method: write"
            f" def {HOOK}(self, message), without async and yield; it returns a Request"
            " or None"
        )

    def make(message: dict[str, Any]) -> Request:
        # Before it is anybody else's to change.
        label = message_label(message)
        priority = message.get("priority") or 0
        try:
            request = _checked(own(message))
        except Exception as error:
            raise HookFailed(
                f"{HOOK}() raised {error!r} for the message {label}"
            ) from error
        if request is None:
            raise NothingWanted
        request.priority = priority
        return request

    return make


def _checked(request: Any) -> Request | None:
    if request is None or isinstance(request, Request):
        return request
    kind = type(request).__qualname__
    raise TypeError(f"{HOOK} returned a {kind}, not a Request or None")
