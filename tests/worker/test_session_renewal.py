"""Renewals of one process, and of several, on a real server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.errors import CommandFailed, Refused, Unavailable
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.runner import run_async, run_together
from scrapy_redis_state.store.sessions import Changes, Cookie, Renewal, Session
from scrapy_redis_state.worker.sessions import renewal as renewal_module
from scrapy_redis_state.worker.sessions.cache import SessionCache
from scrapy_redis_state.worker.sessions.renewal import Renewals
from tests.processes import await_until
from tests.servers import Server

SITE = "shop.example"
LOGGER = "scrapy_redis_state.worker.sessions.renewal"
SECRET = "hunter2"


class Fleet:
    """Processes that renew sessions of one server; they differ in their name."""

    def __init__(self, server: Server, prefix: str) -> None:
        self.prefix = prefix
        self.client = async_client(server.url, timeout=2)
        self.state = CrawlState.connect(server.url, crawl="x", prefix=prefix)
        self.begun: list[str] = []
        self.counted: list[str] = []
        self.may_end = asyncio.Event()
        self.result: Changes | Exception | None = Changes((Cookie("sid", "1", SITE),))
        self.stack = AsyncExitStack()

    async def __aenter__(self) -> Fleet:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()
        await self.client.aclose()
        self.state.close()

    def key(self, name: str = "") -> SessionKey:
        return SessionKey(SITE, name, self.prefix)

    def process(self, name: str, run: Any = None) -> Renewals:
        async def renew(key: SessionKey, because: Any) -> Changes | None:
            self.begun.append(f"{name} {key.site} {key.name} {because}")
            await self.may_end.wait()
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

        renewals = Renewals(
            run or self.run, 100, name, renew, count=self.counted.append
        )
        self.stack.push_async_callback(renewals.close)
        return renewals

    async def run(self, _: SessionKey, call: Any) -> Any:
        return await run_async(self.client, call)

    def session(self, name: str | None = None) -> Session:
        return self.state.sessions.load(SITE, name).session


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal_module, "LEASE_SECS", 0.5)
    monkeypatch.setattr(renewal_module, "BACK_OFF_SECS", 0.01)
    monkeypatch.setattr(renewal_module, "AGAIN_SECS", 0.01)


async def is_over(*processes: Renewals) -> None:
    await await_until(lambda: not any(map(len, processes)), 10)


async def test_one_process_renews_and_the_others_wait(
    server: Server, crawl_name: str
) -> None:
    """Then they are told that it is another session already."""
    async with Fleet(server, crawl_name) as fleet:
        first, second = fleet.process("a"), fleet.process("b")
        fleet.state.sessions.save(SITE, {"sid": "0"})
        epoch = fleet.session().epoch
        verdicts = [
            await process.claim(fleet.key(), epoch, "page")
            for process in (first, second, first)
        ]
        assert [verdict.kind for verdict in verdicts] == ["yours", "busy", "busy"]
        await await_until(lambda: fleet.begun == [f"a {SITE}  page"])
        assert not fleet.session().cookies
        fleet.may_end.set()
        await is_over(first)
        assert fleet.state.sessions.load(SITE) == {"sid": "1"}
        for process in (first, second):
            assert (await process.claim(fleet.key(), epoch)).kind == "renewed"
        assert fleet.counted == ["renewed"]


async def test_claims_at_the_same_time_begin_one_renewal(
    server: Server, crawl_name: str
) -> None:
    """Of many processes, and of many pages of one."""
    async with Fleet(server, crawl_name) as fleet:
        processes = [fleet.process(name) for name in "abc"] * 5
        claims = [process.claim(fleet.key(), "") for process in processes]
        kinds = [verdict.kind for verdict in await asyncio.gather(*claims)]
        assert sorted(kinds) == ["busy"] * 14 + ["yours"]
        epoch = fleet.session().epoch
        await await_until(lambda: len(fleet.begun) == 1)
        fleet.may_end.set()
        await is_over(*processes)
        assert fleet.session().epoch == epoch


async def test_sessions_are_renewed_independently(
    server: Server, crawl_name: str
) -> None:
    """One process may renew several at a time."""
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        for name in ("ann", "bob"):
            assert (await process.claim(fleet.key(name), "")).kind == "yours"
        assert len(process) == 2
        fleet.may_end.set()
        await is_over(process)
        assert fleet.session("ann").cookies
        assert fleet.session("bob").cookies
        assert not fleet.session().cookies


@pytest.mark.usefixtures("quick")
async def test_a_renewal_may_take_longer_than_its_lease(
    server: Server, crawl_name: str
) -> None:
    """There are signs of life."""
    async with Fleet(server, crawl_name) as fleet:
        first, second = fleet.process("a"), fleet.process("b")
        await first.claim(fleet.key(), "")
        for _ in range(15):
            await asyncio.sleep(0.1)
            assert (await second.claim(fleet.key(), "")).kind == "busy"
        fleet.may_end.set()
        await is_over(first)
        assert fleet.counted == ["renewed"]


@pytest.mark.usefixtures("quick")
async def test_who_lost_its_renewal_stops(
    server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program published a session, or another process took over."""
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        await process.claim(fleet.key(), "")
        fleet.state.sessions.save(SITE, {"sid": "published"})
        await is_over(process)
        assert fleet.state.sessions.load(SITE) == {"sid": "published"}
        assert "somebody else has taken over" in caplog.text


