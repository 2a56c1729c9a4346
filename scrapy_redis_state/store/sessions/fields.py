"""Sessions as fields of a hash, and back.

What is there is not only ours: a field that cannot be read is left out and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions.cookie import (
    UNSENDABLE,
    Cookie,
    CookieKey,
    NotACookie,
    cookie_from_json,
    read_json,
)
from scrapy_redis_state.store.sessions.session import (
    Changes,
    Identity,
    Renewal,
    Session,
)

_OWN = ("schema", "epoch", "grown", "version", "updated_at", "recent")
_SHOWN_CHARACTERS = 100


class Writing:
    """Changes as what a script takes."""

    def __init__(self, changes: Changes) -> None:
        self.fields: list[str] = []
        """To set: name, value, ..."""
        self.deleted = [key.field for key in changes.deleted]
        self.refused: list[str] = []
        """What cannot be stored, one line each."""
        self._bind("user_agent", changes.user_agent)
        self._bind("proxy", changes.proxy)
        headers = changes.headers
        self._bind("headers", (headers and json.dumps(dict(headers))) or headers)
        for name, value in changes.tokens.items():
            self._put(f"token:{name}", value)
        for cookie in changes.cookies:
            self._put_cookie(cookie)

    def _bind(self, field: str, value: str | Mapping[str, str] | None) -> None:
        if value is not None:
            self._put(field, value if isinstance(value, str) and value else None)

    def _put(self, field: str, value: str | None) -> None:
        if value is None:
            self.deleted.append(field)
        else:
            self.fields += [field, value]

    def _put_cookie(self, cookie: Cookie) -> None:
        field = cookie.key.field
        try:
            self._put(field, cookie.to_json())
        except NotACookie as error:
            self.refused.append(f"{shown(field)}: {error}")


def unreadable(key: SessionKey, reason: str) -> Session:
    """The session as nothing of it can be used."""
    return Session(key.site, key.name, skipped=(reason,), unreadable=reason)


def read_session(key: SessionKey, stored: Mapping[bytes, bytes]) -> Session:
    """The session in a hash; what is no part of one is reported."""
    reader = _Reader()
    for raw_field, raw_value in sorted(stored.items()):
        reader.read(raw_field, raw_value)
    in_order = sorted(reader.cookies, key=lambda cookie: cookie.order)
    found = reader.found
    return Session(
        key.site,
        key.name,
        version=_whole(found.get("version", "")),
        epoch=found.get("epoch", ""),
        cookies={cookie.key: cookie for cookie in in_order},
        identity=Identity(
            found.get("user_agent") or None, found.get("proxy") or None, reader.headers
        ),
        tokens=reader.tokens,
        updated_at=_seconds(found.get("updated_at", "")),
        skipped=tuple(reader.skipped),
        renewal=_renewal(reader.renewal),
        grown="grown" in found,
        unproven="unproven" in reader.renewal,
    )


def read_renewal(stored: Mapping[bytes, bytes]) -> tuple[Renewal | None, bool]:
    """The renewal of a session, and whether the last one is unproven.

    :param stored: the fields about it alone
    """
    reader = _Reader()
    for raw_field, raw_value in stored.items():
        reader.read(raw_field, raw_value)
    return _renewal(reader.renewal), "unproven" in reader.renewal


def shown(field: str | bytes) -> str:
    """A field's name for people; it may be anything."""
    text = field.decode(errors="replace") if isinstance(field, bytes) else field
    return repr(text[:_SHOWN_CHARACTERS])[1:-1]


class _Reader:
    """Takes in one field after the other."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.cookies: list[Cookie] = []
        self.tokens: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        self.renewal: dict[str, str] = {}
        self.skipped: list[str] = []

    def read(self, raw_field: bytes, raw_value: bytes) -> None:
        """Whatever it is; nothing is raised."""
        try:
            field, value = raw_field.decode(), raw_value.decode()
        except UnicodeDecodeError:
            self.skipped.append(f"{shown(raw_field)}: is not UTF-8")
            return
        head, colon, _ = field.partition(":")
        take = self._takers.get(head + colon)
        if take is None:
            self.skipped.append(f"{shown(field)}: is not known")
            return
        try:
            take(self, field, value)
        except NotACookie as error:
            self.skipped.append(f"{shown(field)}: {error}")

    def _take_own(self, field: str, value: str) -> None:
        self.found[field] = value

    def _take_identity(self, field: str, value: str) -> None:
        if UNSENDABLE.search(value):
            raise NotACookie("contains a line end or a NUL")
        self.found[field] = value

    def _take_headers(self, _: str, value: str) -> None:
        headers = read_json(value)
        if not isinstance(headers, dict):
            raise NotACookie("is not a JSON object")
        for name, text in headers.items():
            if not isinstance(text, str) or UNSENDABLE.search(name + text):
                self.skipped.append(f"headers: {shown(name)} has no usable value")
            else:
                self.headers[name] = text

    def _take_token(self, field: str, value: str) -> None:
        self.tokens[field.partition(":")[2]] = value

    def _take_renewal(self, field: str, value: str) -> None:
        self.renewal[field.partition(":")[2]] = value

    def _take_cookie(self, field: str, value: str) -> None:
        cookie = cookie_from_json(value)
        if CookieKey.from_field(field) != cookie.key:
            raise NotACookie("is another cookie than its field says")
        self.cookies.append(cookie)

    _takers: Mapping[str, Callable[[Any, str, str], None]] = {
        **dict.fromkeys(_OWN, _take_own),
        "user_agent": _take_identity,
        "proxy": _take_identity,
        "headers": _take_headers,
        "renewal:": _take_renewal,
        "token:": _take_token,
        "cookie:": _take_cookie,
    }


def _renewal(found: Mapping[str, str]) -> Renewal | None:
    # The scripts decide by the same fields.
    if not found.keys() & {"holder", "retry_at", "failed"}:
        return None
    return Renewal(
        found.get("holder", ""),
        _whole(found.get("failures", "")),
        "failed" in found,
        _whole(found.get("since", "")) / 1000,
        _whole(found.get("retry_at", "")) / 1000,
        found.get("failed", ""),
    )


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else 0


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d+)?", text, re.ASCII) else 0.0
