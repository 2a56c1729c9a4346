"""One typed function per Lua script of those who run crawls; see :mod:`.scripts`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy_redis_state.store.call import Call, as_text, load_script, pack
from scrapy_redis_state.store.dead import DeadLetter
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus, Popped


def _read_letters(flat: Sequence[Any]) -> tuple[DeadLetter, ...]:
    return tuple(
        DeadLetter.read(as_text(flat[i]), flat[i + 1], flat[i + 2])
        for i in range(0, len(flat), 3)
    )


@dataclass(frozen=True, slots=True)
class DeadScanReply:
    """A slice of the dead letters."""

    cursor: str
    """For the next slice; ``"0"``: this was the last."""
    letters: tuple[DeadLetter, ...]
    """One may come twice."""


def dead_scan(keys: CrawlKeys, cursor: str, count: int = 1000) -> Call[DeadScanReply]:
    """Look at dead letters.

    :param cursor: ``"0"`` at first, then that of the last slice
    :param count: about how many
    """

    def read(reply: Sequence[Any]) -> DeadScanReply:
        return DeadScanReply(as_text(reply[0]), _read_letters(reply[1]))

    return Call(load_script("dead_scan"), keys.of_any_epoch, [cursor, count], read)


def dead_look(keys: CrawlKeys, ids: Iterable[str]) -> Call[tuple[DeadLetter, ...]]:
    """Look at some dead letters; those that there are."""
    packed = pack(list(ids))
    return Call(
        load_script("dead_look"),
        keys.of_any_epoch,
        [packed],
        _read_letters,
    )


def dead_drop(keys: CrawlKeys, letters: Iterable[DeadLetter]) -> Call[int]:
    """Forget dead letters; how many of them were still there."""
    packed = pack([(letter.id, letter.given_up) for letter in letters])
    return Call(load_script("dead_drop"), keys.of_any_epoch, [packed], int)


@dataclass(frozen=True, slots=True)
class RequeueReply:
    """Answer to a requeue.

    ``status``: ok; none (no such crawl); epoch (send it again with that epoch);
    expiring (nothing was done: the crawl has finished, and its seen set expires).
    """

    status: str
    epoch: int
    count: int
    """How many letters were still there, and are in the frontier now."""


def dead_requeue(
    keys: CrawlKeys, epoch: int, requests: Iterable[tuple[DeadLetter, bytes]]
) -> Call[RequeueReply]:
    """Put dead letters back into the frontier, each with the payload given."""

    def read(reply: Sequence[Any]) -> RequeueReply:
        return RequeueReply(as_text(reply[0]), reply[1], reply[2])

    packed = pack(
        [(letter.id, letter.given_up, payload) for letter, payload in requests]
    )
    script = load_script("dead_requeue")
    return Call(script, keys.for_script(epoch), [epoch, packed], read)


def set_status(keys: CrawlKeys, wanted: CrawlStatus) -> Call[CrawlStatus | None]:
    """Pause a crawl, drain it, or have it go on.

    The status before; None: there is no such crawl.
    """

    def read(reply: bytes | str) -> CrawlStatus | None:
        before = as_text(reply)
        return None if before == "none" else CrawlStatus(before)

    return Call(load_script("set_status"), keys.of_any_epoch, [wanted.value], read)


def peek(keys: CrawlKeys, count: int) -> Call[tuple[Popped, ...]]:
    """What would be handed out next, best first; changes nothing."""

    def read(flat: Sequence[Any]) -> tuple[Popped, ...]:
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return tuple(Popped(as_text(id), entry) for id, entry in pairs)

    return Call(load_script("peek"), keys.of_any_epoch, [count], read)


@dataclass(frozen=True, slots=True)
class DeleteReply:
    """Answer to a deletion.

    ``status``: ok; none (no such crawl); epoch (send it again with the epoch in
    ``value``); busy (``value`` workers live); recent (somebody used it); used (somebody
    did between the calls); tidy (call :func:`.scripts.tidy` at ``position``, then send
    it again with the epoch in ``value``).
    """

    status: str
    value: int
    position: str


def delete(
    keys: CrawlKeys,
    epoch: int,
    token: str,
    *,
    force: bool = False,
    unused_ms: int = 0,
    dry_run: bool = False,
    of_import: bool = False,
) -> Call[DeleteReply]:
    """Remove a crawl.

    :param token: the same in all calls of one deletion
    :param force: also while workers live
    :param unused_ms: for how long nobody must have used it; 0: for no time
    :param dry_run: answer ok for what would be, and change nothing
    :param of_import: only what is being imported with this token
    """

    def read(reply: Sequence[Any]) -> DeleteReply:
        return DeleteReply(as_text(reply[0]), reply[1], as_text(reply[2]))

    flags = "f" * force + "d" * dry_run + "i" * of_import
    args: list[bytes | str | int] = [epoch, token, flags, unused_ms]
    return Call(load_script("delete"), keys.for_script(epoch), args, read)
