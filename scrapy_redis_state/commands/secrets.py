"""Requests without what is nobody's business."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scrapy_redis_state.commands.output import HIDDEN
from scrapy_redis_state.store.start_keys import MESSAGE_META
from scrapy_redis_state.store.url import masked

_HEADERS = frozenset(
    {b"authorization", b"cookie", b"proxy-authorization", b"x-api-key"}
)
_META = frozenset({"auth_header", "http_auth", "http_pass", "http_user"})


def without_secrets(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request without values of cookies and logins."""
    shown = dict(fields)
    if headers := shown.get("headers"):
        shown["headers"] = {
            name: HIDDEN if _lower(name) in _HEADERS else value
            for name, value in headers.items()
        }
    if cookies := shown.get("cookies"):
        shown["cookies"] = _hide_cookies(cookies)
    meta = shown.get("meta")
    if isinstance(meta, dict):
        shown["meta"] = {name: _hide_meta(name, value) for name, value in meta.items()}
        if not shown.get("complete", True) and _is_object(meta.get(MESSAGE_META)):
            shown["meta"][MESSAGE_META] = HIDDEN
    return shown


def _lower(name: Any) -> Any:
    return name.lower() if isinstance(name, bytes) else name


def _hide_cookies(cookies: Any) -> Any:
    if isinstance(cookies, dict):
        return dict.fromkeys(cookies, HIDDEN)
    if isinstance(cookies, list):
        return [
            one | {"value": HIDDEN} if isinstance(one, dict) else HIDDEN
            for one in cookies
        ]
    return HIDDEN


def _is_object(text: Any) -> bool:
    """Whether it is a message with fields, any of which may be a secret."""
    return isinstance(text, str) and text.lstrip().startswith("{")


def _hide_meta(name: Any, value: Any) -> Any:
    if name == "proxy" and isinstance(value, str):
        return masked(value)
    return HIDDEN if name in _META else value
