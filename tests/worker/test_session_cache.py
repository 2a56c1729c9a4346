"""What a worker knows of shared sessions: how fresh it is, and what it costs."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import async_client
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.runner import run_together
from scrapy_redis_state.store.sessions import Changes, Cookie, CookieKey, Stamp
from scrapy_redis_state.worker.sessions import cache as cache_module
from scrapy_redis_state.worker.sessions import entry as entry_module
from scrapy_redis_state.worker.sessions.cache import SessionCache
from tests.processes import await_until

SITE = "shop.example"
KEY = CookieKey(SITE, "/", "sid")
LOGGER = "scrapy_redis_state.worker.sessions.report"


def cookie(value: str, name: str = "sid", **fields: Any) -> Cookie:
    return Cookie(name, value, SITE, **fields)


def setting(value: str, name: str = "sid", **fields: Any) -> Changes:
    return Changes(cookies=(cookie(value, name, **fields),))


class Link:
    """Connects a cache to a server, and counts what goes over."""

    def __init__(self, url: str) -> None:
        self.client = async_client(url, timeout=2)
        self.trips: list[int] = []
        """How many calls each round trip had."""

    async def run(self, calls: Any) -> list[Any]:
        self.trips.append(len(calls))
        return await run_together(self.client, calls)


class Caches:
    """Makes the caches of workers on one server."""

    def __init__(self, server: Any, prefix: str, stack: AsyncExitStack) -> None:
        self.server, self.prefix, self.stack = server, prefix, stack
        self.state = CrawlState.connect(server.url, crawl="x", prefix=prefix)
        stack.callback(self.state.close)
        self.counted: list[str] = []

    def key(self, site: str = SITE, name: str = "") -> SessionKey:
        return SessionKey(site, name, self.prefix)

    def make(self, **options: Any) -> tuple[SessionCache, Link]:
        link = Link(self.server.url)
        defaults: dict[str, Any] = {
            "ttl_secs": 100,
            "count": self.counted.append,
        }
        cache = SessionCache(link.run, **defaults | options)
        self.stack.push_async_callback(link.client.aclose)
        self.stack.push_async_callback(cache.close)
        return cache, link


@asynccontextmanager
async def caches_on(server, prefix):
    async with AsyncExitStack() as stack:
        yield Caches(server, prefix, stack)


def value(session: Any, key: CookieKey = KEY) -> str | None:
    found = session.cookies.get(key)
    return found.value if found else None


def is_done_at_once(coroutine: Any) -> bool:
    """Whether it waits for nothing. It is not run on if it does."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    coroutine.close()
    return False


