"""A server that is out of memory: what is refused, and all that goes on."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.messages import (
    Answer,
    Check,
    Claim,
    Release,
    Seeding,
    Status,
    Store,
    StoreDead,
)
from tests.servers import Server
from tests.store.crawls import ENDS, LEASE_MS, Crawl, ack, page, unfiltered

LIMIT = 24 * 1024 * 1024
REFUSED, DUPLICATE, DONE = Answer.REFUSED, Answer.DUPLICATE, Answer.DONE


@pytest.fixture(scope="module")
def small_server(server_kind):
    """A server that refuses what makes it grow beyond some megabytes."""
    arguments = ["--maxmemory", str(LIMIT), "--maxmemory-policy", "noeviction"]
    with Server(server_kind, extra_args=arguments) as server:
        yield server


class SmallCrawl(Crawl):
    """A crawl whose server can be filled."""

    def fill(self) -> None:
        # The server makes the value by itself, out of a short command.
        self.client.setrange("{other}:ballast", LIMIT, b"x")

    def make_room(self) -> None:
        self.client.delete("{other}:ballast")

    def later(self, ms: int = LEASE_MS) -> None:
        """As ever; what a test writes by hand needs room as well."""
        full = self.client.exists("{other}:ballast")
        self.make_room()
        super().later(ms)
        if full:
            self.fill()

    def bytes_kept(self) -> int:
        """What the keys of the crawl take on the server."""
        keys = self.client.scan_iter(f"*{{{self.keys.crawl}}}*")
        return sum(self.client.memory_usage(key, samples=0) or 0 for key in keys)


@pytest.fixture
def crawl(small_server, crawl_name):
    """A crawl on it."""
    crawl = SmallCrawl(small_server.client(), crawl_name)
    yield crawl
    crawl.make_room()
    assert crawl.fsck() == []
    crawl.client.flushall()


@pytest.fixture
def member(crawl):
    member = crawl.member()
    member.exchange(page("known"), page("pending"))
    member.page = member.take_one()
    crawl.fill()
    return member


def test_new_requests_are_refused_and_known_ones_are_still_known(crawl, member):
    """Nothing is marked seen that is not stored."""
    batch = [page("new"), page("known"), unfiltered("x"), StoreDead(b"d", "why")]
    claims = [Claim(b"known"), Claim(b"new")]
    answers = member.answers(*batch, *claims)
    assert answers == (REFUSED, DUPLICATE, REFUSED, REFUSED, DUPLICATE, REFUSED)
    checks = (Check(b"known"), Check(b"new"))
    assert member.answers(*checks) == (DUPLICATE, Answer.STORED)
    crawl.make_room()
    stored = member.answers(*batch, *claims)
    assert "".join(stored) == "sdssdd"


def test_start_requests_are_refused_too(crawl):
    """Those stored are duplicates; those without the token are stale as ever."""
    member = crawl.member(seeding=Seeding.OPEN)
    token = member.exchange(seeder=True).summary.seed_token
    seeds = [Store(b"s", seed=bytes([n]), seed_token=token) for n in range(2)]
    member.exchange(seeds[0])
    crawl.fill()
    stale = seeds[1]._replace(seed_token=token + 1)
    assert member.answers(*seeds, stale) == (DUPLICATE, REFUSED, Answer.STALE)


@pytest.mark.parametrize("kind", sorted(set(ENDS) - {"release", "delay"}))
def test_the_end_of_a_page_that_had_a_request_refused_is_withheld(crawl, member, kind):
    """An ack never overtakes a child; the lease goes on."""
    id, batch = member.page.id, member.page.batch
    end = ENDS[kind](id, batch)
    child = page("child", page=id)
    answers = member.answers(child, page("known", page=id), end)
    assert answers == (REFUSED, DUPLICATE, Answer.WITHHELD)
    assert crawl.where(id) == "inflight"
    crawl.make_room()
    assert member.answers(child, end) == (Answer.STORED, DONE)


def test_a_page_that_had_a_request_refused_may_be_released(crawl, member):
    """It is not over: it will be done again from the beginning."""
    lease = member.page
    child = page("child", page=lease.id)
    answers = member.answers(child, Release(lease.id, lease.batch))
    assert answers == (REFUSED, DONE)
    assert crawl.where(lease.id) == "frontier"


def test_other_pages_go_on(crawl, member):
    """Acks, failures, beats and pops are taken, and make room."""
    stuck, other = member.page, member.take_one()
    child = page("child", page=stuck.id)
    assert member.answers(child, ack(other)) == (REFUSED, DONE)
    crawl.outlive(member)
    assert crawl.where(stuck.id) == "inflight"
    assert (crawl.summary.workers, crawl.summary.done) == (1, 1)


def test_what_dead_workers_held_comes_back(crawl, member):
    """Joining, reaping and popping go on as well."""
    lease = member.page
    crawl.later()
    other = crawl.member("w2")
    crawl.reap()
    assert [one.payload for one in other.take(5)] == [lease.payload, b"pending"]
    assert other.exchange(leaving=True).status is Status.OK


def test_memory_does_not_grow_however_often_it_is_tried(crawl, member):
    """Not by refused requests, nor by beats, releases and pops."""
    lease = member.page
    refused = [Store(b"x" * 1000, fingerprint=n, page=lease.id) for n in (b"a", b"b")]
    member.exchange(*refused)
    before, used = crawl.bytes_kept(), crawl.client.info("memory")["used_memory"]
    for _ in range(200):
        answers = member.answers(*refused, Release(lease.id, lease.batch), want=1)
        assert answers == (REFUSED, REFUSED, DONE)
        lease.batch = member.batch
    assert crawl.bytes_kept() - before < 200
    # The buffers of connections come and go; what was refused is 400 kB.
    assert crawl.client.info("memory")["used_memory"] - used < 300_000


def test_a_program_is_told_how_many_of_its_requests_were_stored(crawl, member):
    """The error says what to do; nothing is half stored."""
    state = CrawlState(crawl.client, crawl.keys)
    with pytest.raises(RedisStateError, match="no room: the first 0 were stored"):
        state.push_many([f"http://a.example/{n}" for n in range(3)])
    assert crawl.summary.pending == 1


def test_a_push_that_opens_a_generation_is_refused_as_well(crawl):
    """The first push of a crawl is no exception."""
    crawl.fill()
    assert crawl.push(page("a"), page("b")) == (REFUSED, REFUSED)
    assert crawl.summary.pending == 0
