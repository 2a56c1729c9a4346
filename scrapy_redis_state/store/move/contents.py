"""What is in a crawl, read in pieces that keep no other caller waiting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.move.entries import (
    describe_delayed,
    describe_letter,
    describe_request,
    number_of,
    sequence_of,
)
from scrapy_redis_state.store.move.form import MOST_MEMBERS, json_of
from scrapy_redis_state.store.seen import EARLIER_EPOCHS, SeenSet

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.move.scripts import Look

T = TypeVar("T")
Line: TypeAlias = tuple[str, int, dict[str, Any]]
"""Kind, how much of it this is, and the fields."""

_IDS = 200
"""How many requests are read at a time; each may have megabytes."""
_SHARDS = 100
"""Of a packed seen set, read at a time."""
_RENEWAL = b"renewal:"


class Contents:
    """A crawl, to be read once from the beginning to the end.

    What is read first is what must not be newer than the rest: a page that is seen and
    not queued is never crawled; one that is queued and not seen is crawled twice.

    :param look: how the crawl stood
    :raises Refused: if its seen set is of a kind that this version does not know
    """

    def __init__(self, client: Redis, keys: CrawlKeys, look: Look) -> None:
        self._client: Any = client  # redis-py's types do not tell bytes from text
        self._keys = keys
        self._look = look
        self._epoch = look.number("epoch")
        try:
            self.seen_set = SeenSet.parse(look.text("agreed:seen") or "exact")
        except ValueError as error:
            raise Refused(f"Crawl {keys.crawl!r} cannot be exported: {error}") from None
        self.problems: list[str] = []
        """What could not be read, one line each."""

    def expected(self) -> dict[str, int]:
        """How much there is of each kind, about; only of those that there are."""
        sizes = {n: s for n, s in self._look.sizes.items() if n != "requests"}
        if self.seen_set.kind != "bloom":
            sizes["seen"] = self._look.number("seen_count")
        return {name: size for name, size in sizes.items() if size}

    def all(self, *, sessions: bool) -> Iterator[Line]:
        """Everything."""
        for age in range(1 + EARLIER_EPOCHS * self.seen_set.revisits):
            if self._epoch > age:
                yield from self._seen(age)
        yield from self._seeds()
        yield from self._sites()
        yield from self._revisits()
        yield from self._requests("pending", "frontier")
        yield from self._requests("in_flight", "inflight")
        yield from self._requests("suspect", "suspects")
        yield from self._requests("delayed", "delayed")
        yield from self._dead()
        if sessions:
            yield from self._sessions()

    # --- what was seen ---------------------------------------------------------------

    def _seen(self, age: int) -> Iterator[Line]:
        epoch = self._epoch - age
        if self.seen_set.kind == "packed":
            yield from self._shards(age, epoch)
        elif self.seen_set.kind == "bloom":
            yield from self._filter(age, self._keys.seen(epoch))
        else:
            key = self._keys.seen(epoch)
            yield from self._members("seen", key, {"age": age})

    def _shards(self, age: int, epoch: int) -> Iterator[Line]:
        for numbers in in_pieces(range(self.seen_set.shards), _SHARDS):
            with self._client.pipeline(transaction=False) as pipeline:
                for number in numbers:
                    pipeline.smembers(self._keys.shard(epoch, number))
                found = pipeline.execute()
            for number, members in zip(numbers, found, strict=True):
                for piece in in_pieces(members, MOST_MEMBERS):
                    fields = {"age": age, "shard": number, "members": texts(piece)}
                    yield "seen", len(piece), fields

    def _filter(self, age: int, key: str) -> Iterator[Line]:
        if self._client.type(key) == b"none":
            return
        iterator = 0
        while True:
            reply = self._client.execute_command("BF.SCANDUMP", key, iterator)
            iterator = int(reply[0])
            if not iterator:
                return
            fields = {"age": age, "iterator": iterator, "data": json_of(reply[1])}
            yield "bloom", 1, fields

    # --- sets and hashes without an order --------------------------------------------

    def _members(self, kind: str, key: str, more: dict[str, Any]) -> Iterator[Line]:
        # A scan may give a member twice, which does not matter to a set, but does to
        # who counts.
        left, cursor = int(self._client.scard(key)), 0
        while True:
            cursor, members = self._client.sscan(key, cursor, count=MOST_MEMBERS)
            for piece in in_pieces(members, MOST_MEMBERS):
                count = min(left, len(piece))
                left -= count
                yield kind, count, {**more, "members": texts(piece)}
            if not int(cursor):
                return

    def _seeds(self) -> Iterator[Line]:
        yield from self._members("seeds", self._keys.named("seeds"), {})

    def _sites(self) -> Iterator[Line]:
        key, cursor = self._keys.named("sites"), 0
        left = int(self._client.hlen(key))
        while True:
            cursor, found = self._client.hscan(key, cursor, count=MOST_MEMBERS)
            for piece in in_pieces(found.items(), MOST_MEMBERS):
                pages = {
                    site.decode(errors="replace"): self._by_age(counts)
                    for site, counts in piece
                }
                count = min(left, len(pages))
                left -= count
                yield "sites", count, {"pages": pages}
            if not int(cursor):
                return

    def _by_age(self, counts: bytes) -> list[list[int]]:
        """Pages by the age of their epoch; -1: those with a time of their own."""
        return [
            [self._epoch - int(epoch) if int(epoch) else -1, int(count)]
            for epoch, count in re.findall(rb"(\d+):(\d+)", counts)
        ]

    # --- sorted sets -----------------------------------------------------------------

    def _revisits(self) -> Iterator[Line]:
        key = self._keys.named("revisits")
        # From the far end, since reapers take what is over from the near one.
        for piece in self._ranks(key, MOST_MEMBERS, self._look.sizes["revisits"]):
            until = [[json_of(one), number_of(score)] for one, score in piece]
            yield "revisits", len(piece), {"until": until}

    def _requests(self, kind: str, name: str) -> Iterator[Line]:
        describe = describe_delayed if kind == "delayed" else describe_request
        is_suspect = self._look.text("suspect")
        for id, score, entry in self._entries(name, "requests"):
            if kind == "in_flight":
                # Its score is a time of the crawl clock.
                fields = describe_request(id, *_by_priority(entry))
                yield ("suspect" if id == is_suspect else kind), 1, fields
            else:
                yield kind, 1, describe(id, score, entry)

    def _dead(self) -> Iterator[Line]:
        for id, score, info in self._entries("dead", "deadinfo"):
            yield "dead", 1, describe_letter(id, score, info)

    def _entries(self, name: str, values: str) -> Iterator[tuple[str, bytes, bytes]]:
        """Ids of a sorted set, best first, with their scores and what a hash has."""
        missing = 0
        for piece in self._ranks(self._keys.named(name), _IDS):
            ids = [id for id, _ in piece]
            found = self._client.hmget(self._keys.named(values), ids)
            for (id, score), value in zip(piece, found, strict=True):
                if value is None:
                    missing += 1
                else:
                    yield self._checked(id), score, value
        if missing:
            self.problems.append(f"{missing} in {name} had no entry and were left out")

    def _checked(self, id: bytes) -> str:
        text = id.decode(errors="replace")
        try:
            sequence_of(text)
        except ValueError as error:
            raise Refused(
                f"Crawl {self._keys.crawl!r} cannot be exported: it {error}."
            ) from None
        return text

    def _ranks(
        self, key: str, count: int, most: int | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Members and scores, the highest first."""
        first = 0
        while most is None or first < most:
            last = first + count - 1 if most is None else min(first + count, most) - 1
            words = ("ZREVRANGE", key, first, last, "WITHSCORES")
            flat = self._client.execute_command(*words)
            if not flat:
                return
            yield list(zip(flat[::2], flat[1::2], strict=True))
            first += count

    # --- sessions --------------------------------------------------------------------

    def _sessions(self) -> Iterator[Line]:
        match = SessionKey.pattern("*", self._keys.prefix)
        done = set()
        for name in self._client.scan_iter(match=match, count=MOST_MEMBERS):
            key = SessionKey.parse(name.decode(errors="replace"), self._keys.prefix)
            if key is None or name in done or str(key).encode() != name:
                continue
            done.add(name)
            fields = self._session(name)
            if fields:
                yield "session", 1, {"site": key.site, "name": key.name, **fields}

    def _session(self, name: bytes) -> dict[str, Any]:
        """Empty for what is no session, or none any more."""
        if self._client.type(name) != b"hash":
            return {}
        stored = self._client.hgetall(name)
        left = int(self._client.pttl(name))
        seconds, micros = self._client.time()
        # Who makes a session anew is a worker of the old place.
        fields = [
            [json_of(field), json_of(value)]
            for field, value in sorted(stored.items())
            if not field.startswith(_RENEWAL)
        ]
        if not fields:
            return {}
        expires_at = seconds * 1000 + micros // 1000 + left if left >= 0 else 0
        return {"expires_at": expires_at, "fields": fields}


def _by_priority(entry: bytes) -> tuple[bytes, bytes]:
    """The score that an entry would have in the frontier, and the entry."""
    priority = entry.partition(b";")[0]
    return (priority if priority.lstrip(b"-").isdigit() else b"0"), entry


def texts(members: Iterable[bytes]) -> list[Any]:
    """Members as they stand in a line."""
    return [json_of(member) for member in members]


def in_pieces(values: Iterable[T], count: int) -> Iterator[list[T]]:
    """Lists of at most so many."""
    remaining = iter(values)
    while piece := list(islice(remaining, count)):
        yield piece