class TestReading:
    async def test_a_session_that_nobody_made_is_empty(self, server, crawl_name):
        """Looking for it makes no key."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            session = await cache.get(caches.key())
            assert (session.site, session.epoch, dict(session.cookies)) == (
                SITE,
                "",
                {},
            )
            assert cache.known(caches.key()) is None
            assert server.client().dbsize() == 0

    async def test_what_is_wanted_at_once_goes_in_one_round_trip(
        self, server, crawl_name
    ):
        """And many who want one session share one call."""
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            await cache.get(caches.key("warm.example"))
            link.trips.clear()
            sites = [SITE, "a.example", "b.example"] * 10
            await asyncio.gather(*map(cache.get, map(caches.key, sites)))
            assert link.trips == [3]

    async def test_a_steady_crawl_waits_for_nothing(
        self, server, crawl_name, monkeypatch
    ):
        """After the first use the background keeps a session fresh."""
        monkeypatch.setattr(entry_module, "MAX_AGE_SECS", 0.5)
        monkeypatch.setattr(cache_module, "REFRESH_SECS", 0.1)
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            caches.state.sessions.save(SITE, {"sid": "1"})
            await cache.get(caches.key())
            waited, uses, until = 0, 0, time.monotonic() + 2
            while time.monotonic() < until:
                before = len(link.trips)
                waited += not is_done_at_once(cache.get(caches.key()))
                uses += 1
                assert len(link.trips) == before
                await asyncio.sleep(0.002)
            # The machine may be busy for a while, but not again and again.
            assert waited <= 3
            assert uses > 100
            assert len(link.trips) <= 25

    async def test_news_of_others_are_known_within_a_second(self, server, crawl_name):
        """Another program's publication, and its end."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.get(caches.key())
            for action, expected in (
                (lambda: caches.state.sessions.save(SITE, {"sid": "1"}), "1"),
                (lambda: caches.state.sessions.invalidate(SITE), None),
            ):
                action()
                since = time.monotonic()
                dotted = CookieKey(f".{SITE}", "/", "sid")
                while value(await cache.get(caches.key()), dotted) != expected:
                    assert time.monotonic() - since < 1.5
                    await asyncio.sleep(0.005)

    async def test_a_state_that_the_maker_of_a_request_knew_is_waited_for(
        self, server, crawl_name
    ):
        """What is cached is good for a second, but not for such a request."""
        async with caches_on(server, crawl_name) as caches:
            first, _ = caches.make()
            second, link = caches.make()
            await second.get(caches.key())
            await first.save(caches.key(), setting("1"))
            stamp = first.known(caches.key())
            assert stamp is not None
            assert value(await second.get(caches.key())) is None
            assert value(await second.get(caches.key(), stamp)) == "1"
            trips = len(link.trips)
            assert value(await second.get(caches.key(), stamp)) == "1"
            assert len(link.trips) == trips

    async def test_a_load_on_its_way_may_be_too_old(self, server, crawl_name):
        """Who asks for a state meanwhile gets a load that was sent after that."""
        async with caches_on(server, crawl_name) as caches:
            first, _ = caches.make()
            second, link = caches.make()
            held, go_on = asyncio.Event(), asyncio.Event()
            run = link.run

            async def hold(calls: Any) -> list[Any]:
                answers: list[Any] = await run(calls)
                held.set()
                await go_on.wait()
                return answers

            second._sender._run = hold
            early = asyncio.ensure_future(second.get(caches.key()))
            await held.wait()
            await first.save(caches.key(), setting("1"))
            late = asyncio.ensure_future(
                second.get(caches.key(), first.known(caches.key()))
            )
            await asyncio.sleep(0)
            go_on.set()
            assert value(await early) is None
            assert value(await late) == "1"

    @pytest.mark.parametrize("epoch", ["0000000000000001", "9999999999999999", "?"])
    async def test_a_state_that_is_gone_is_asked_for_once(
        self, server, crawl_name, epoch
    ):
        """The session expired, or the server lost it: what there is has to do."""
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            await cache.get(caches.key())
            link.trips.clear()
            for _ in range(5):
                assert not (await cache.get(caches.key(), Stamp(epoch, 7))).epoch
            assert len(link.trips) <= 1

    async def test_sessions_have_names(self, server, crawl_name):
        """Those of one site have nothing to do with each other."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.save(caches.key(SITE, "ann"), setting("1"))
            assert value(await cache.get(caches.key(SITE, "ann"))) == "1"
            assert value(await cache.get(caches.key(SITE, "bob"))) is None
            assert value(await cache.get(caches.key())) is None

    async def test_it_can_be_dropped(self, server, crawl_name):
        """Then nothing is used that is not loaded anew."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.get(caches.key())
            caches.state.sessions.save(SITE, {"sid": "1"})
            assert not (await cache.get(caches.key())).cookies
            cache.drop()
            assert (await cache.get(caches.key())).cookies

    async def test_the_background_rests_when_nothing_is_used(
        self, server, crawl_name, monkeypatch
    ):
        """An idle process asks for nothing, and goes on when it is needed."""
        monkeypatch.setattr(entry_module, "IN_USE_SECS", 0.05)
        monkeypatch.setattr(cache_module, "REFRESH_SECS", 0.02)
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            for _ in range(2):
                await cache.get(caches.key())
                assert cache._refresher
                await await_until(lambda: cache._refresher is None, 5)
            assert link.trips

    async def test_the_ttl_slides_with_every_use(self, server, crawl_name, monkeypatch):
        """Also of one that needs no look at the server."""
        monkeypatch.setattr(cache_module, "REFRESH_SECS", 0.05)
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make(ttl_secs=50)
            await cache.save(caches.key(), setting("1"))
            client, key = server.client(), f"{crawl_name}sess:{SITE}"
            assert 40 < client.ttl(key) <= 50
            await cache.get(caches.key())
            client.expire(key, 10)
            assert is_done_at_once(cache.get(caches.key()))
            await await_until(lambda: client.ttl(key) > 40, 5)

    async def test_what_is_used_once_is_not_looked_after(
        self, server, crawl_name, monkeypatch
    ):
        """A crawl of many sites with a page or two of each loads each once or twice."""
        monkeypatch.setattr(cache_module, "REFRESH_SECS", 0.02)
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            for n in range(100):
                await cache.get(caches.key(f"site{n}.example"))
                await cache.get(caches.key(f"site{n}.example"))
            trips = len(link.trips)
            await cache.get(caches.key("regular.example"))
            await await_until(lambda: len(link.trips) > trips + 1, 5)
            for _ in range(50):
                await cache.get(caches.key("regular.example"))
                await asyncio.sleep(0.005)
            assert sum(link.trips) <= 2 * 100 + 2 * len(link.trips)


