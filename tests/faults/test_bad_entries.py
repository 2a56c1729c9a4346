"""Keys of ours with something else in them: row 16 of the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scrapy_redis_state.store.messages import Bury, Operation
from scrapy_redis_state.worker.lease import BadEntryError, Lease
from tests.crawl.crawls import close_reason, finish
from tests.faults.graph import Graph
from tests.faults.trial import Trial, says
from tests.processes import wait_until
from tests.store.crawls import LEASE_MS, Crawl, Member, ack, page

BAD = b"\xff\x00garbage"
PAGES = ("a", "b", "c")

Spoil = Callable[[Crawl], None]


def an_id_without_an_entry(place: str) -> Spoil:
    return lambda crawl: crawl.client.zadd(crawl.key(place), {BAD: 0})


def an_entry_without_a_place(crawl: Crawl) -> None:
    crawl.client.zrem(crawl.key("frontier"), next(iter(crawl.place("frontier"))))


def garbage_for_an_entry(crawl: Crawl) -> None:
    id = next(iter(crawl.place("frontier")))
    crawl.client.hset(crawl.key("requests"), "0000000000099", BAD)
    crawl.client.zadd(
        crawl.key("frontier"), {"0000000000099": crawl.place("frontier")[id]}
    )


def a_lease_of_nothing(crawl: Crawl) -> None:
    crawl.client.hset(crawl.key("leases"), BAD, BAD)


def in_flight_without_a_lease(crawl: Crawl) -> None:
    id = next(iter(crawl.place("frontier")))
    crawl.client.zrem(crawl.key("frontier"), id)
    crawl.client.zadd(crawl.key("inflight"), {id: 0})


def a_dead_letter_without_information(crawl: Crawl) -> None:
    crawl.client.zadd(crawl.key("dead"), {BAD: 0})


def information_without_a_dead_letter(crawl: Crawl) -> None:
    crawl.client.hset(crawl.key("deadinfo"), BAD, BAD)


def a_worker_without_a_record(crawl: Crawl) -> None:
    crawl.client.zadd(crawl.key("workers"), {BAD: 0})


def records_without_a_worker(crawl: Crawl) -> None:
    crawl.client.hset(crawl.key("replies"), mapping={BAD: BAD, BAD + b":info": BAD})


def a_garbled_record(crawl: Crawl) -> None:
    crawl.client.hset(crawl.key("replies"), mapping={"w1": BAD, "w1:info": BAD})


def strangers_among_the_seen(crawl: Crawl) -> None:
    for name in ("seen", "seeds"):
        crawl.client.sadd(crawl.key(name), BAD)


SPOILS = [
    *(an_id_without_an_entry(place) for place in ("frontier", "delayed", "suspects")),
    an_id_without_an_entry("inflight"),
    an_entry_without_a_place,
    garbage_for_an_entry,
    a_lease_of_nothing,
    in_flight_without_a_lease,
    a_dead_letter_without_information,
    information_without_a_dead_letter,
    a_worker_without_a_record,
    records_without_a_worker,
    a_garbled_record,
    strangers_among_the_seen,
]
NAMES = ["frontier", "delayed", "suspects", "inflight"] + [
    s.__name__ for s in SPOILS[4:]
]


@pytest.mark.parametrize("spoil", SPOILS, ids=NAMES)
def test_a_bad_entry_is_repaired_or_buried(crawl: Crawl, spoil: Spoil) -> None:
    """Row 16: every page is delivered all the same, and the keys agree in the end."""
    crawl.member("w1").answers(*map(page, PAGES))
    spoil(crawl)
    crawl.later(2 * LEASE_MS)  # nobody who was there before lives
    survivor = crawl.member("w2")
    delivered = deliver_all(crawl, survivor)
    assert sorted(delivered) == list(PAGES)
    assert crawl.fsck() == []
    assert survivor.leave().summary.drained
    assert crawl.summary.status == "finished"


def deliver_all(crawl: Crawl, worker: Member) -> list[str]:
    """Do what a worker and its reaper do, for several leases."""
    delivered = []
    for _ in range(15):
        crawl.reap()
        reply = worker.exchange(want=10, idle=True)
        ends: list[Operation] = []
        for popped in reply.popped:
            try:
                lease = Lease.from_popped(popped, worker.batch, 0.0)
            except BadEntryError as error:
                ends.append(Bury(popped.id, worker.batch, str(error)))
            else:
                delivered.append(lease.payload.decode())
                ends.append(ack(lease))
        worker.exchange(*ends)
        crawl.outlive(worker)
    return delivered


@pytest.mark.one_server
def test_a_crawl_goes_on_over_garbage(trial: Trial) -> None:
    """Row 16: it is told once, and every page is crawled."""
    with Graph(20) as site:
        gate = site.hold(1)
        worker = trial.worker(site)
        wait_until(lambda: gate.waiting, 20)
        trial.client.zadd(trial.key("frontier"), {BAD: 7, b"unreadable": 7})
        trial.client.hset(trial.key("requests"), b"unreadable", BAD)
        gate.open()
        finish(worker)
        toll = trial.toll(site, skip_dead=True)
        assert not toll.lost
        assert site.visits == dict.fromkeys(site.paths, 1)
    assert trial.client.zrange(trial.key("dead"), 0, -1) == [b"unreadable"]
    assert says(worker, "Given up: request unreadable has no readable head") == 1
    assert says(worker, "were repaired: 1") == 1


@pytest.mark.one_server
def test_a_key_that_something_else_takes_ends_the_crawl_in_order(trial: Trial) -> None:
    """Row 16: no exchange is done by half, and the error names the key."""
    key = trial.key("delayed")
    with Graph(40, delay=0.05) as site:
        worker = trial.worker(site)
        trial.wait_for_pages(5)
        trial.client.set(key, "precious")
        assert worker.wait() == 1, str(worker)
        assert "was overwritten by something else" in worker.output
        assert close_reason(worker) == "redis_state_lost"
        assert trial.client.get(key) == b"precious"
        trial.client.delete(key)
        assert trial.problems() == []
        finish(trial.worker(site))
        toll = trial.toll(site)
    assert not toll.lost
    assert not toll.dead
    assert trial.done == len(site.paths)
