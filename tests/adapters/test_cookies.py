"""The cookies middleware: what workers share, and what stays as Scrapy has it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from scrapy_redis_state import CookiesMiddleware, cookies
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions import Session
from tests.adapters.cookie_pair import Ours, Shop, Stock
from tests.processes import await_until

HOME = "http://shop.example/"
SECOND = 1.5
"""Within what time news of others are known, with something for a busy machine."""


class Workers:
    """Workers on one server, and a program beside them."""

    def __init__(self, server: Any, prefix: str, stack: AsyncExitStack) -> None:
        self.server, self.prefix, self.stack = server, prefix, stack
        self.state = CrawlState.connect(server.url, crawl="x", prefix=prefix)
        self.sessions = self.state.sessions
        stack.callback(self.state.close)
        self.client = server.client()
        self.key = SessionKey("shop.example", "", prefix)

    def start(self, **settings: Any) -> Ours:
        worker = Ours(self.server.url, self.prefix, **settings)
        self.stack.push_async_callback(worker.close)
        return worker

    def stored(self, site: str = "shop.example", session: Any = None) -> Session:
        return self.sessions.load(site, session).session

    def calls(self) -> int:
        """How many scripts the server has run."""
        stats: Any = self.client.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval")
        return sum(stats[name]["calls"] for name in names if name in stats)


@asynccontextmanager
async def workers_on(server: Any, prefix: str) -> AsyncIterator[Workers]:
    async with AsyncExitStack() as stack:
        yield Workers(server, prefix, stack)


def handed_on(request: Request, maker: Ours, taker: Ours) -> Request:
    """A request that one worker stores and another takes."""
    data = RequestSerializer(Spider("shop"), stamps=maker.crawl.stamps).encode(request)
    serializer = RequestSerializer(Spider("shop"), stamps=taker.crawl.stamps)
    return serializer.decode(data)


class TestSwitches:
    def test_without_cookies_there_is_no_middleware(self):
        """``COOKIES_ENABLED = False`` leaves headers as spiders write them."""
        with pytest.raises(NotConfigured):
            CookiesMiddleware.from_crawler(
                get_crawler(Shop, {"COOKIES_ENABLED": False})
            )

    @pytest.mark.parametrize(
        "name", ["REDIS_STATE_ENABLED", "REDIS_STATE_SESSIONS_ENABLED"]
    )
    async def test_without_sessions_it_is_scrapys(self, name):
        """Cookies are kept, in this process alone, and no server is needed."""
        worker = Ours("redis://127.0.0.1:1", "", **{name: False})
        await worker.get(HOME, "sid=1")
        assert await worker.get(HOME) == b"sid=1"
        assert worker.crawl._sessions is None

    async def test_scrapys_middleware_is_what_programs_find(self, server, crawl_name):
        """Programs that look for the stock middleware get this one, and its jars."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME, "sid=1")
            assert isinstance(worker.middleware, type(Stock().middleware))
            jar = worker.middleware.jars[None]
            assert [cookie.name for cookie in jar] == ["sid"]
            assert len(jar) == 1


