"""The scripts on a real server do what the reference model does, call by call.

Hypothesis drives both with the same calls: push, pop, ack, release, stale acks,
crashes, reap, delays, dead letters, repeated batches, rejoins, seeding, sign-offs.
After each call the replies are equal, the state is equal, and the keys agree with each
other.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import msgpack
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scrapy_redis_state.store import operator_scripts, scripts
from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.fsck import check_crawl, read_commands
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    Ack,
    Bury,
    Check,
    Claim,
    CrawlStatus,
    Delay,
    ExchangeReply,
    ExchangeRequest,
    Fail,
    Forget,
    HandBack,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Operation,
    Release,
    Seeded,
    SeedFailed,
    Seeding,
    Status,
    Store,
    StoreDead,
)
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.status import status
from tests.model.fsck import fsck as model_fsck
from tests.model.server import CrawlFinishedError, ModelServer
from tests.model.state import EARLIER_EPOCHS

LEASE_MS = 10_000
FINGERPRINTS = st.sampled_from([b"", b"a", b"b", b"c", b"d"])
ALL = [b"a", b"b", b"c", b"d"]
SOME = st.sampled_from(ALL)
PRIORITIES = st.sampled_from([-5, 0, 0, 0, 7, 2**31])
SITES = st.sampled_from(["", "site", "site"])
REVISITS = st.sampled_from([0, 0, 60_000])
PLAIN_STORES = st.builds(
    Store,
    st.binary(max_size=3),
    PRIORITIES,
    FINGERPRINTS,
    st.just(""),
    st.just(b""),
    st.just(0),
    SITES,
    REVISITS,
)
SEEN = [
    SeenSet("exact"),
    SeenSet("exact", revisits=True),
    SeenSet("packed", capacity=1000),
    SeenSet("packed", capacity=1000, revisits=True),
]
REVISIT_MS = 3_600_000
DELAYS = st.sampled_from([0, 60_000])


class Client:
    """One worker as the test plays it."""

    def __init__(self, request: JoinRequest, reply: JoinReply) -> None:
        self.id = request.worker
        self.token = reply.token
        self.generation = reply.generation
        self.batch = 0
        self.stamp = reply.stamp
        self.last: ExchangeRequest | None = None


class ServerAndModel(RuleBasedStateMachine):
    """Both, side by side."""

    server: Any
    prefix: str

    @initialize(
        order=st.sampled_from(["fifo", "lifo"]),
        given_id=st.booleans(),
        seen=st.sampled_from(SEEN),
    )
    def begin(self, order: str, given_id: bool, seen: SeenSet) -> None:
        self.client = self.server.client()
        crawl_id = f"{self.prefix}-{uuid.uuid4().hex[:8]}"
        self.keys = CrawlKeys(crawl_id, seen_set=seen)
        self.model = ModelServer()
        self.order, self.given_id = order, given_id
        self.workers: list[Client] = []
        self.leases: list[tuple[str, int]] = [("00000000000000", 1)]
        self.epoch = 1
        self.number = 0
        self.join(seeding=Seeding.OPEN, keep_alive=False)

    def teardown(self) -> None:
        if hasattr(self, "client"):
            keys = self.client.keys(f"*{{{self.keys.crawl}}}*")
            if keys:
                self.client.delete(*keys)
            self.client.close()

    # --- calls -----------------------------------------------------------------------

    def real(self, call: Call[Any]) -> Any:
        """Run a call on the server, and set the model's time to that of the call."""
        before = self.times()
        reply = run(self.client, call)
        stamp, last_time = self.times()
        seconds, micros = self.client.time()
        self.model.now_us = seconds * 1_000_000 + micros
        if stamp != before[0]:
            self.model.now_us = stamp
        elif last_time != before[1]:
            self.model.now_us = last_time * 1000
        return reply

    def times(self) -> tuple[int, int]:
        """What the crawl says of its last stamp (in µs) and its last call (in ms)."""
        found = self.client.hmget(self.keys.named("crawl"), "stamp", "last_time")
        return int(found[0] or 0), int(found[1] or 0)

    def request_join(self, **fields: Any) -> JoinReply:
        self.number += 1
        request = JoinRequest(
            worker=f"{self.number:012x}",
            identity={
                "schema": "1",
                "order": self.order,
                "seen": self.keys.seen_set.spec,
            },
            tunable={
                "lease_ms": str(LEASE_MS),
                "max_deliveries": "3",
                "finished_ttl_ms": "600000",
                "max_per_site": "5",
                "revisit_ms": str(REVISIT_MS),
            },
            new_token=f"token{self.number}",
            given=self.given_id,
            epoch=self.epoch,
            **fields,
        )
        reply: JoinReply = self.real(scripts.join(self.keys, request))
        assert reply == self.model.join(request)
        if reply.status in (
            JoinStatus.CREATED,
            JoinStatus.JOINED,
            JoinStatus.RESUMED,
        ):
            self.workers.append(Client(request, reply))
        self.epoch = reply.summary.epoch or self.epoch
        self.compare()
        return reply

    def exchange(self, worker: Client, request: ExchangeRequest) -> ExchangeReply:
        reply: ExchangeReply = self.real(scripts.exchange(self.keys, request))
        expected = self.model.exchange(request)
        if reply.status is Status.REJOIN:
            # The server has nothing to sum up when the crawl is another.
            expected = replace(expected, summary=reply.summary)
        assert reply == expected
        worker.last = request
        if reply.status is Status.OK:
            worker.batch, worker.stamp = request.batch, reply.stamp
            self.leases += [(popped.id, request.batch) for popped in reply.popped]
        elif reply.status is Status.REJOIN and worker in self.workers:
            self.workers.remove(worker)
        self.compare()
        return reply

    # --- rules -----------------------------------------------------------------------

    @rule(
        seeding=st.sampled_from([Seeding.OPEN, Seeding.DONE, Seeding.NONE]),
        keep_alive=st.booleans(),
    )
    def join(self, seeding: Seeding, keep_alive: bool) -> None:
        """A worker comes."""
        self.request_join(seeding=seeding, keep_alive=keep_alive)

    @rule(data=st.data(), repeats=st.booleans())
    @precondition(lambda self: self.workers)
    def work(self, data: st.DataObject, repeats: bool) -> None:
        """A worker exchanges; if its reply is lost, it sends the batch again."""
        worker = data.draw(st.sampled_from(self.workers))
        request = ExchangeRequest(
            worker=worker.id,
            token=worker.token,
            batch=worker.batch + 1,
            last_stamp=worker.stamp,
            epoch=self.epoch,
            operations=tuple(data.draw(st.lists(self.operations(), max_size=5))),
            want=data.draw(st.integers(0, 3)),
            busy=data.draw(st.booleans()),
            idle=data.draw(st.booleans()),
            seeder=data.draw(st.booleans()),
        )
        reply = self.exchange(worker, request)
        if repeats and reply.status is Status.OK:
            again = self.exchange(worker, request)
            assert again.answers == reply.answers
            assert again.popped == reply.popped

    @rule(data=st.data(), batch=st.integers(-1, 3), stamp=st.integers(-1, 1))
    @precondition(lambda self: self.workers)
    def confuse(self, data: st.DataObject, batch: int, stamp: int) -> None:
        """A batch with a number or a stamp that does not fit."""
        worker = data.draw(st.sampled_from(self.workers))
        if batch == 0:
            return  # a repeat must have the same content
        request = ExchangeRequest(
            worker=worker.id,
            token=worker.token,
            batch=worker.batch + batch,
            last_stamp=worker.stamp + stamp,
            epoch=self.epoch,
            want=1,
        )
        before = worker.batch, worker.stamp
        reply = self.exchange(worker, request)
        if reply.status is not Status.OK:
            worker.batch, worker.stamp = before

    @rule(data=st.data())
    @precondition(lambda self: self.workers)
    def rejoin(self, data: st.DataObject) -> None:
        """A worker comes back under a new identity."""
        worker = data.draw(st.sampled_from(self.workers))
        self.workers.remove(worker)
        self.request_join(
            token=worker.token, generation=worker.generation, previous=worker.id
        )

    @rule(data=st.data(), ends=st.booleans())
    @precondition(lambda self: self.workers)
    def leave(self, data: st.DataObject, ends: bool) -> None:
        """A worker signs off."""
        worker = data.draw(st.sampled_from(self.workers))
        request = ExchangeRequest(
            worker=worker.id,
            token=worker.token,
            batch=worker.batch + 1,
            last_stamp=worker.stamp,
            epoch=self.epoch,
            leaving=True,
            ends=ends,
        )
        self.exchange(worker, request)
        if worker in self.workers:
            self.workers.remove(worker)

    @rule(
        operations=st.lists(
            st.one_of(
                PLAIN_STORES,
                st.builds(Claim, FINGERPRINTS),
                st.builds(lambda one, site: Forget(one, one, site), SOME, SITES),
            ),
            max_size=4,
        )
    )
    def push(self, operations: list[Store | Claim | Forget]) -> None:
        """A producer pushes."""
        self.number += 1
        token = f"token{self.number}"
        while True:
            call = scripts.push(self.keys, self.epoch, token, operations)
            reply: scripts.PushReply = self.real(call)
            if reply.status != "epoch":
                break
            self.epoch = reply.epoch
        try:
            spec = self.keys.seen_set.spec
            expected = tuple(self.model.push(operations, token, spec))
        except CrawlFinishedError:
            assert reply.status == "finished"
        else:
            assert reply.answers == expected
        self.compare()

    @rule(
        wanted=st.sampled_from(
            [
                CrawlStatus.PAUSED,
                CrawlStatus.DRAINING,
                CrawlStatus.RUNNING,
                CrawlStatus.RUNNING,
            ]
        )
    )
    def steer(self, wanted: CrawlStatus) -> None:
        """Somebody pauses the crawl, drains it, or has it go on."""
        before = self.real(operator_scripts.set_status(self.keys, wanted))
        assert before == self.model.set_status(wanted)
        self.compare()

    @rule(limit=st.sampled_from([1, 100]))
    def reap(self, limit: int) -> None:
        """A reaper looks for work of dead workers."""
        reply = self.real(scripts.reap(self.keys, limit))
        expected = self.model.reap(limit)
        expected = replace(expected, position=reply.position, tidy=reply.tidy)
        assert replace(reply, summary=expected.summary) == expected
        self.compare()
        self.tidy(reply.tidy)

    def tidy(self, position: str) -> None:
        """What is left of old seen sets goes; of a finished crawl, with the rest."""
        while position:
            position = self.real(scripts.tidy(self.keys, position))
        crawl = self.model.crawl
        assert crawl is not None
        counting = range(crawl.epoch - len(crawl.seen_earlier), crawl.epoch + 1)
        pattern = f"{self.keys.named('seen')}:*"
        for key in self.client.scan_iter(pattern):
            epoch = int(key.decode().split("}:")[1].split(":")[0])
            expires = self.client.pttl(key) > 0
            finished = crawl.status is CrawlStatus.FINISHED
            assert expires if finished else epoch in counting

    @rule(epochs=st.sampled_from([0.6, 1.0, 2.0, 9.0]))
    def grow_old(self, epochs: float) -> None:
        """An epoch of the seen set is over."""
        assert self.model.crawl is not None
        passed = int(epochs * REVISIT_MS / EARLIER_EPOCHS)
        self.client.hincrby(self.keys.named("crawl"), "epoch_began", -passed)
        self.model.crawl.epoch_began -= passed

    @rule(leases=st.sampled_from([0.6, 1.0, 12.0]))
    def pass_time(self, leases: float) -> None:
        """Time passes on the crawl clock, so that silent workers die."""
        passed = int(leases * LEASE_MS)
        self.client.hincrby(self.keys.named("crawl"), "clock", passed)
        assert self.model.crawl is not None
        self.model.crawl.clock += passed

    @rule()
    def come_due(self) -> None:
        """What was delayed comes due."""
        assert self.model.crawl is not None
        for id in self.model.crawl.delayed:
            self.model.crawl.delayed[id] = 1
            self.client.zadd(self.keys.named("delayed"), {id: 1})

    @rule()
    def be_due_again(self) -> None:
        """Pages with a time of their own may come again."""
        assert self.model.crawl is not None
        for fingerprint in self.model.crawl.revisits:
            self.model.crawl.revisits[fingerprint] = 1
            self.client.zadd(self.keys.named("revisits"), {fingerprint: 1})

    @rule()
    def be_abandoned(self) -> None:
        """Nobody calls for longer than a lease."""
        assert self.model.crawl is not None
        last = self.model.crawl.last_time - 2 * LEASE_MS
        self.model.crawl.last_time = last
        self.client.hset(self.keys.named("crawl"), "last_time", last)

    # --- what is drawn ---------------------------------------------------------------

    def operations(self) -> st.SearchStrategy[Operation]:
        lease = st.sampled_from(self.leases[-12:])
        token = st.integers(0, 3)
        return st.one_of(
            PLAIN_STORES,
            st.builds(
                Store,
                st.binary(max_size=3),
                PRIORITIES,
                FINGERPRINTS,
                st.just(""),
                st.sampled_from([b"s1", b"s2"]),
                token,
                SITES,
                REVISITS,
            ),
            st.builds(
                StoreDead,
                st.binary(max_size=3),
                st.just("unable"),
                PRIORITIES,
                st.just(""),
            ),
            st.builds(Claim, FINGERPRINTS),
            st.builds(Check, SOME),
            st.builds(Seeded, token, st.sets(SOME, max_size=2).map(tuple)),
            st.builds(SeedFailed, token, st.just("raised")),
            lease.map(lambda one: Ack(*one)),
            st.builds(
                lambda one, seen: Ack(one[0], one[1], tuple(seen)),
                lease,
                st.sets(SOME, max_size=2),
            ),
            lease.map(lambda one: Release(*one)),
            st.builds(
                lambda one, ms: Fail(one[0], one[1], ms, "failed"), lease, DELAYS
            ),
            st.builds(lambda one, ms: Delay(one[0], one[1], ms), lease, DELAYS),
            st.builds(
                lambda one, ms: HandBack(one[0], one[1], ms, "unknown"), lease, DELAYS
            ),
            lease.map(lambda one: Bury(*one, "buried")),
        )

    # --- the state -------------------------------------------------------------------

    def compare(self) -> None:
        """The keys hold what the model holds, and agree with each other."""
        assert self.model.crawl is not None
        crawl = self.model.crawl
        assert self.hash("requests") == {
            id: entry.encode() for id, entry in crawl.requests.items()
        }
        assert self.hash("leases") == {
            id: f"{lease.worker}:{lease.batch}".encode()
            for id, lease in crawl.leases.items()
        }
        assert self.zset("frontier") == crawl.frontier
        assert self.zset("suspects") == crawl.suspects
        assert self.zset("inflight") == crawl.inflight
        assert self.zset("delayed") == crawl.delayed
        assert self.zset("dead").keys() == crawl.dead.keys()
        assert self.zset("workers") == {
            worker: record.beat for worker, record in crawl.workers.items()
        }
        for worker, account in self.accounts().items():
            held = len(crawl.leased_to(worker))
            assert account == (held, crawl.workers[worker].done)
        assert [self.is_seen(one, crawl.epoch) for one in ALL] == [
            one in crawl.seen for one in ALL
        ]
        assert self.pages_of("site") == crawl.pages_of("site")
        assert self.zset("revisits").keys() == {one.decode() for one in crawl.revisits}
        assert self.client.smembers(self.keys.named("seeds")) == crawl.seeds
        for id, packed in self.hash("deadinfo").items():
            letter = msgpack.unpackb(packed, raw=True)
            assert letter[b"reason"].decode() == crawl.deadinfo[id].reason
            assert letter[b"deliveries"] == crawl.deadinfo[id].deliveries
        fields = self.client.hgetall(self.keys.named("crawl"))
        assert int(fields[b"clock"]) == crawl.clock
        assert fields[b"status"].decode() == crawl.status.value
        assert int(fields[b"keep_alive"]) == crawl.keep_alive
        calls = self.client.llen(self.keys.named("wake"))
        assert calls <= len(crawl.frontier)
        assert fields[b"suspect"].decode() == crawl.suspect
        pipeline = self.client.pipeline(transaction=True)
        for command in read_commands(self.keys):
            pipeline.execute_command(*command)
        assert check_crawl(pipeline.execute()) == []
        assert model_fsck(self.model) == []

    def pages_of(self, site: str) -> dict[int, int]:
        """How many pages count for a site, by epoch."""
        assert self.model.crawl is not None
        oldest = self.model.crawl.epoch - len(self.model.crawl.seen_earlier)
        text = self.hash("sites").get(site, b"").decode()
        pairs = [tuple(map(int, one.split(":"))) for one in text.split(",") if one]
        return {epoch: count for epoch, count in pairs if epoch == 0 or epoch >= oldest}

    def accounts(self) -> dict[str, tuple[int, int]]:
        """What is told of each live worker: leases held, pages done."""
        workers = run(self.client, status(self.keys, self.epoch)).workers
        return {one.id: (one.held, one.done) for one in workers if one.is_live}

    def is_seen(self, fingerprint: bytes, epoch: int) -> bool:
        """Whether it is in the seen set of an epoch."""
        if self.keys.seen_set.kind == "exact":
            return bool(self.client.sismember(self.keys.seen(epoch), fingerprint))
        shard, member = self.keys.seen_set.locate(fingerprint)
        return bool(self.client.sismember(self.keys.shard(epoch, shard), str(member)))

    def hash(self, name: str) -> dict[str, bytes]:
        found = self.client.hgetall(self.keys.named(name))
        return {field.decode(): value for field, value in found.items()}

    def zset(self, name: str) -> dict[str, int]:
        found = self.client.zrange(self.keys.named(name), 0, -1, withscores=True)
        return {member.decode(): int(score) for member, score in found}


def test_the_scripts_do_what_the_model_does(server: Any, crawl_name: str) -> None:
    """Whatever the calls, server and model answer the same and hold the same."""

    class Machine(ServerAndModel):
        pass

    Machine.server = server
    Machine.prefix = crawl_name
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
