"""Lines of the file of a crawl as what is written to a server: all of it checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scrapy_redis_state.store.keys import CrawlKeys, SessionKey
from scrapy_redis_state.store.move.entries import (
    entry_of,
    letter_of,
    score_of,
    sequence_of,
)
from scrapy_redis_state.store.move.form import (
    MOST_MEMBERS,
    Record,
    bytes_of,
    listed,
    mapped,
    paired,
    whole,
)
from scrapy_redis_state.store.seen import EARLIER_EPOCHS

_PLACES = {
    "pending": "frontier",
    "in_flight": "frontier",
    "suspect": "suspects",
    "delayed": "delayed",
}


class Piece(NamedTuple):
    """What one line says."""

    kind: str
    amount: int
    """How much of its kind it is, as the last line of the file counts."""
    record: list[Any]
    """As import_write.lua reads it; of a session, what session_restore.lua reads."""
    key: str = ""
    """Of the seen set, where it is about that; the script wants its number."""
    session: SessionKey | None = None


class PieceReader:
    """Makes pieces of lines.

    :param keys: of the crawl that they are for, with its seen set
    :param epoch: of that seen set
    """

    def __init__(self, keys: CrawlKeys, epoch: int) -> None:
        self._keys = keys
        self._epoch = epoch
        self.sequence = 0
        """That the ids so far must have been taken from, at least."""

    def read(self, record: Record) -> Piece | None:
        """What a line says; None for a kind that is not known.

        :raises ValueError: saying what is wrong with it
        """
        kind = record.get("kind")
        take = self._takers.get(kind) if isinstance(kind, str) else None
        return None if take is None else take(self, record)

    def _request(self, record: Record) -> Piece:
        kind, id = record["kind"], self._id(record)
        score = score_of(record, "score", "priority")
        return Piece(kind, 1, [_PLACES[kind], id, score, entry_of(record)])

    def _delayed(self, record: Record) -> Piece:
        score = score_of(record, "not_before")
        fields = ["delayed", self._id(record), score, entry_of(record)]
        return Piece("delayed", 1, fields)

    def _dead(self, record: Record) -> Piece:
        score = score_of(record, "given_up")
        return Piece("dead", 1, ["dead", self._id(record), score, letter_of(record)])

    def _id(self, record: Record) -> str:
        id = str(record.get("id"))
        self.sequence = max(self.sequence, sequence_of(id))
        return id

    def _seen(self, record: Record) -> Piece:
        members = [bytes_of(member) for member in listed(record, "members")]
        key = self._key(record, self._keys.seen_set.kind == "packed")
        return Piece("seen", len(members), ["seen", key, members], key)

    def _bloom(self, record: Record) -> Piece:
        if self._keys.seen_set.kind != "bloom":
            raise ValueError("is of a Bloom filter, and the crawl has none")
        key = self._key(record, is_packed=False)
        iterator, data = whole(record, "iterator", 1), bytes_of(record.get("data"))
        return Piece("bloom", 1, ["bloom", key, iterator, data], key)

    def _key(self, record: Record, is_packed: bool) -> str:
        age = whole(record, "age", 0)
        if age > (EARLIER_EPOCHS if self._keys.seen_set.revisits else 0):
            raise ValueError(f"has {age} as age, which no seen set of the crawl has")
        epoch = self._epoch - age
        if not is_packed:
            return self._keys.seen(epoch)
        shard = whole(record, "shard", 0)
        if shard >= self._keys.seen_set.shards:
            raise ValueError(f"has {shard} as shard, and there are fewer")
        return self._keys.shard(epoch, shard)

    def _seeds(self, record: Record) -> Piece:
        members = [bytes_of(member) for member in listed(record, "members")]
        return Piece("seeds", len(members), ["seeds", members])

    def _sites(self, record: Record) -> Piece:
        pages = mapped(record, "pages")
        if not 0 < len(pages) <= MOST_MEMBERS:
            raise ValueError(f"has {len(pages)} sites, and not 1 to {MOST_MEMBERS}")
        flat = [one for site in pages for one in (site, self._counts(pages[site]))]
        return Piece("sites", len(pages), ["sites", flat])

    def _counts(self, by_age: object) -> str:
        """Pages of a site as they are kept, by epoch."""
        try:
            return ",".join(
                f"{self._epoch - int(age) if int(age) >= 0 else 0}:{int(count)}"
                for age, count in by_age  # type: ignore[attr-defined]
            )
        except (TypeError, ValueError):
            raise ValueError(f"has {by_age!r} as pages of a site") from None

    def _revisits(self, record: Record) -> Piece:
        if len(pairs := paired(record, "until")) > MOST_MEMBERS:
            raise ValueError(f"has more than {MOST_MEMBERS} pages")
        flat: list[Any] = []
        for fingerprint, until in pairs:
            flat += [score_of({"until": until}, "until"), bytes_of(fingerprint)]
        return Piece("revisits", len(flat) // 2, ["revisits", flat])

    def _session(self, record: Record) -> Piece:
        site, name = str(record.get("site")), str(record.get("name"))
        key = SessionKey(site, name, self._keys.prefix)
        if SessionKey.parse(str(key), self._keys.prefix) != key:
            raise ValueError("has a site and name that are none of a session")
        flat = [bytes_of(one) for pair in paired(record, "fields") for one in pair]
        fields = [flat, whole(record, "expires_at", 0)]
        return Piece("session", 1, fields, session=key)

    _takers: Mapping[str, Callable[[Any, Record], Piece]] = {
        **dict.fromkeys(("pending", "in_flight", "suspect"), _request),
        "delayed": _delayed,
        "dead": _dead,
        "seen": _seen,
        "bloom": _bloom,
        "seeds": _seeds,
        "sites": _sites,
        "revisits": _revisits,
        "session": _session,
    }
