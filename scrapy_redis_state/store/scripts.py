"""One typed function per Lua script that changes a crawl; each builds a call of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy_redis_state.store.call import Call, as_text, load_script, pack, pairs
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    FIRST_POSITION,
    Answer,
    CrawlStatus,
    Difference,
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Operation,
    Popped,
    Reaped,
    ReapReply,
    Seeding,
    Status,
    Summary,
)
from scrapy_redis_state.store.wire import pack_operations


def read_summary(reply: Sequence[Any]) -> Summary:
    """How the crawl stands, at the end of many replies."""
    if not reply:
        return Summary()
    best = reply[1]
    return Summary(
        pending=reply[0],
        best_priority=None if best is None else int(float(best)),
        in_flight=reply[2],
        delayed=reply[3],
        suspects=reply[4],
        dead=reply[5],
        done=reply[6],
        seeding=Seeding(as_text(reply[7])),
        seed_token=reply[8],
        workers=reply[9],
        status=CrawlStatus(as_text(reply[10])),
        epoch=reply[11],
        drained=bool(reply[12]),
        seen=reply[13],
        seen_version=reply[14],
    )


def _read_join(reply: Sequence[Any]) -> JoinReply:
    status, token, generation, stamp, flat, summary = reply
    words = [as_text(word) for word in flat]
    return JoinReply(
        JoinStatus(as_text(status)),
        as_text(token),
        generation,
        stamp,
        tuple(Difference(*words[i : i + 3]) for i in range(0, len(words), 3)),
        read_summary(summary),
    )


def join(keys: CrawlKeys, request: JoinRequest) -> Call[JoinReply]:
    """Become a worker of a crawl."""
    fields: dict[str, Any] = {
        "worker": request.worker,
        "identity": sorted(request.identity.items()),
        "tunable": sorted(request.tunable.items()),
        "loose": request.loose,
        "new_token": request.new_token,
        "token": request.token,
        "generation": request.generation,
        "previous": request.previous,
        "given": int(request.given),
        "age_ms": request.age_ms,
        "seeding": request.seeding.value,
        "host": request.host,
        "pid": request.pid,
        "keep_alive": int(request.keep_alive),
        "epoch": request.epoch,
        "dry_run": int(request.dry_run),
        "seeder": int(request.seeder),
    }
    # Earlier epochs that count, so that a wrong type there is found now.
    all_keys = keys.for_script(request.epoch) + keys.of_seen_set(request.epoch).keys
    return Call(load_script("join"), all_keys, [pack(fields)], _read_join)


def exchange(keys: CrawlKeys, request: ExchangeRequest) -> Call[ExchangeReply]:
    """One round trip of a worker."""

    def read(reply: Sequence[Any]) -> ExchangeReply:
        status, stamp, answers, popped, reaped, summary = reply
        return ExchangeReply(
            Status(as_text(status)),
            stamp,
            operations.read_answers(answers),
            tuple(Popped(as_text(id), entry) for id, entry in pairs(popped)),
            Reaped(*reaped),
            read_summary(summary),
        )

    flags = (
        "b" * request.busy
        + "i" * request.idle
        + "s" * request.seeder
        + "l" * request.leaving
        + "e" * request.ends
    )
    seen = keys.of_seen_set(request.epoch)
    operations = pack_operations(seen.on_the_wire(request.operations))
    return Call(
        load_script("exchange"),
        keys.for_script(request.epoch) + seen.keys,
        [
            request.worker,
            request.token,
            request.batch,
            request.last_stamp,
            request.epoch,
            request.want,
            flags,
            operations.data,
            request.oldest_ms,
        ],
        read,
    )


def reap(
    keys: CrawlKeys, limit: int = 100, position: str = FIRST_POSITION
) -> Call[ReapReply]:
    """Put back the work of dead workers and what was delayed, *limit* of each.

    :param position: of the last reply, so that all is looked at in turn
    """

    def read(reply: Sequence[Any]) -> ReapReply:
        requeued, buried, repaired, promoted, position, tidy, summary = reply
        return ReapReply(
            requeued,
            buried,
            repaired,
            promoted,
            as_text(position),
            as_text(tidy),
            read_summary(summary),
        )

    return Call(load_script("reap"), keys.of_any_epoch, [limit, position], read)


@dataclass(frozen=True, slots=True)
class PushReply:
    """Answer to a push.

    ``status``: ok; epoch (nothing was stored, send it again with that epoch and seen
    set); finished (nothing was done: the crawl is over and its id was given); or
    wrong_type (nothing was done: ``wrong`` is a key, its type, and the type expected).
    """

    status: str
    epoch: int
    answers: tuple[Answer, ...]
    wrong: tuple[str, ...] = ()
    seen_set: str = ""
    """The crawl's, see :attr:`.seen.SeenSet.spec`; empty: not decided yet."""