class TestSharing:
    async def test_a_login_is_everybodys(self, server, crawl_name):
        """A03: the cookie is stored before the page goes on to its callback."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            assert await second.get(HOME) is None
            await first.get(f"{HOME}login", "sid=1; Path=/; HttpOnly")
            assert [c.name for c in workers.stored().cookies.values()] == ["sid"]
            detail = handed_on(Request(f"{HOME}detail/1"), first, second)
            assert await second.send(detail) == b"sid=1"

    async def test_news_are_known_within_a_second(self, server, crawl_name):
        """Also to requests that no worker made."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME)
            workers.sessions.save("www.shop.example", {"sid": "1"})
            since = time.monotonic()
            while await worker.get(HOME) != b"sid=1":
                assert time.monotonic() - since < SECOND
                await asyncio.sleep(0.01)
            workers.sessions.invalidate("shop.example")
            since = time.monotonic()
            while await worker.get(HOME) is not None:
                assert time.monotonic() - since < SECOND
                await asyncio.sleep(0.01)

    async def test_a_restart_of_all_keeps_the_login(self, server, crawl_name):
        """A01: with the time it expires at, and without."""
        async with workers_on(server, crawl_name) as workers:
            first = workers.start()
            await first.get(HOME, "sid=1; Max-Age=86400", "csrf=2")
            await first.close()
            assert await workers.start().get(HOME) == b"sid=1; csrf=2"
            expires = [c.expires for c in workers.stored().cookies.values()]
            assert expires[0] == pytest.approx(time.time() + 86400, abs=5)
            assert expires[1] is None

    async def test_an_expired_cookie_is_not_sent(self, server, crawl_name):
        """A04: whatever was known when the request was stored."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await first.get(HOME, "t=1; Max-Age=1", "keep=1")
            request = handed_on(Request(HOME), first, second)
            await await_until(lambda: list(workers.sessions.load(HOME)) == ["keep"], 5)
            assert await second.send(request) == b"keep=1"
            await first.get(HOME, "t=2; Max-Age=50")
            assert await second.send(handed_on(Request(HOME), first, second)) in (
                b"keep=1; t=2",
                b"t=2; keep=1",
            )

    async def test_ports_do_not_separate_and_schemes_only_secure_ones(
        self, server, crawl_name
    ):
        """A06: in another worker as in one."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await first.get("http://shop.example:8080/", "a=1")
            await first.get("https://shop.example/", "b=2; Secure")
            assert await second.get("http://shop.example:9090/") == b"a=1"
            assert await second.get("https://shop.example/") == b"a=1; b=2"
            assert list(workers.client.scan_iter()) == [
                f"{crawl_name}sess:shop.example".encode()
            ]

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:8000/", "http://localhost:8000/", "http://[::1]:8/"]
    )
    async def test_hosts_without_a_domain(self, server, crawl_name, url):
        """A07: as stock Scrapy has it, in another worker too."""
        async with workers_on(server, crawl_name) as workers:
            first, second, stock = workers.start(), workers.start(), Stock()
            request = Request(url)
            stock.send(request)
            stock.receive(request, "s=1")
            await first.get(url, "s=1")
            assert await second.get(url) == stock.send(Request(url))
            assert workers.stored(url).cookies

    async def test_cookies_for_other_domains_go_nowhere(self, server, crawl_name):
        """A09: neither by a response nor by a request."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            foreign = [{"name": "foo", "value": "bar", "domain": "b.example"}]
            sent = await worker.get(
                "http://a.example/", "x=1; Domain=b.example", cookies=foreign
            )
            assert sent is None
            assert workers.client.dbsize() == 0

    async def test_longest_path_first(self, server, crawl_name):
        """A13: of cookies with one name, in another worker too."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await first.get(f"{HOME}bar/", "T=root; Path=/", "T=bar; Path=/bar")
            assert await second.get(f"{HOME}bar/x") == b"T=bar; T=root"
            assert await second.get("http://other.example/bar/x") is None

    async def test_cookies_go_out_as_they_came(self, server, crawl_name):
        """Whoever set them, and whenever others learned of it."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await first.get(HOME, "a=1", "b=2")
            await second.get(HOME, "a=; Max-Age=0")
            await second.get(HOME, "a=3")
            first.expire()
            assert await first.get(HOME) == b"b=2; a=3"
            await second.get(HOME, "c=4")
            # This one learns of the cookie before its own with the answer to its write.
            await first.get(HOME, "d=5")
            assert await first.get(HOME) == b"b=2; a=3; c=4; d=5"

    async def test_what_a_request_brings_is_shared(self, server, crawl_name):
        """As in one process, where the next request has it too."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            assert await first.get(HOME, cookies={"currency": "EUR"}) == b"currency=EUR"
            assert await second.get(HOME) == b"currency=EUR"

    async def test_a_redirect_that_another_worker_follows(self, server, crawl_name):
        """A10: it sends what the redirect set, and nothing to another site."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await second.get(HOME, "v=old")
            request = Request(HOME, cookies={"k": "1"})
            await first.send(request)
            await first.receive(request, "v=new")
            same = request.replace(url=f"{HOME}next", cookies=None)
            assert await second.send(handed_on(same, first, second)) == b"v=new; k=1"
            other = request.replace(url="http://b.example/", cookies=None)
            assert await second.send(handed_on(other, first, second)) is None


class TestMerging:
    """A20."""

    async def test_requests_that_do_not_merge(self, server, crawl_name):
        """They send the header they have; nothing is read or stored."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME, "a=1")
            meta = {"dont_merge_cookies": True}
            request = Request(HOME, meta=meta, headers={"Cookie": "h=1"})
            assert await worker.send(request) == b"h=1"
            await worker.receive(request, "b=2")
            assert await worker.get(HOME, meta={"dont_merge_cookies": False}) == b"a=1"
            assert worker.crawl.stamps.stamp(request) is None

    async def test_a_header_written_by_hand_is_dropped(self, server, crawl_name):
        """As Scrapy does, with cookies or without."""
        async with workers_on(server, crawl_name) as workers:
            worker, header = workers.start(), {"Cookie": "h=1"}
            assert await worker.get(HOME, headers=header) is None
            sent = await worker.get(HOME, headers=header, cookies={"c": "2"})
            assert sent == b"c=2"


