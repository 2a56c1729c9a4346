"""The protocol, as the executable model has it, keeps the promises.

Random schedules of several workers over a small site, with everything that may go
wrong: each is decided by its seed, and run again by
``World("talk", 3).run()``. The same checks find every fault that is put in on purpose.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import count

import pytest

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    ExchangeReply,
    ExchangeRequest,
    JoinRequest,
    JoinStatus,
    Operation,
    Seeding,
    Status,
    Store,
)
from tests.model.fsck import fsck
from tests.model.kinds import KINDS
from tests.model.mutants import MUTANTS, Mutant
from tests.model.promises import Violation
from tests.model.server import CrawlFinishedError, ModelServer
from tests.model.state import Lease
from tests.model.world import World

SCHEDULES = 30
MOST_SCHEDULES = 200
"""A fault that is not found in so many is not found."""

LEASE_MS = 60_000

FIRST = JoinRequest(
    worker="a",
    identity={"spider": "shop"},
    tunable={"lease_ms": str(LEASE_MS)},
    new_token="first",
    seeding=Seeding.DONE,
)


@pytest.mark.parametrize("kind", KINDS)
def test_promises_hold_whatever_goes_wrong(kind: str) -> None:
    """No schedule loses a page, repeats one without excuse, or ends too early."""
    for seed in range(SCHEDULES):
        World(kind, seed).run()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_schedules_find_the_fault(mutant: Mutant) -> None:
    """A server or a worker with this fault breaks a promise in some schedule."""
    with pytest.raises(Violation):  # noqa: PT012 - which schedule finds it is open
        for seed in range(MOST_SCHEDULES):
            World(mutant.kind, seed, mutant.server, mutant.worker).run()


def test_schedule_is_decided_by_its_seed() -> None:
    """What a seed found once, it finds again."""
    first, second = World("any", 7), World("any", 7)
    first.run()
    second.run()
    assert first.time == second.time
    assert first.server.crawl == second.server.crawl


class Client:
    """A worker's talk with the server, without any of a worker's sense."""

    def __init__(self, server: ModelServer, join: JoinRequest = FIRST) -> None:
        self.server, self.worker = server, join.worker
        self.joined = server.join(join)
        self.stamp = self.joined.stamp
        self.batches = count(1)

    def send(
        self, *operations: Operation, want: int = 0, leaving: bool = False
    ) -> ExchangeReply:
        self.server.now_us += 1
        request = ExchangeRequest(
            self.worker,
            self.joined.token,
            next(self.batches),
            self.stamp,
            self.joined.summary.epoch,
            operations,
            want=want,
            leaving=leaving,
        )
        reply = self.server.exchange(request)
        self.stamp = reply.stamp
        return reply


@pytest.fixture
def model() -> ModelServer:
    return ModelServer(now=1_000_000)


def test_crawl_is_finished_by_the_last_sign_off(model: ModelServer) -> None:
    """The sign-off of the last live worker finishes a crawl without work."""
    one, other = Client(model), Client(model, replace(FIRST, worker="b"))
    one.send()
    other.send()
    assert one.send(leaving=True).summary.drained
    assert model.join(replace(FIRST, worker="c", dry_run=True)).status is (
        JoinStatus.JOINED
    )
    other.send(leaving=True)
    late = model.join(replace(FIRST, worker="c", given=True))
    assert late.status is JoinStatus.FINISHED


def test_next_run_opens_a_generation_with_nothing_in_it(model: ModelServer) -> None:
    """After the finish, a page is stored again, with an id that was never used."""
    client = Client(model)
    page = Store(b"page", fingerprint=b"page")
    (popped,) = client.send(page, want=1).popped
    client.send(Ack(popped.id, 1))
    client.send(leaving=True)
    model.now += 1
    joined = model.join(replace(FIRST, worker="b", new_token="second", epoch=1))
    assert (joined.status, joined.generation) == (JoinStatus.CREATED, 2)
    assert joined.token == "second"
    assert model.push([page]) == [Answer.STORED]
    assert model.crawl is not None
    assert list(model.crawl.requests) == ["99999999999997"]


def test_push_opens_the_crawl_and_respects_a_given_id(model: ModelServer) -> None:
    """A producer may come first, and starts nothing over whose id was given."""
    page = Store(b"page", fingerprint=b"page")
    assert model.push([page, page], "pushed") == [Answer.STORED, Answer.DUPLICATE]
    client = Client(model, replace(FIRST, given=True))
    assert client.joined.status is JoinStatus.RESUMED
    (popped,) = client.send(want=1).popped
    client.send(Ack(popped.id, 1))
    client.send(leaving=True)
    with pytest.raises(CrawlFinishedError):
        model.push([page])


def test_rolled_back_server_sends_its_workers_to_rejoin(model: ModelServer) -> None:
    """A worker that knows more than the server does not go on as if nothing was."""
    client = Client(model)
    client.send()
    past = copy.deepcopy(model)
    client.send(Store(b"page"))
    past.now = model.now + 1
    client.server = past
    assert client.send().status is Status.REJOIN


def test_repeated_batch_is_answered_and_not_run(model: ModelServer) -> None:
    """The answer to a batch can be had again, and takes effect once."""
    client = Client(model)
    first = client.send(Store(b"page"), want=1)
    client.batches, client.stamp = count(1), client.joined.stamp
    again = client.send(Store(b"page"), want=1)
    assert again.answers == first.answers
    assert again.popped == first.popped
    assert again.summary.in_flight == 1


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("frontier", "is in more than one place"),
        ("delayed", "is in more than one place"),
    ],
)
def test_fsck_finds_a_request_in_two_places(
    model: ModelServer, place: str, error: str
) -> None:
    """Each request is in exactly one place."""
    (popped,) = Client(model).send(Store(b"page"), want=1).popped
    assert fsck(model) == []
    getattr(model.crawl, place)[popped.id] = 1
    assert fsck(model) == [f"{popped.id} {error}"]


def test_fsck_finds_what_belongs_to_nothing(model: ModelServer) -> None:
    """Every request in flight has an owner and a payload, and no other id has one."""
    (popped,) = Client(model).send(Store(b"page"), want=1).popped
    assert model.crawl is not None
    entry = model.crawl.requests.pop(popped.id)
    model.crawl.requests["lost"] = entry
    model.crawl.leases = {"nobody": Lease("a", 1)}
    assert fsck(model) == [
        f"{popped.id} has no payload",
        "lost has a payload and is nowhere",
        f"{popped.id} is in flight and has no owner",
        "nobody has an owner and is not in flight",
    ]
