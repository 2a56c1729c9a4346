"""A crawl of scrapy-redis, as it lies on its server. Nothing of it is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.translate import translated

if TYPE_CHECKING:
    from redis import Redis

PIECE = 500
"""How many entries are read at a time."""


class OldEntry(NamedTuple):
    """One entry of the queue."""

    number: int
    """Its place; 1 is the one that comes next, or in a list the oldest."""
    data: bytes
    priority: int | None
    """Of a sorted set; else only the request itself has one."""


class OldCrawl:
    """Its queue and its set of fingerprints.

    :raises Refused: if they are of types that scrapy-redis does not use
    """

    def __init__(self, client: Redis, queue_key: str, dupefilter_key: str) -> None:
        self._client: Any = client  # redis-py's types do not tell bytes from text
        self.queue_key = queue_key
        self.dupefilter_key = dupefilter_key
        self.queue_type = self._type(queue_key, "zset", "list")
        """``zset``, ``list``, or ``none``."""
        self.has_dupefilter = self._type(dupefilter_key, "set") == "set"

    def queue_size(self) -> int:
        """How many requests wait."""
        counts = {"zset": self._client.zcard, "list": self._client.llen}
        if self.queue_type == "none":
            return 0
        with translated():
            return int(counts[self.queue_type](self.queue_key))

    def entries(self) -> Iterator[OldEntry]:
        """The queue, in the order in which it is to be stored."""
        if self.queue_type == "zset":
            yield from self._sorted_entries()
        elif self.queue_type == "list":
            yield from self._listed_entries()

    def fingerprints(self) -> Iterator[list[bytes]]:
        """The set of fingerprints, some at a time; one may come twice.

        :raises Refused: if they are not those of scrapy-redis
        """
        cursor = 0
        while True:
            with translated():
                cursor, found = self._client.sscan(
                    self.dupefilter_key, cursor, count=PIECE
                )
            yield [self._fingerprint(one) for one in found]
            if cursor == 0:
                return

    def _sorted_entries(self) -> Iterator[OldEntry]:
        first = 0
        while True:
            with translated():
                found = self._client.zrange(
                    self.queue_key, first, first + PIECE - 1, withscores=True
                )
            for number, (data, score) in enumerate(found, first + 1):
                yield OldEntry(number, data, -round(score))
            if len(found) < PIECE:
                return
            first += PIECE

    def _listed_entries(self) -> Iterator[OldEntry]:
        # New ones are put in front, of a queue and of a stack.
        first = 1
        while True:
            with translated():
                found = self._client.lrange(
                    self.queue_key, -(first + PIECE - 1), -first
                )
            for number, data in enumerate(reversed(found), first):
                yield OldEntry(number, data, None)
            if len(found) < PIECE:
                return
            first += PIECE

    def _fingerprint(self, member: bytes) -> bytes:
        if not re.fullmatch(rb"[0-9a-f]{40}", member):
            raise Refused(
                f"{self.dupefilter_key!r} has {member[:60]!r}, which is no fingerprint"
                " of scrapy-redis: leave it out with --no-dupefilter."
            )
        return bytes.fromhex(member.decode())

    def _type(self, key: str, *expected: str) -> str:
        with translated():
            found = str(self._client.type(key).decode())
        if found not in ("none", *expected):
            raise Refused(
                f"{key!r} is a {found}, not a {' or '.join(expected)} of scrapy-redis:"
                " name the right key."
            )
        return found
