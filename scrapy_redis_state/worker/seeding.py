"""One run of a spider's ``start()``, on behalf of the whole crawl."""

from __future__ import annotations

from collections import Counter

from scrapy_redis_state.store.messages import Answer


class StartRun:
    """Counts what a run of ``start()`` made and what became of it.

    :param token: the seeding token that it runs under; 0 if every worker runs its own
    """

    def __init__(self, token: int = 0) -> None:
        self.token = token
        self.unanswered = 0
        """Requests offered and not answered yet."""
        self.items = 0
        """Items that are still in the pipelines."""
        self.waits_for = 0
        """Its requests that only this process can run, and that are not done."""
        self.seen: list[bytes] = []
        """Fingerprints of those that are done, marked when seeding is."""
        self.is_over = False
        """Ended or given up; what a task that it left behind makes belongs nowhere."""
        self.stored = 0
        self.filtered = 0
        self._occurrences: Counter[bytes] = Counter()

    def identify(self, fingerprint: bytes) -> bytes:
        """What makes a start request the same one in every run of ``start()``.

        Equal requests are told apart by how many of them came before, so that a start()
        that yields one three times has it fetched three times, whoever takes over.
        """
        self._occurrences[fingerprint] += 1
        return fingerprint + str(self._occurrences[fingerprint]).encode()

    def note(self, answer: Answer) -> None:
        """Count the answer to one of its requests."""
        self.unanswered -= 1
        self.stored += answer is Answer.STORED
        self.filtered += answer is Answer.DUPLICATE

    @property
    def is_settled(self) -> bool:
        """Nothing of it is left in this process."""
        return not (self.unanswered or self.items or self.waits_for)
