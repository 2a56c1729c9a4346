"""One typed function per Lua script about the renewal of sessions; see :mod:`.scripts`.

A *holder* is whoever renews: any text that nobody else has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scrapy_redis_state.store.call import Call, load_script, pack
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions.fields import Writing
from scrapy_redis_state.store.sessions.scripts import (
    caller_time,
    read_content,
    read_saved,
)
from scrapy_redis_state.store.sessions.session import Changes, Claimed, Saved


def claim(
    key: SessionKey,
    holder: str,
    epoch: str,
    *,
    ttl: int,
    lease_ms: int,
    most_failures: int,
    back_off_ms: int,
    page: str = "",
) -> Call[Claimed]:
    """Begin to renew the session of *epoch* (empty: there was none), if nobody has.

    :param lease_ms: how long the holder may be silent before it is replaced
    :param most_failures: after so many a session is given up
    :param back_off_ms: how long all wait after a first failure; doubled by each more
    :param page: what the page is called that was judged to be no good, if one was
    """

    def read(reply: Sequence[Any]) -> Claimed:
        status, ms = reply[0].decode(), reply[3]
        session = read_content(key, reply)
        return Claimed("failed" if session.unreadable else status, session, ms)

    args: list[bytes | str | int] = [ttl, holder, epoch, lease_ms, most_failures]
    args += [back_off_ms, page, caller_time()]
    return Call(load_script("session_claim"), [str(key)], args, read)


def hold(key: SessionKey, holder: str, *, ttl: int, lease_ms: int) -> Call[bool]:
    """Go on with a renewal; False: it is not this holder's any more."""
    return Call(
        load_script("session_hold"),
        [str(key)],
        [ttl, holder, lease_ms],
        lambda reply: bool(reply[0] == b"ok"),
    )


def renewed(
    key: SessionKey, holder: str, content: Changes | None, *, ttl: int
) -> Call[Saved]:
    """End a renewal.

    :param content: the new session; None: what is there by now
    """
    writing = Writing(content or Changes())
    packed = b"" if content is None else pack(writing.fields)

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, writing, reply)

    args: list[bytes | str | int] = [ttl, holder, packed, caller_time()]
    return Call(load_script("session_renewed"), [str(key)], args, read)


def renewal_failed(
    key: SessionKey,
    holder: str,
    *,
    ttl: int,
    most_failures: int,
    back_off_ms: int,
    counts: bool,
) -> Call[Saved]:
    """Give a renewal up, for others to make.

    :param back_off_ms: how long they wait after a first failure; doubled by each more
    :param counts: False: it did not fail, its holder has to stop
    """

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, Writing(Changes()), [*reply, []])

    args: list[bytes | str | int] = [ttl, holder, most_failures, back_off_ms]
    args.append(int(counts))
    return Call(load_script("session_renewal_failed"), [str(key)], args, read)


def proved(key: SessionKey, epoch: str, *, ttl: int) -> Call[Saved]:
    """A page was good with the session that a renewal made."""

    def read(reply: Sequence[Any]) -> Saved:
        return read_saved(key, Writing(Changes()), [*reply, []])

    return Call(load_script("session_proved"), [str(key)], [ttl, epoch], read)
