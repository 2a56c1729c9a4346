"""What a worker runs: leased pages, and pages that exist in this process alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store.messages import Ack, Release

if TYPE_CHECKING:
    from scrapy_redis_state.store.messages import PageEnd, Popped
    from scrapy_redis_state.worker.seeding import StartRun


class BadEntryError(ValueError):
    """A stored entry without a readable head."""


@dataclass(slots=True, eq=False)
class Lease:
    """One request, leased to this worker by the server until it is ended."""

    id: str
    batch: int
    """Number of the exchange that popped it; what ends it must name it."""
    priority: int
    deliveries: int
    """How many earlier deliveries did not end well."""
    payload: bytes
    since: float = 0.0
    """When it came, by the worker's clock, in seconds."""
    stale: bool = False
    """Lost to a rejoin: somebody else gets it, and its end is not reported."""
    is_over: bool = False
    """The page left the engine."""
    stored_unfiltered: bool = False
    """The page made a request that the seen set does not stop from being repeated."""
    waits_for: int = 0
    """How many of its requests are neither stored nor done: those that the server had
    no room for, and those that only this process can run."""
    end: PageEnd | None = None
    """Its end, kept back while it waits for them."""
    seen: list[bytes] = field(default_factory=list)
    """Fingerprints of its local pages that are done, marked with its ack."""

    @classmethod
    def from_popped(cls, popped: Popped, batch: int, since: float) -> Lease:
        """Read an entry: ``<priority>;<deliveries>;<handed back by>;<payload>``.

        :raises BadEntryError: if it is not one
        """
        try:
            priority, deliveries, _, payload = popped.entry.split(b";", 3)
            return cls(popped.id, batch, int(priority), int(deliveries), payload, since)
        except ValueError:
            raise BadEntryError(
                f"request {popped.id} has no readable head: {popped.entry[:16]!r}"
            ) from None

    @property
    def is_open(self) -> bool:
        """Whether something can still be a part of it."""
        return not self.stale and (not self.is_over or self.waits_for > 0)

    def end_with(self, end: PageEnd) -> None:
        """Set how it ends; what is not an ack stays, whatever comes after it.

        Nothing outdoes a release: who asks for it knows of work that would be lost.
        """
        if not isinstance(self.end, Release) and (
            self.end is None or not isinstance(end, Ack)
        ):
            self.end = end

    def take_end(self) -> PageEnd:
        """How it ended, when nothing holds it back any more."""
        assert self.end is not None
        end, self.end = self.end, None
        if isinstance(end, Ack) and self.seen:
            return end._replace(seen=tuple(self.seen))
        return end


@dataclass(slots=True, eq=False)
class LocalPage:
    """A request that cannot be encoded, and so is run by this process alone."""

    request: Any
    """None when it is over."""
    priority: int
    fingerprint: bytes
    """Empty: it is not filtered."""
    owner: Lease | StartRun | None
    """What has to be repeated if this is lost: the nearest page that is leased, or the
    run of ``start()``; None outside both."""
    is_over: bool = False

    @property
    def is_made_again(self) -> bool:
        """Whether somebody makes it again after a rejoin.

        A ``start()`` that every worker runs for itself is not run again.
        """
        return self.owner is not None and (
            isinstance(self.owner, Lease) or bool(self.owner.token)
        )