def push(
    keys: CrawlKeys, epoch: int, new_token: str, operations: Iterable[Operation]
) -> Call[PushReply]:
    """Store requests, or claim fingerprints, from outside a worker."""

    def read(reply: Sequence[Any]) -> PushReply:
        status, current, answers, wrong, spec = reply
        return PushReply(
            as_text(status),
            current,
            packed.read_answers(answers),
            tuple(map(as_text, wrong)),
            as_text(spec),
        )

    seen = keys.of_seen_set(epoch)
    packed = pack_operations(seen.on_the_wire(operations))
    all_keys = keys.for_script(epoch) + seen.keys
    args: list[bytes | str | int] = [epoch, new_token, packed.data, keys.seen_set.spec]
    return Call(load_script("push"), all_keys, args, read)


TIDY_BATCH = 1000
"""How many shards one call deletes."""


def tidy(keys: CrawlKeys, position: str) -> Call[str]:
    """Delete a part of an old epoch of the seen set.

    :param position: from a reap, or from the last of these calls
    :return: where to go on; empty when nothing is left
    """
    epoch, shards, first = map(int, re.split("[/:]", position))
    end = min(first + TIDY_BATCH, shards)
    old = [keys.shard(epoch, number) for number in range(first, end)]
    all_keys = keys.of_any_epoch + (old or [keys.seen(epoch)])
    return Call(load_script("tidy"), all_keys, [position], as_text)


@dataclass(frozen=True, slots=True)
class ScanReply:
    """A slice of the requests that are not done."""

    cursor: str
    """For the next slice; ``"0"``: this was the last."""
    requests: tuple[Popped, ...]
    """One may come twice."""


def scan(keys: CrawlKeys, cursor: str, count: int = 1000) -> Call[ScanReply]:
    """Look at requests that are not done, wherever they are.

    :param cursor: ``"0"`` at first, then that of the last slice
    :param count: about how many
    """

    def read(reply: Sequence[Any]) -> ScanReply:
        cursor, flat = reply
        return ScanReply(
            as_text(cursor),
            tuple(Popped(as_text(id), entry) for id, entry in pairs(flat)),
        )

    return Call(load_script("scan"), keys.of_any_epoch, [cursor, count], read)


def prioritize(keys: CrawlKeys, added: int, ids: Iterable[str]) -> Call[int]:
    """Raise or lower the priority of some requests; how many of them were there."""
    return Call(
        load_script("prioritize"),
        keys.of_any_epoch,
        [added, pack(list(ids))],
        int,
    )


@dataclass(frozen=True, slots=True)
class ResetReply:
    """Answer to a reset.

    ``status``: ok; none (no such crawl); busy (``value`` workers live); epoch (send it
    again with the epoch in ``value``).
    """

    status: str
    value: int


def reset(
    keys: CrawlKeys, epoch: int, new_token: str, *, force: bool
) -> Call[ResetReply]:
    """Start a crawl over."""

    def read(reply: Sequence[Any]) -> ResetReply:
        return ResetReply(as_text(reply[0]), reply[1])

    args: list[bytes | str | int] = [epoch, new_token, "force" if force else ""]
    return Call(load_script("reset"), keys.for_script(epoch), args, read)