class TestWriting:
    async def test_writes_arrive_in_order(self, server, crawl_name):
        """However many are on their way, the last one counts."""
        async with caches_on(server, crawl_name) as caches:
            cache, link = caches.make()
            writes = [cache.save(caches.key(), setting(str(n))) for n in range(20)]
            tasks = [asyncio.ensure_future(write) for write in writes]
            await asyncio.sleep(0)
            assert cache.unsaved(caches.key()) == {KEY}
            await asyncio.gather(*tasks)
            assert not cache.unsaved(caches.key())
            assert len(link.trips) == 1
            assert value(await cache.get(caches.key())) == "19"
            other, _ = caches.make()
            assert value(await other.get(caches.key())) == "19"
            assert caches.counted.count("saved") == 20

    async def test_a_write_teaches_what_others_did(self, server, crawl_name):
        """Its reply is the session as it is now."""
        async with caches_on(server, crawl_name) as caches:
            first, _ = caches.make()
            second, _ = caches.make()
            await first.get(caches.key())
            await second.save(caches.key(), setting("1", "other"))
            await first.save(caches.key(), setting("2"))
            names = [key.name for key in (await first.get(caches.key())).cookies]
            assert names == ["other", "sid"]

    async def test_a_dead_session_is_not_brought_back(self, server, crawl_name):
        """A write that is based on what was invalidated changes nothing."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.save(caches.key(), setting("1"))
            stamp = cache.known(caches.key())
            assert stamp
            caches.state.sessions.invalidate(SITE)
            saved = await cache.save(caches.key(), setting("2"), stamp.epoch)
            assert saved
            assert saved.stale
            assert not (await cache.get(caches.key())).cookies
            assert caches.counted.count("stale") == 1

    async def test_what_is_too_large_is_named_without_its_value(
        self, server, crawl_name, caplog
    ):
        """Once, and the rest is stored."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            big = Changes(cookies=(cookie("x" * 70_000, "big"), cookie("1")))
            with caplog.at_level(logging.WARNING, LOGGER):
                await cache.save(caches.key(), big)
                await cache.save(caches.key(), big)
            assert value(await cache.get(caches.key())) == "1"
            assert len(caplog.messages) == 1
            assert "big" in caplog.text
            assert "xxx" not in caplog.text
            assert caches.counted.count("refused") == 2

    async def test_a_key_of_something_else_is_left_alone(
        self, server, crawl_name, caplog
    ):
        """It is named once, and the crawl goes on with cookies of its own."""
        async with caches_on(server, crawl_name) as caches:
            client = server.client()
            client.set(f"{crawl_name}sess:{SITE}", "precious")
            cache, _ = caches.make()
            with caplog.at_level(logging.WARNING, LOGGER):
                for _ in range(3):
                    assert not (await cache.get(caches.key())).cookies
                    await cache.save(caches.key(), setting("1"))
            assert len(caplog.messages) == 1
            assert client.get(f"{crawl_name}sess:{SITE}") == b"precious"
            assert not cache.unsaved(caches.key())
            assert await cache.save(caches.key("other.example"), setting("1"))


