"""What messages are called in logs and errors: nothing that may be a secret.

Their fields may hold cookies and headers. So a URL stands for the whole, or, where
there is none, the names of the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

SHOWN = 200
"""Characters at the most."""

_LOGIN = re.compile(r"(?<=://)[^/?#]*@")


def without_login(url: str) -> str:
    """A URL without user and password."""
    return _LOGIN.sub("", url)


def message_label(message: Mapping[str, Any]) -> str:
    """Its URL, or in parentheses the names of its fields."""
    url = message.get("url")
    if isinstance(url, str) and url:
        return _quoted(url)
    names = ", ".join(map(repr, message))
    return f"(fields {names:.{SHOWN}})" if names else "(no fields)"


def text_label(text: str) -> str:
    """The same of a message as it was written; else, how long it is."""
    try:
        message: Any = json.loads(text)
    except (ValueError, RecursionError):
        message = text.strip()
    if isinstance(message, Mapping):
        return message_label(message)
    if isinstance(message, str) and re.fullmatch(r"[a-zA-Z][\w+.-]*://\S+", message):
        return _quoted(message)
    return f"({len(text)} characters)"


def _quoted(url: str) -> str:
    return f"{without_login(url)!r:.{SHOWN}}"
