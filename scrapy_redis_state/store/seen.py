"""Kinds of seen sets: how each keeps fingerprints, and in which keys.

======  ==========================================================================
exact   the fingerprints themselves, in a set
bloom   a Bloom filter of RedisBloom: small, and wrong about a few new pages
packed  a 64-bit hash of each, in many sets so small that Redis packs them
======  ==========================================================================

With revisits a page counts as seen if it is in the set of this epoch or of the few
before, and the server begins a new epoch every now and then.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_redis_state.store.messages import Ack, Check, Claim, Forget, Seeded, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_redis_state.store.messages import Operation

KINDS = ("exact", "bloom", "packed")

DEFAULT_CAPACITY = 1_000_000
DEFAULT_ERROR_RATE = 0.000001

EARLIER_EPOCHS = 2
"""With revisits: epochs before the current one that still count; include/seen.lua has
the same number."""

MOST_PACKED = 512
"""Up to so many members servers pack a set of integers (``set-max-intset-entries``)."""

PER_SHARD = 380
"""Hashes per shard at capacity: :data:`MOST_PACKED` is 6.8 standard deviations above
this mean, and one shard in 19 000 million has more."""

MIN_CAPACITY = 1000

EXACT_BYTES = 100
PACKED_BYTES = 9.5
"""Bytes a URL, on the least thrifty server and at the worst size that was measured; see
``docs/explanation/memory``."""

BLOOM_HEAD_BYTES = 500
"""Of a Bloom filter, beside its bits."""

SUGGESTED_ERROR_RATES = (DEFAULT_ERROR_RATE, 1e-5, 1e-4, 1e-3, 1e-2)
"""Of Bloom filters, the most careful first."""


@dataclass(frozen=True, slots=True)
class SeenSet:
    """How a crawl remembers what was seen.

    :param kind: ``exact``, ``bloom`` or ``packed``
    :param capacity: URLs that it is made for (bloom, packed)
    :param error_rate: share of new pages taken for seen ones at capacity (bloom)
    :param revisits: whether pages are forgotten after some time
    """

    kind: str = "exact"
    capacity: int = DEFAULT_CAPACITY
    error_rate: float = DEFAULT_ERROR_RATE
    revisits: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"seen={self.kind!r} is no kind of seen set: use one of"
                f" {', '.join(map(repr, KINDS))}."
            )

    @property
    def spec(self) -> str:
        """What all workers of a crawl must agree on, as text."""
        sizes = {
            "exact": "",
            "bloom": f":{self.capacity}:{self.error_rate:.12g}",
            "packed": f":{self.capacity}",
        }
        return self.kind + sizes[self.kind] + "+revisits" * self.revisits

    @classmethod
    def parse(cls, spec: str) -> SeenSet:
        """The opposite of :attr:`spec`.

        :raises ValueError: for the spec of another version
        """
        sizes = r"(?::(\d+)(?::([\d.e-]+))?)?"
        found = re.fullmatch(rf"(\w+){sizes}(\+revisits)?", spec)
        if found is None:
            raise ValueError(f"{spec!r} describes no seen set that this version knows.")
        kind, capacity, error_rate, revisits = found.groups()
        return cls(
            kind,
            int(capacity or DEFAULT_CAPACITY),
            float(error_rate or DEFAULT_ERROR_RATE),
            bool(revisits),
        )

    @property
    def shards(self) -> int:
        """Number of keys per epoch beside that of the epoch itself."""
        if self.kind != "packed":
            return 0
        return -(-self.capacity // PER_SHARD)

    @property
    def has_many_keys(self) -> bool:
        """Whether one call is not enough to delete it."""
        return self.kind == "packed" or self.revisits

    def locate(self, fingerprint: bytes) -> tuple[int, int]:
        """Shard of a packed set, and the signed 64-bit number to keep there."""
        # Hashed again, since a project's own fingerprints may be anything.
        digest = hashlib.blake2b(fingerprint, digest_size=16).digest()
        shard = int.from_bytes(digest[8:], "big") % self.shards
        return shard, int.from_bytes(digest[:8], "big", signed=True)


def suggest(urls: int, memory_bytes: int) -> SeenSet:
    """The seen set for a number of URLs that does not take more than so much memory.

    ``exact`` if it fits, else ``packed``, else the ``bloom`` that misses the fewest
    pages. With revisits there are up to three sets: give a third of the memory.

    :param urls: pages that the crawl may see; rather too many than too few
    :raises ValueError: if none fits; it says how much the smallest one needs
    """
    if urls < 1:
        raise ValueError(f"urls={urls!r}: give how many URLs the crawl may see.")
    capacity = max(urls, MIN_CAPACITY)
    blooms = [SeenSet("bloom", capacity, rate) for rate in SUGGESTED_ERROR_RATES]
    candidates = [SeenSet("exact", capacity), SeenSet("packed", capacity), *blooms]
    for seen in candidates:
        if most_bytes(seen) <= memory_bytes:
            return seen
    least = candidates[-1]
    raise ValueError(
        f"{urls:,} URLs do not fit in {memory_bytes:,} bytes: a Bloom filter that takes"
        f" {least.error_rate:.0%} of new pages for seen ones needs"
        f" {most_bytes(least):,}."
    )


def most_bytes(seen: SeenSet) -> int:
    """What a seen set takes when it holds as many URLs as it is made for."""
    if seen.kind == "exact":
        return seen.capacity * EXACT_BYTES
    if seen.kind == "packed":
        return math.ceil(seen.capacity * PACKED_BYTES)
    # A filter that may grow is made for half the rate, so that all that come later
    # together stay within the other half.
    bits = -math.log2(seen.error_rate / 2) / math.log(2)
    return _allocated(math.ceil(seen.capacity * bits / 8)) + BLOOM_HEAD_BYTES


def _allocated(size: int) -> int:
    """What counts for ``maxmemory``: jemalloc has four sizes between powers of two."""
    step = 1 << max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step


class SeenKeys:
    """The keys of a seen set that one call uses, gathered from its fingerprints.

    :param name: of the set without its epoch, such as ``seen:{crawl}``
    :param first: number of the first key after those every call has
    """

    def __init__(self, seen: SeenSet, name: str, epoch: int, first: int) -> None:
        self._seen = seen
        self._first = first
        self._epochs = [epoch]
        if seen.revisits:
            self._epochs += [epoch - back for back in range(1, EARLIER_EPOCHS + 1)]
        self._name = name
        self._numbers: dict[int, int] = {}
        self.keys: list[str] = []
        """After those every call has; of each shard the current epoch comes first."""
        if not seen.shards:
            self.keys += [f"{name}:{epoch}" for epoch in self._epochs[1:]]

    def on_the_wire(self, operations: Iterable[Operation]) -> Sequence[Operation]:
        """Operations with fingerprints as the scripts read them."""
        if not self._seen.shards:
            return list(operations)
        return [self._placed(operation) for operation in operations]

    def _placed(self, operation: Operation) -> Operation:
        if isinstance(operation, Store):
            # Those with a time of their own are kept elsewhere, as they are.
            if operation.revisit_ms:
                return operation
            return operation._replace(fingerprint=self._place(operation.fingerprint))
        if isinstance(operation, Claim | Check | Forget):
            return operation._replace(fingerprint=self._place(operation.fingerprint))
        if isinstance(operation, Ack | Seeded):
            return operation._replace(seen=tuple(map(self._place, operation.seen)))
        return operation

    def _place(self, fingerprint: bytes) -> bytes:
        if not fingerprint:
            return fingerprint
        shard, value = self._seen.locate(fingerprint)
        number = self._numbers.get(shard)
        if number is None:
            number = self._numbers[shard] = self._first + len(self.keys)
            self.keys += [f"{self._name}:{epoch}:{shard}" for epoch in self._epochs]
        return b"%d:%d" % (number, value)
