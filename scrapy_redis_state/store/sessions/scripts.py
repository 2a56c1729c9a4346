"""One typed function per Lua script about sessions; see :mod:`..scripts`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from scrapy_redis_state.store.call import Call, load_script, pack, pairs
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions.cookie import Cookie
from scrapy_redis_state.store.sessions.fields import (
    Writing,
    read_renewal,
    read_session,
    shown,
    unreadable,
)
from scrapy_redis_state.store.sessions.names import session_value
from scrapy_redis_state.store.sessions.session import (
    Changes,
    Saved,
    Session,
    SessionInfo,
    Stamp,
)

_ANY = "any"
"""In the place of an epoch."""


def load(key: SessionKey, ttl: int, known: Stamp | None = None) -> Call[Session | None]:
    """The session, which counts as used; None: it is still as *known*.

    There is always an answer: where nothing is stored, a session without an epoch.

    :param ttl: seconds that it is kept when nobody uses it; 0: as its cookies say
    """
    known = known or Stamp()

    def read(reply: Sequence[Any]) -> Session | None:
        return None if reply[0] == b"unchanged" else read_content(key, reply)

    args: list[bytes | str | int] = [ttl, known.epoch, known.version, caller_time()]
    return Call(load_script("session_load"), [str(key)], args, read)


def save(key: SessionKey, changes: Changes, epoch: str | None, ttl: int) -> Call[Saved]:
    """Write changes, if the session is still the one of *epoch*.

    :param epoch: of the session that the changes are based on; empty: there was none;
        None: whatever there is
    """
    writing = Writing(changes)
    packed = pack(
        {
            "set": writing.fields,
            "delete": writing.deleted,
            "names": list(changes.deleted_names),
        }
    )

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, writing, reply)

    known = _ANY if epoch is None else epoch
    args: list[bytes | str | int] = [ttl, known, packed, caller_time()]
    return Call(load_script("session_save"), [str(key)], args, read)


def confirm(
    key: SessionKey, cookies: Sequence[tuple[Cookie, int]], epoch: str, ttl: int
) -> Call[Saved]:
    """Set cookies again that were there when a response set them, and are not now.

    Whoever changed one of them after that response is right.

    :param cookies: each with the age of the response (ms)
    :param epoch: as for :func:`save`
    """
    writing = Writing(Changes(tuple(cookie for cookie, _ in cookies)))
    ages = {cookie.key.field: age for cookie, age in cookies}

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, writing, reply)

    packed = pack({"set": writing.fields, "ages": ages})
    args: list[bytes | str | int] = [ttl, epoch, packed, caller_time()]
    return Call(load_script("session_confirm"), [str(key)], args, read)


def replace(key: SessionKey, content: Changes, ttl: int) -> Call[Saved]:
    """Put *content* in the place of all there is."""
    writing = Writing(content)

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, writing, reply)

    args: list[bytes | str | int] = [ttl, pack(writing.fields), caller_time()]
    return Call(load_script("session_replace"), [str(key)], args, read)


def invalidate(key: SessionKey, ttl: int) -> Call[Saved]:
    """Forget all there is, and let nobody bring it back who still has it."""
    return replace(key, Changes(), ttl)


def describe(key: SessionKey) -> Call[SessionInfo | None]:
    """A look that does not count as a use; None: there is no such session."""

    def read(reply: Sequence[Any]) -> SessionInfo | None:
        status, cookies, updated_at, ms, flat = reply
        if status != b"ok":
            return None
        try:
            updated = float(updated_at)
        except ValueError:
            updated = 0.0
        return SessionInfo(
            key.site,
            session_value(key.name),
            cookies,
            updated,
            None if ms < 0 else ms / 1000,
            *read_renewal(dict(pairs(flat))),
        )

    return Call(load_script("session_describe"), [str(key)], [], read)


def caller_time() -> str:
    """By which a script sees what has expired."""
    return repr(time.time())


def read_content(key: SessionKey, reply: Sequence[Any]) -> Session:
    """The session in a reply that begins with status, fields and reasons."""
    status, flat, reasons = reply[:3]
    if status == b"foreign":
        return unreadable(key, reasons[0].decode(errors="replace"))
    return read_session(key, dict(zip(flat[::2], flat[1::2], strict=True)))


def read_saved(key: SessionKey, writing: Writing, reply: Sequence[Any]) -> Saved:
    """What became of what was written."""
    session = read_content(key, reply)
    refused = list(writing.refused)
    if reply[0] == b"foreign":
        refused += session.skipped
    elif reply[0] == b"ok":
        refused += [f"{shown(field)}: the session is full" for field in reply[2]]
    return Saved(reply[0] == b"stale", session, tuple(refused))
