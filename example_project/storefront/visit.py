"""A request as the shop sees it, and the signatures by which it knows its own."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

_SECRET = b"the shop's own"
"""The same in each process: a shop that is started again knows its visitors."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request."""

    path: str
    """With the query string."""
    method: str = "GET"
    agent: str = ""
    """The ``User-Agent`` header."""
    cookies: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)
    """What was filled in; empty without a body."""


def signed(text: str, *context: str) -> str:
    """Return a text with a signature that holds in this context only."""
    return f"{text}.{_signature(text, *context)}"


def text_of(value: str, *context: str) -> str:
    """Return the text of what `signed` made; empty if it is not genuine."""
    text, _, _ = value.rpartition(".")
    is_genuine = hmac.compare_digest(value.encode(), signed(text, *context).encode())
    return text if is_genuine else ""


def _signature(*parts: str) -> str:
    message = "\n".join(parts).encode()
    return hmac.new(_SECRET, message, hashlib.sha256).hexdigest()[:32]
