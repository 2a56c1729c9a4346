"""Operations and answers as they are sent.

Most of what workers send are links of pages, and ends of pages that are done. Those go
as flat lists, of which a script reads what it needs: of a link that is a duplicate, the
fingerprint and no more. Of operations one after the other that can go so, a *run*, the
stores come first: no page is done before it has all that it made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import add
from typing import Any

from scrapy_redis_state.store.call import as_text, pack
from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Bury,
    Check,
    Claim,
    Delay,
    Fail,
    Forget,
    HandBack,
    Operation,
    Release,
    Seeded,
    SeedFailed,
    Store,
    StoreDead,
)

_KINDS: dict[type, str] = {
    Store: "s",
    StoreDead: "d",
    Claim: "c",
    Check: "k",
    Forget: "o",
    Ack: "a",
    Fail: "f",
    Release: "r",
    Delay: "w",
    Bury: "b",
    HandBack: "h",
    Seeded: "e",
    SeedFailed: "g",
}
_ANSWERS = {answer.value: answer for answer in Answer}

_FINGERPRINT = Store._fields.index("fingerprint")
_PAGE = Store._fields.index("page")
_PLAIN_STORE = Store(b"")[_PAGE + 1 :]
_PLAIN_ACK = Ack("", 0)[2:]


@dataclass(frozen=True, slots=True)
class PackedOperations:
    """Operations as a script reads them."""

    data: bytes
    order: Sequence[int]
    """For each answer, as the script gives them: the operation's place among all."""

    def read_answers(self, reply: bytes | str) -> tuple[Answer, ...]:
        """What became of each operation; empty if nothing was done."""
        answers = read_answers(reply)
        if not answers:
            return ()
        found = dict(zip(self.order, answers, strict=True))
        return tuple(map(found.__getitem__, range(len(answers))))


def pack_operations(operations: Iterable[Operation]) -> PackedOperations:
    """Operations as a script reads them."""
    packed: list[tuple[Any, ...]] = []
    order: list[int] = []
    stores: dict[int, Any] = {}
    acks: dict[int, Any] = {}

    def end_run() -> None:
        order.extend(stores)
        order.extend(acks)
        packed.extend(_packed_run(list(stores.values()), list(acks.values())))
        stores.clear()
        acks.clear()

    for place, operation in enumerate(operations):
        kind = type(operation)
        if kind is Store and operation[_PAGE + 1 :] == _PLAIN_STORE:
            stores[place] = operation
        elif kind is Ack and operation[2:] == _PLAIN_ACK:
            acks[place] = operation
        else:
            end_run()
            order.append(place)
            packed.append(named_operation(operation))
    end_run()
    return PackedOperations(pack(packed), order)


def _packed_run(stores: list[Store], acks: list[Ack]) -> Iterator[tuple[Any, ...]]:
    # Of a list either all have fingerprints or none has: the script then takes as many
    # as there are stores, or no list of them at all.
    for is_filtered, group in groupby(stores, _is_filtered):
        payloads, priorities, fingerprints, pages, *_ = zip(*group, strict=True)
        head_of = {priority: b"%d;0;;" % priority for priority in set(priorities)}
        # What the server keeps of a request that was not delivered yet (entry.lua).
        entries = list(map(add, map(head_of.__getitem__, priorities), payloads))
        ends = tuple(accumulate(map(len, entries)))
        counts = [(page, len(list(same))) for page, same in groupby(pages)]
        tested = fingerprints if is_filtered else ()
        yield ("S", tested, priorities, counts, ends, b"".join(entries))
    if acks:
        ids, batches, _ = zip(*acks, strict=True)
        yield ("A", ids, batches)


def _is_filtered(store: Store) -> bool:
    return bool(store[_FINGERPRINT])


def named_operation(operation: Operation) -> tuple[Any, ...]:
    """One operation: its kind, and then its fields."""
    return (_KINDS[type(operation)], *operation)


def read_answers(reply: bytes | str) -> tuple[Answer, ...]:
    """One answer for each character."""
    return tuple(map(_ANSWERS.__getitem__, as_text(reply)))