@pytest.mark.usefixtures("quick")
async def test_failures_are_told_and_end(
    server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each with its number and its reason; then nobody tries again."""
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        fleet.result = ValueError("no form\nsecond line")
        fleet.may_end.set()

        async def fails() -> bool:
            return (await process.claim(fleet.key(), "")).kind == "failed"

        for _ in range(1000):
            if await fails():
                break
            await asyncio.sleep(0.01)
        verdict = await process.claim(fleet.key(), "")
        assert verdict.reason == "its renewal failed too often"
        assert len(fleet.begun) == 3
        assert fleet.counted == ["renewal_failed"] * 3
        for number in (1, 2, 3):
            assert f"renewal failed ({number} of 3): ValueError: no form" in caplog.text
        assert "is given up" in caplog.text
        assert "second line" not in caplog.text
        assert fleet.session().renewal == Renewal("", 3, failed=True, why="failed")


@pytest.mark.usefixtures("quick")
async def test_a_session_that_no_page_is_good_with_is_given_up(
    server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its renewals work, but whatever is sent with it is judged to be no good."""
    async with Fleet(server, crawl_name) as fleet:
        first, second = fleet.process("a"), fleet.process("b")
        fleet.may_end.set()
        kinds = []
        for number in range(100):
            process = (first, second)[number % 2]
            verdict = await process.claim(fleet.key(), fleet.session().epoch)
            kinds.append(verdict.kind)
            if verdict.kind == "failed":
                break
            await is_over(first, second)
            await asyncio.sleep(0.01)
        assert kinds.count("yours") == len(fleet.begun) == 3
        assert verdict.reason == "it was renewed too often without a page that was good"
        assert fleet.counted.count("renewed") == 3
        assert fleet.counted.count("renewal_failed") == 3
        assert "(3 of 3): the next page was no good either" in caplog.text
        assert (await first.claim(fleet.key(), "")).reason == verdict.reason


@pytest.mark.usefixtures("quick")
async def test_a_good_page_ends_the_doubt(server: Server, crawl_name: str) -> None:
    """Then a later judgement is the beginning of another renewal."""
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        fleet.may_end.set()
        for number in range(6):
            epoch = fleet.session().epoch
            verdict = await process.claim(fleet.key(), epoch, page=f"{number}")
            assert verdict.kind == "yours"
            await is_over(process)
            for _ in range(3):
                process.prove(fleet.key(), fleet.session().epoch)
            await await_until(lambda: not fleet.session().unproven)
        verdict = await process.claim(fleet.key(), fleet.session().epoch, page="3")
        assert verdict.kind == "blamed"
        assert fleet.counted == ["renewed"] * 6


@pytest.mark.usefixtures("quick")
async def test_one_that_hangs_has_failed(
    server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs of life do not make it last for ever."""
    monkeypatch.setattr(renewal_module, "LONGEST_SECS", 0.3)
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        await process.claim(fleet.key(), "")
        await is_over(process)
        assert fleet.counted == ["renewal_failed"]
        renewal = fleet.session().renewal
        assert renewal == Renewal("", 1)


async def test_who_stops_leaves_it_to_others_at_once(
    server: Server, crawl_name: str
) -> None:
    """It is no failure; and it begins nothing more."""
    async with Fleet(server, crawl_name) as fleet:
        first, second = fleet.process("a"), fleet.process("b")
        await first.claim(fleet.key(), "")
        await await_until(lambda: len(fleet.begun) == 1)
        await first.close()
        assert fleet.session().renewal == Renewal()
        assert (await first.claim(fleet.key(), "")).kind == "busy"
        assert (await second.claim(fleet.key(), "")).kind == "yours"
        assert fleet.counted == []


async def test_who_stops_before_it_began_leaves_it_to_others(
    server: Server, crawl_name: str
) -> None:
    """In the moment in which the answer comes."""
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        claim = asyncio.ensure_future(process.claim(fleet.key(), ""))
        await asyncio.sleep(0)
        await process.close()
        await claim
        await is_over(process)
        assert fleet.session().renewal == Renewal()


@pytest.mark.usefixtures("quick")
async def test_an_outage_ends_no_renewal(server: Server, crawl_name: str) -> None:
    """A claim waits, and what was made is stored when the server is back."""
    async with Fleet(server, crawl_name) as fleet:
        is_away = False

        async def run(key: SessionKey, call: Any) -> Any:
            if is_away:
                raise Unavailable("away")
            return await fleet.run(key, call)

        process = fleet.process("a", run)
        is_away = True
        assert (await process.claim(fleet.key(), "")).kind == "busy"
        is_away = False
        assert (await process.claim(fleet.key(), "")).kind == "yours"
        is_away = True
        fleet.may_end.set()
        await asyncio.sleep(0.1)
        assert len(process) == 1
        is_away = False
        await is_over(process)
        assert fleet.state.sessions.load(SITE) == {"sid": "1"}


async def test_an_error_that_nobody_expected_is_told_once(
    server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages wait meanwhile."""
    async with Fleet(server, crawl_name) as fleet:

        async def fail(*_: Any) -> Any:
            raise CommandFailed("strange")

        process = fleet.process("a", fail)
        for _ in range(3):
            assert (await process.claim(fleet.key(), "")).kind == "busy"
        assert caplog.text.count("Sessions cannot be renewed: strange") == 1


async def test_what_no_waiting_helps_against_is_a_failure(
    server: Server, crawl_name: str
) -> None:
    """A server that refuses, or a key that is something else."""
    async with Fleet(server, crawl_name) as fleet:

        async def refuse(*_: Any) -> Any:
            raise Refused("may not run EVALSHA")

        verdict = await fleet.process("a", refuse).claim(fleet.key(), "")
        assert verdict == ("failed", 0, "may not run EVALSHA")
        await fleet.client.set(f"{crawl_name}sess:{SITE}", "x")
        verdict = await fleet.process("b").claim(fleet.key(), "")
        assert verdict.kind == "failed"
        assert "not a hash" in verdict.reason


async def test_no_value_is_in_the_log(
    server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of cookies, identity and tokens."""
    caplog.set_level(logging.DEBUG, LOGGER)
    async with Fleet(server, crawl_name) as fleet:
        process = fleet.process("a")
        large = Cookie("large", SECRET * 20_000, SITE)
        cookie = Cookie("sid", SECRET, SITE)
        fleet.result = Changes(
            (cookie, large), proxy=SECRET, headers={"X": SECRET}, tokens={"t": SECRET}
        )
        fleet.may_end.set()
        await process.claim(fleet.key(), "")
        await is_over(process)
        assert fleet.state.sessions.load(SITE) == {"sid": SECRET}
        assert "is longer than 65536 bytes" in caplog.text
        assert ": renewed in " in caplog.text
        assert SECRET not in caplog.text


async def test_a_cache_knows_what_was_renewed_through_it(
    server: Server, crawl_name: str
) -> None:
    """At once, without asking the server again."""
    async with Fleet(server, crawl_name) as fleet:
        trips = []

        async def run(calls: Any) -> list[Any]:
            trips.append(calls)
            return await run_together(fleet.client, calls)

        cache = SessionCache(run, 100)
        fleet.stack.push_async_callback(cache.close)
        process = fleet.process("a", cache.run)
        await process.claim(fleet.key(), "")
        begun = await cache.get(fleet.key())
        assert begun.renewal == Renewal("a")
        fleet.may_end.set()
        await is_over(process)
        done = await cache.get(fleet.key())
        assert [cookie.value for cookie in done.cookies.values()] == ["1"]
        assert done.renewal is None
        assert len(trips) == 2