class TestJars:
    """A21, A23."""

    async def test_each_is_a_session_of_its_own(self, server, crawl_name):
        """By the same rule as in a dict."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            values = [None, 0, "0", "", ("acc", 7), b"0", 2.5, "~0"]
            for number, value in enumerate(values):
                await first.get(HOME, f"n={number}", meta={"cookiejar": value})
            for number, value in enumerate(values):
                sent = await second.get(HOME, meta={"cookiejar": value})
                assert sent == f"n={number}".encode()
            assert await second.get(HOME, meta={"cookiejar": False}) == b"n=1"
            assert workers.client.dbsize() == len(values)

    async def test_two_accounts_never_mix(self, server, crawl_name):
        """Through retries and other workers; one can be invalidated alone."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            for name in "AB":
                await first.get(HOME, f"sid={name}", meta={"cookiejar": name})
            for name in "AB":
                request = Request(HOME, meta={"cookiejar": name})
                assert await first.send(request) == f"sid={name}".encode()
                retry = request.replace(dont_filter=True)
                sent = await second.send(handed_on(retry, first, second))
                assert sent == f"sid={name}".encode()
            workers.sessions.invalidate(HOME, "B")

            since = time.monotonic()
            while await second.get(HOME, meta={"cookiejar": "B"}) is not None:
                assert time.monotonic() - since < SECOND
                await asyncio.sleep(0.01)
            assert await second.get(HOME, meta={"cookiejar": "A"}) == b"sid=A"
            assert await second.get(HOME) is None

    async def test_a_jar_that_has_no_name_stays_here(self, server, crawl_name, caplog):
        """Objects are jars in stock Scrapy, and no other worker could name them."""
        async with workers_on(server, crawl_name) as workers:
            worker, value = workers.start(), object()
            await worker.get(HOME, "a=1", meta={"cookiejar": value})
            assert await worker.get(HOME, meta={"cookiejar": value}) == b"a=1"
            assert await worker.get(HOME) is None
            assert workers.client.dbsize() == 0
            assert worker.stat("not_shared") == 2
            assert caplog.text.count("Cookies are not shared") == 1

    async def test_a_jar_that_cannot_be_a_key_is_an_error(self, server, crawl_name):
        """The same as in stock Scrapy."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            request = Request(HOME, meta={"cookiejar": ["a"]})
            with pytest.raises(TypeError):
                Stock().send(request)
            with pytest.raises(TypeError):
                await worker.send(request)

    async def test_memory_is_bounded(self, server, crawl_name, monkeypatch):
        """One-shot jars are forgotten, and known again when they are needed."""
        monkeypatch.setattr(cookies, "LIMIT", 50)
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            for n in range(300):
                await worker.get(HOME, f"n={n}", meta={"cookiejar": f"one-shot {n}"})
            assert len(worker.middleware.jars) <= 51
            sent = await worker.get(HOME, meta={"cookiejar": "one-shot 7"})
            assert sent == b"n=7"

    async def test_one_jar_of_many_sites_is_bounded(
        self, server, crawl_name, monkeypatch
    ):
        """A22: a broad crawl; sites that set nothing have no key."""
        monkeypatch.setattr(cookies, "LIMIT", 50)
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get("http://warm.up.example/")
            before = workers.calls()
            for n in range(300):
                host = f"site{n}.example"
                headers = [f"a=1; Domain=.{host}", "b=2", f"c=3; Domain={host}"]
                await worker.get(f"http://{host}/", *headers * (n % 2))
            # One to load and, where something was set, one to write.
            assert workers.calls() - before <= 300 + 150 + 10
            assert workers.client.dbsize() == 150
            jar = worker.middleware.jars[None]
            assert len(jar) <= 3 * 51
            assert len(jar.jar._cookies) <= 2 * 51
            assert await worker.get("http://site7.example/") == b"b=2; a=1; c=3"
            assert len(workers.stored("site7.example").cookies) == 3


class TestWrites:
    async def test_what_changes_nothing_is_not_written(self, server, crawl_name):
        """A site that sets its cookie in every response costs nothing."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME, "sid=1; Path=/", "b=2")
            version, since, before = workers.stored().version, time.time(), 0
            before = workers.calls()
            for _ in range(300):
                await worker.get(HOME, "sid=1; Path=/", "b=2")
            # Only the background asks, once a second.
            assert workers.calls() - before <= 2 + 2 * (time.time() - since)
            assert worker.stat("saved") == 1
            assert workers.stored().version == version

    async def test_only_what_changed_is_written(self, server, crawl_name):
        """So that a slow worker does not bring back what another one deleted."""
        async with workers_on(server, crawl_name) as workers:
            first, slow = workers.start(), workers.start()
            await first.get(HOME, "a=1", "b=2")
            request = Request(HOME)
            assert await slow.send(request) == b"a=1; b=2"
            await first.get(HOME, "a=; Max-Age=0")
            await slow.receive(request, "c=3")
            names = [c.name for c in workers.stored().cookies.values()]
            assert names == ["b", "c"]
            assert await slow.get(HOME) == b"b=2; c=3"

    async def test_a_cookie_is_deleted_that_was_never_seen_here(
        self, server, crawl_name
    ):
        """Another worker got it a moment ago."""
        async with workers_on(server, crawl_name) as workers:
            first, second = workers.start(), workers.start()
            await first.get(HOME, "b=2")
            await second.get(HOME)
            await first.get(HOME, "a=1")
            assert await second.get(HOME, "a=; Max-Age=0") == b"b=2"
            assert [c.name for c in workers.stored().cookies.values()] == ["b"]

    async def test_a_response_of_a_dead_session_is_not_taken(self, server, crawl_name):
        """The session was replaced while the page was on its way."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME, "sid=old")
            known, unknown = Request(HOME), Request(HOME)
            await worker.send(known)
            await worker.send(unknown)
            workers.sessions.save(HOME, {"sid": "new"})
            # This one learns of it from the answer to its write.
            await worker.receive(unknown, "sid=old2", "other=1")
            assert await worker.get(HOME) == b"sid=new"
            # And this one knows it before.
            await worker.receive(known, "sid=old3")
            assert await worker.get(HOME) == b"sid=new"
            assert dict(workers.sessions.load(HOME)) == {"sid": "new"}
            assert worker.stat("stale") == 2

    async def test_four_workers_lose_nothing(self, server, crawl_name):
        """Each sets its cookies of one site, at the same time."""
        async with workers_on(server, crawl_name) as workers:
            four = [workers.start() for _ in range(4)]

            async def crawl(number: int, worker: Ours) -> None:
                for n in range(20):
                    await worker.get(HOME, f"w{number}n{n}=1")

            await asyncio.gather(*(crawl(*pair) for pair in enumerate(four)))
            assert len(workers.stored().cookies) == 80
            last = workers.start()
            sent = await last.get(HOME)
            assert sent
            assert sent.count(b"=1") == 80


class TestCost:
    async def test_a_steady_crawl_makes_no_round_trip(self, server, crawl_name):
        """Hundreds of pages of some sites and sessions, and a few looks in between."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            urls = [f"http://site{n % 5}.example/{n}" for n in range(500)]
            for url in urls[:5]:
                await worker.get(url, "sid=1")
            before, since = workers.calls(), time.time()
            for url in urls:
                assert await worker.get(url) == b"sid=1"
            spent = time.time() - since
            assert workers.calls() - before <= 5 * (2 + 2 * spent)

    async def test_pages_without_cookies_cost_the_same(self, server, crawl_name):
        """A site that has no session is not asked for it at each page."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            await worker.get(HOME)
            before, since = workers.calls(), time.time()
            for n in range(300):
                await worker.get(f"{HOME}{n}")
            assert workers.calls() - before <= 2 + 2 * (time.time() - since)


class TestFirst:
    def schedule(self, worker: Ours, request: Request) -> None:
        """As the engine does when it has given a request to the scheduler."""
        worker.crawler.signals.send_catch_log(
            signals.request_scheduled, request=request, spider=worker.crawler.spider
        )

    async def test_a_session_is_there_when_its_request_is(self, server, crawl_name):
        """The first is loaded while its request is stored, and others when needed."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            request, other = Request(HOME), Request("http://other.example")
            for one in (request, other):
                self.schedule(worker, one)
            await await_until(lambda: worker.stat("loaded"))
            for one in (request, other):
                await worker.send(one)
            assert worker.stat("loaded") == 2
            assert len(worker.crawl.sessions) == 2

    @pytest.mark.parametrize(
        ("url", "jar"), [(HOME, []), (HOME, object()), ("data:,", None)]
    )
    async def test_a_request_without_one_is_none_of_its_business(
        self, server, crawl_name, caplog, url, jar
    ):
        """What is wrong with it is said when it is sent."""
        async with workers_on(server, crawl_name) as workers:
            worker = workers.start()
            self.schedule(worker, Request(url, meta={"cookiejar": jar}))
            assert worker.crawl._sessions is None
            assert not caplog.records


