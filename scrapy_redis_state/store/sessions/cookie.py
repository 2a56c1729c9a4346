"""A cookie as it is stored: plain JSON, readable from any language.

Reading is forgiving, since other programs write here too: what cannot be used raises
:exc:`NotACookie`, which callers report, and never ends a crawl. No cookie value is ever
in a ``repr`` or an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_COOKIE_BYTES = 65_536
"""A longer cookie, as JSON, is not stored."""

UNSENDABLE = re.compile(r"[\r\n\0]")
"""What would end a header, and begin another."""

LAST_SECOND = 253_402_300_799
"""The end of the year 9999. A site may write a larger number than others can read:
Playwright takes no later time. As milliseconds it was in 1978, so that a larger number
in a file is one of milliseconds."""


class NotACookie(ValueError):
    """What is wrong with it, without its value."""


class CookieKey(NamedTuple):
    """What tells cookies of a session apart; browsers do the same."""

    domain: str
    path: str
    name: str
    partition: str = ""
    """Text of the partition key; empty for nearly all cookies."""

    @property
    def field(self) -> str:
        """The field of the hash: ``cookie:`` and a JSON array."""
        parts = self if self.partition else self[:3]
        return "cookie:" + json.dumps(parts, separators=(",", ":"))

    @classmethod
    def from_field(cls, name: str) -> CookieKey:
        """Read a field's name.

        :raises NotACookie: if it is no such field
        """
        parts = read_json(name.removeprefix("cookie:"))
        if not isinstance(parts, list) or not all(isinstance(p, str) for p in parts):
            raise NotACookie("its field is not cookie:[domain, path, name]")
        if len(parts) not in (3, 4):
            raise NotACookie("its field is not cookie:[domain, path, name]")
        return cls(*parts)


@dataclass(frozen=True, slots=True)
class Cookie:
    """One cookie; equal to another if all of it is, the value too."""

    name: str
    value: str | None = field(repr=False)
    """None for one that was set without ``=``, as :mod:`http.cookiejar` has it."""
    domain: str
    """With a dot in front if subdomains get it too, as browsers and
    :mod:`http.cookiejar` have it; a host without dots is itself (``localhost``)."""
    path: str = "/"
    expires: float | None = None
    """Unix time, seconds; None: a session cookie."""
    secure: bool = False
    http_only: bool = False
    same_site: str | None = None
    """``Strict``, ``Lax``, ``None``, or None where nothing is known."""
    order: int = field(default=0, compare=False)
    """Cookies go out in this order; the store numbers them as they come."""
    partition_key: Any = field(default=None, repr=False, hash=False)
    """JSON: the top-level site (a URL, or an object with ``topLevelSite``)."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Whatever else belongs to it, as JSON: kept, and not looked at by the store."""

    @property
    def key(self) -> CookieKey:
        """What it is told apart by."""
        partition = ""
        if self.partition_key is not None:
            partition = json.dumps(self.partition_key, sort_keys=True)
        return CookieKey(self.domain, self.path, self.name, partition)

    @property
    def host_only(self) -> bool:
        """No subdomain gets it."""
        return not self.domain.startswith(".")

    def is_expired(self, now: float) -> bool:
        """Whether it must not be sent at *now* (unix time)."""
        return self.expires is not None and self.expires <= now

    def to_json(self) -> str:
        """The text that is stored, without ``order``, which the store puts in.

        :raises NotACookie: if it could not be read again
        """
        known = {
            "name": self.name,
            "value": self.value,
            "domain": self.domain,
            "path": self.path,
            "expires": self.expires,
            "secure": self.secure,
            "httpOnly": self.http_only,
            "sameSite": self.same_site,
            "hostOnly": self.host_only,
            "partitionKey": self.partition_key,
        }
        optional = ("expires", "sameSite", "partitionKey")
        given = {k: v for k, v in known.items() if v is not None or k not in optional}
        extra = {k: v for k, v in self.extra.items() if k not in (*known, "order")}
        text = _dumps(given | extra)
        if len(text) > MAX_COOKIE_BYTES:
            raise NotACookie(f"is longer than {MAX_COOKIE_BYTES} bytes")
        cookie_from_json(text)
        return text


def cookie_from_json(text: str) -> Cookie:
    """Read what :meth:`Cookie.to_json` wrote.

    :raises NotACookie: for anything else
    """
    fields = read_json(text)
    if not isinstance(fields, dict):
        raise NotACookie("is not a JSON object")
    take = _Taker(fields)
    cookie = Cookie(
        name=take("name", str),
        value=take("value", str, None),
        domain=take("domain", str),
        path=take("path", str, "/"),
        expires=_number(take("expires", (int, float), None)),
        secure=take("secure", bool, False),
        http_only=take("httpOnly", bool, False),
        same_site=_same_site(take("sameSite", str, None)),
        order=int(_number(take("order", (int, float), 0)) or 0),
        partition_key=take("partitionKey", (str, dict), None),
        extra=take.rest("hostOnly"),
    )
    for part in (cookie.name, cookie.value or "", cookie.domain, cookie.path):
        if UNSENDABLE.search(part):
            raise NotACookie("contains a line end or a NUL")
    if not cookie.domain.strip("."):
        raise NotACookie("has no domain")
    return cookie


def read_json(text: str) -> Any:
    """The value of a JSON text.

    :raises NotACookie: if it is none
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NotACookie("is not JSON") from None


class _Taker:
    """Takes fields out of a JSON object, with a look at their types."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._left = dict(fields)

    def __call__(self, name: str, kind: type | tuple[type, ...], *default: Any) -> Any:
        value = self._left.pop(name, None)
        if value is None and default:
            return default[0]
        # In Python, true is a number.
        if not isinstance(value, kind) or (
            isinstance(value, bool) and kind is not bool
        ):
            raise NotACookie(f"has no usable {name}")
        return value

    def rest(self, *unwanted: str) -> dict[str, Any]:
        return {k: v for k, v in self._left.items() if k not in unwanted}


def _number(value: float | None) -> float | None:
    if value is not None and not is_finite(value):
        raise NotACookie("has a number that is none")
    return value


def is_finite(value: float) -> bool:
    """Whether it is a number that the server has as well."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _same_site(value: str | None) -> str | None:
    return value if value in ("Strict", "Lax", "None") else None


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise NotACookie("holds what JSON does not know") from None
