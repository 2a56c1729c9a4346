"""One typed function per Lua script of those who copy crawls; see :mod:`..scripts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy_redis_state.store.call import Call, as_text, load_script, pack
from scrapy_redis_state.store.keys import CrawlKeys, SessionKey

SIZES = (
    *("pending", "in_flight", "delayed", "suspect", "dead", "requests"),
    *("seeds", "sites", "revisits"),
)
"""What export_look.lua counts, in its order."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a crawl stands."""

    fields: Mapping[str, bytes]
    """Its hash; empty: there is no such crawl."""
    sizes: Mapping[str, int]
    workers: int
    """Live ones."""
    busy: bool
    """One of them may have work that is not stored yet."""
    now: int
    """Server time, ms."""

    def text(self, name: str) -> str:
        """One of the fields; empty if it is not there."""
        return self.fields.get(name, b"").decode(errors="replace")

    def number(self, name: str) -> int:
        """One of the fields; 0 if it is not there."""
        return int(self.fields.get(name, b"0"))


def look(keys: CrawlKeys, since: int = 0) -> Call[Look]:
    """How a crawl stands.

    :param since: revisits count that are over later than this (server time, ms); 0: now
    """

    def read(reply: Sequence[Any]) -> Look:
        flat, sizes, workers, busy, now = reply
        fields = dict(zip(map(as_text, flat[::2]), flat[1::2], strict=True))
        found = dict(zip(SIZES, sizes, strict=False))
        return Look(fields, found, workers, bool(busy), now)

    return Call(load_script("export_look"), keys.of_any_epoch, [since], read)


def begin(
    keys: CrawlKeys, epoch: int, token: str, fields: Mapping[str, bytes]
) -> Call[tuple[str, str]]:
    """Begin to fill a crawl; ok, exists or importing, and a key that is there."""

    def read(reply: Sequence[Any]) -> tuple[str, str]:
        return as_text(reply[0]), as_text(reply[1])

    flat = [one for pair in fields.items() for one in pair]
    script = load_script("import_begin")
    return Call(script, keys.for_script(epoch), [token, pack(flat)], read)


def write(
    keys: CrawlKeys,
    epoch: int,
    token: str,
    records: Iterable[list[Any]],
    seen_keys: Sequence[str] = (),
) -> Call[list[int]]:
    """Put a part of it there; how many of each record there were not, or nothing.

    :param seen_keys: whose numbers records name, from ``FIXED_KEYS + 1`` on
    """
    script = load_script("import_write")
    all_keys = [*keys.for_script(epoch), *seen_keys]
    return Call(script, all_keys, [token, pack(list(records))], list)


def end(
    keys: CrawlKeys,
    epoch: int,
    token: str,
    status: str,
    *,
    sequence: int,
    sizes: Sequence[int],
) -> Call[tuple[str, str]]:
    """Let workers use it; ok, gone or differs, and more, see the script.

    :param sequence: from which the last request id was taken
    :param sizes: frontier, delayed, suspects, dead letters
    """

    def read(reply: Sequence[Any]) -> tuple[str, str]:
        return as_text(reply[0]), as_text(reply[1])

    args: list[bytes | str | int] = [token, status, sequence, pack(list(sizes))]
    return Call(load_script("import_end"), keys.for_script(epoch), args, read)


def restore_session(
    key: SessionKey, fields: Sequence[bytes], expires_at: int
) -> Call[bool]:
    """Put a session back; whether it was.

    :param fields: name, value, ...
    :param expires_at: server time, ms; 0: never
    """
    args: list[bytes | str | int] = [pack(list(fields)), expires_at]
    return Call(load_script("session_restore"), [str(key)], args, bool)