class TestOutage:
    async def test_no_page_fails(self, fresh_server, crawl_name, caplog):
        """A process goes on with a jar of its own, and shares it when it can."""
        server = fresh_server(appendonly=True)
        async with workers_on(server, crawl_name) as workers:
            worker, stock = workers.start(), Stock()
            await worker.get(HOME, "a=1")
            request = Request(HOME)
            stock.send(request)
            stock.receive(request, "a=1")
            server.kill()
            since = time.monotonic()
            for n in range(30):
                expected = stock.send(theirs := Request(HOME))
                stock.receive(theirs, f"n{n % 3}={n}", "a=; Max-Age=0")
                sent = await worker.get(HOME, f"n{n % 3}={n}", "a=; Max-Age=0")
                assert sent == expected
            assert time.monotonic() - since < 10
            server.start()
            await await_until(
                lambda: not worker.crawl.sessions.unsaved(workers.key), 20
            )
            assert await worker.get(HOME) == stock.send(Request(HOME))
            other = workers.start()
            assert await other.get(HOME) == stock.send(Request(HOME))
        warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(warnings) == 1

    async def test_there_never_was_a_server(self, crawl_name, caplog):
        """Cookies work, and one line says that they are not shared."""
        worker = Ours("redis://127.0.0.1:1/0", crawl_name)
        for n in range(10):
            await worker.get(HOME, f"a={n}")
        assert await worker.get(HOME) == b"a=9"
        await worker.close()
        assert caplog.text.count("Sessions are not shared for now") == 1