class TestMemory:
    async def test_it_is_bounded(self, server, crawl_name):
        """Of ten thousand sessions the last ones stay; the others are loaded again."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make(limit=50)
            for n in range(0, 1000, 20):
                names = [f"one-shot-{m}" for m in range(n, n + 20)]
                await asyncio.gather(
                    *(
                        cache.save(caches.key(SITE, name), setting(name))
                        for name in names
                    )
                )
            assert len(cache) <= 70
            await cache.get(caches.key(SITE, "one more"))
            assert len(cache) == 50
            assert cache.peek(caches.key(SITE, "one-shot-3")) is None
            assert (
                value(await cache.get(caches.key(SITE, "one-shot-3"))) == "one-shot-3"
            )

    async def test_changes_that_cannot_be_written_are_bounded_too(
        self, fresh_server, crawl_name
    ):
        """An outage may last for hours."""
        server = fresh_server()
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make(limit=10)
            server.kill()
            for n in range(100):
                await cache.save(caches.key(SITE, str(n)), setting("1"))
            assert len(cache) <= 21
            assert "lost" in caches.counted


@pytest.mark.one_server
class TestOutage:
    @pytest.mark.parametrize("how", ["kill", "pause"])
    async def test_no_page_waits_for_a_server_that_is_away(
        self, fresh_server, crawl_name, caplog, how
    ):
        """What is known is used, changes are kept and written when it is back."""
        server = fresh_server(appendonly=True)
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.save(caches.key(), setting("1"))
            getattr(server, how)()
            cache.drop()
            with caplog.at_level(logging.INFO, LOGGER):
                since = time.monotonic()
                assert value(await cache.get(caches.key())) == "1"
                assert time.monotonic() - since < 3
                since = time.monotonic()
                for n in range(50):
                    assert value(await cache.get(caches.key())) == "1"
                    assert not (await cache.get(caches.key("new.example"))).cookies
                    await cache.save(caches.key(), setting(str(n), "n"))
                assert time.monotonic() - since < 10
                assert cache.unsaved(caches.key()) == {KEY._replace(name="n")}
                server.start() if how == "kill" else server.resume()
                await await_until(lambda: not cache.unsaved(caches.key()), 20)
                await await_until(lambda: "shared again" in caplog.text, 20)
            assert len(caplog.messages) == 2
            other, _ = caches.make()
            assert value(await other.get(caches.key()), KEY._replace(name="n")) == "49"
            assert value(await other.get(caches.key())) == "1"

    async def test_what_was_deleted_and_set_again_is_there_afterwards(
        self, fresh_server, crawl_name
    ):
        """Kept changes become one, in which the last word counts."""
        server = fresh_server(appendonly=True)
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.save(caches.key(), setting("1"))
            await cache.save(caches.key(), setting("1", "gone"))
            server.kill()
            gone = KEY._replace(name="gone")
            for changes in (
                Changes(deleted=(KEY,)),
                setting("2"),
                setting("2", "gone"),
                Changes(deleted=(gone,)),
            ):
                await cache.save(caches.key(), changes)
            server.start()
            await await_until(lambda: not cache.unsaved(caches.key()), 20)
            session = await cache.get(caches.key())
            assert value(session) == "2"
            assert gone not in session.cookies

    async def test_the_end_waits_for_writes(self, server, crawl_name):
        """Closing writes what is on its way."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            write = asyncio.ensure_future(cache.save(caches.key(), setting("1")))
            await asyncio.sleep(0)
            await cache.close()
            assert await write
            other, _ = caches.make()
            assert value(await other.get(caches.key())) == "1"
            # After the end there is what was known, and no more.
            assert value(await cache.get(caches.key())) == "1"
            assert await cache.save(caches.key(), setting("2")) is None

    async def test_an_end_during_an_outage_is_told(
        self, fresh_server, crawl_name, caplog
    ):
        """It does not wait for a server that does not answer."""
        server = fresh_server()
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            server.kill()
            await cache.save(caches.key(), setting("1"))
            since = time.monotonic()
            await cache.close()
            assert time.monotonic() - since < 3
            assert "Changes of 1 sessions are lost" in caplog.text

    async def test_a_server_that_forgot_its_scripts_is_taught_them(
        self, server, crawl_name
    ):
        """SCRIPT FLUSH changes nothing."""
        async with caches_on(server, crawl_name) as caches:
            cache, _ = caches.make()
            await cache.save(caches.key(), setting("1"))
            server.client().script_flush()
            cache.drop()
            session, saved = await asyncio.gather(
                cache.get(caches.key()), cache.save(caches.key(), setting("2"))
            )
            assert saved
            assert value(await cache.get(caches.key())) == "2"
            assert session.epoch
