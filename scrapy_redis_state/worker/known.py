"""Pages that are known to be seen, so that nobody need ask the server again."""

from __future__ import annotations

from scrapy_redis_state.store.forgetting import FORGETTING

GENERATION = 50_000
"""Fingerprints in a generation; two of them take some ten megabytes."""


class KnownPages:
    """Fingerprints that the server called stored or duplicate.

    What was seen stays so while the crawl's *seen version* does, so all of them go when
    that changes. Whoever forgets a page raises it, and a worker learns of it with its
    next exchange: until then, a second at most while the server answers, it may still
    take the page for a duplicate. As if its request had come before. Where somebody in
    the worker's own process forgets one, nothing is known from then on.

    There are two generations: when the younger one is full, the older one goes, and
    with it what was not asked for meanwhile.
    """

    def __init__(self, generation: int = GENERATION) -> None:
        self._size = generation
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._version: int | None = None
        self._forgotten = FORGETTING.times

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __contains__(self, fingerprint: bytes) -> bool:
        self._look_at_own_process()
        if fingerprint in self._young:
            return True
        if fingerprint in self._old:
            self.add(fingerprint)
            return True
        return False

    def add(self, fingerprint: bytes) -> None:
        """The server has it in its seen set."""
        self._old.discard(fingerprint)
        self._young.add(fingerprint)
        if len(self._young) >= self._size:
            self._old, self._young = self._young, set()

    def follow(self, version: int) -> bool:
        """Whether *version*, of a reply, is that of the reply before.

        If not, nothing is known any more, and that reply's answers are not to be
        remembered: those of a batch that was repeated may be older than its version.
        """
        self._look_at_own_process()
        if version == self._version:
            return True
        self.distrust()
        self._version = version
        return False

    def distrust(self) -> None:
        """Know nothing any more, and do not take a reply on its way for one of now.

        A server that was set back may have the same version again, with other pages.
        """
        self._young.clear()
        self._old.clear()
        self._version = None

    def _look_at_own_process(self) -> None:
        if self._forgotten != FORGETTING.times:
            self._forgotten = FORGETTING.times
            self.distrust()