class TestSecrets:
    @pytest.mark.parametrize("debug", [False, True])
    async def test_no_value_is_in_any_log(
        self, server, crawl_name, caplog, *, debug: bool
    ):
        """But in what Scrapy's own COOKIES_DEBUG prints."""
        async with workers_on(server, crawl_name) as workers:
            with caplog.at_level(logging.DEBUG):
                first = workers.start(COOKIES_DEBUG=debug)
                second = workers.start(COOKIES_DEBUG=debug)
                await first.get(HOME, "sid=secret1", f"big=secret2{'x' * 70_000}")
                workers.client.hset(
                    f"{crawl_name}sess:shop.example", "cookie:[1]", "secret3"
                )
                workers.client.hset(
                    f"{crawl_name}sess:shop.example",
                    'cookie:["shop.example","/","bad"]',
                    '{"name":"bad","value":"secret4","domain":7}',
                )
                workers.sessions.update(HOME, {}, proxy="nowhere")
                assert await second.get(HOME) == b"sid=secret1"
                assert "secret" not in repr(second.crawl.sessions.peek(workers.key))
            ours = [r for r in caplog.records if r.name.startswith("scrapy_redis")]
            assert ours
            assert not any("secret" in record.getMessage() for record in ours)
            assert ("secret" in caplog.text) == debug
            stats = first.crawler.stats.get_stats() | second.crawler.stats.get_stats()
            assert "secret" not in str(stats)

    async def test_debug_output_is_scrapys(self, server, crawl_name, caplog):
        """Line for line."""
        name = "scrapy.downloadermiddlewares.cookies"
        async with workers_on(server, crawl_name) as workers:
            with caplog.at_level(logging.DEBUG, name):
                worker = workers.start(COOKIES_DEBUG=True)
                await worker.get(HOME, "a=1", "b=2")
                await worker.get(HOME, cookies={"c": "3"})
                ours = [r.getMessage() for r in caplog.records if r.name == name]
                caplog.clear()
                stock = Stock()
                stock.middleware.debug = True
                request = Request(HOME)
                stock.send(request)
                stock.receive(request, "a=1", "b=2")
                stock.send(request := Request(HOME, cookies={"c": "3"}))
                stock.receive(request)
                theirs = [r.getMessage() for r in caplog.records if r.name == name]
        assert ours == theirs
        assert len(ours) == 2
