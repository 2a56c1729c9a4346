"""Requests get what their session is bound to, unless they say otherwise."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware

from tests.adapters.cookie_pair import Ours
from tests.adapters.test_cookies import HOME, Workers, handed_on, workers_on

BROWSER = "Mozilla/5.0 (X11)"
PROXIES = {"p1": "http://ann:secret@proxy1.example:3128", "p2": "http://proxy2:1"}


class Chain:
    """Our middleware among those that set headers and proxies, in Scrapy's order."""

    def __init__(self, worker: Ours) -> None:
        self.worker = worker
        crawler = worker.crawler
        self.before: list[Any] = [
            DefaultHeadersMiddleware.from_crawler(crawler),
            UserAgentMiddleware.from_crawler(crawler),
        ]
        self.before[1].spider_opened(crawler.spider)
        self.after = HttpProxyMiddleware.from_crawler(crawler)

    async def send(self, request: Request) -> Request:
        for middleware in self.before:
            middleware.process_request(request)
        await self.worker.send(request)
        self.after.process_request(request)
        return request


def start(workers: Workers, **settings: Any) -> Chain:
    return Chain(workers.start(REDIS_STATE_SESSION_PROXIES=PROXIES, **settings))


def agent(request: Request) -> bytes | None:
    return request.headers.get("User-Agent")


def authorization(request: Request) -> bytes | None:
    return request.headers.get("Proxy-Authorization")


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_a_session_without_identity_changes_nothing(server, crawl_name):
    """Requests are as they would be without a session."""
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers, USER_AGENT="project/1")
        workers.sessions.save(HOME, {"sid": "1"})
        request = await chain.send(Request(HOME))
        assert agent(request) == b"project/1"
        assert "proxy" not in request.meta


async def test_defaults_give_way(server, crawl_name):
    """User agent, headers and proxy of the session take the place of the project's."""
    async with workers_on(server, crawl_name) as workers:
        headers = {"Accept-Language": "en", "Accept": "*/*"}
        chain = start(workers, DEFAULT_REQUEST_HEADERS=headers)
        workers.sessions.save(
            HOME,
            {"sid": "1"},
            user_agent=BROWSER,
            proxy="p1",
            headers={"accept-language": "de", "X-App": "7"},
        )
        request = await chain.send(Request(HOME))
        assert request.headers["Cookie"] == b"sid=1"
        assert agent(request) == BROWSER.encode()
        assert request.headers["Accept-Language"] == b"de"
        assert request.headers["Accept"] == b"*/*"
        assert request.headers["X-App"] == b"7"
        assert request.meta["proxy"] == "http://proxy1.example:3128"
        assert authorization(request)
        assert chain.worker.stat("identity_overridden") == 0
        elsewhere = await chain.send(Request("http://other.example/"))
        assert agent(elsewhere) != BROWSER.encode()


async def test_the_spiders_user_agent_is_a_default_too(server, crawl_name):
    """It is for all its requests, not for this one."""
    async with workers_on(server, crawl_name) as workers:
        worker = workers.start()
        spider: Any = worker.crawler.spider
        spider.user_agent = "spider/1"
        workers.sessions.save(HOME, {"sid": "1"}, user_agent=BROWSER)
        request = Request(HOME, headers={"User-Agent": "spider/1"})
        await worker.send(request)
        assert agent(request) == BROWSER.encode()


async def test_what_a_request_says_itself_wins(server, crawl_name):
    """And is counted, once for a request."""
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers)
        workers.sessions.save(
            HOME, {"sid": "1"}, user_agent=BROWSER, proxy="p1", headers={"X-App": "7"}
        )
        own = {"User-Agent": "own/1", "X-App": "8"}
        request = await chain.send(
            Request(HOME, headers=own, meta={"proxy": "http://own:1"})
        )
        assert (agent(request), request.headers["X-App"]) == (b"own/1", b"8")
        assert request.meta["proxy"] == "http://own:1"
        assert chain.worker.stat("identity_overridden") == 1
        direct = await chain.send(Request(HOME, meta={"proxy": None}))
        assert direct.meta["proxy"] is None
        assert agent(direct) == BROWSER.encode()
        assert chain.worker.stat("identity_overridden") == 2
        same = await chain.send(Request(HOME, headers={"User-Agent": BROWSER}))
        assert agent(same) == BROWSER.encode()
        assert chain.worker.stat("identity_overridden") == 2


async def test_a_retry_leaves_by_the_new_exit_of_the_same_proxy(server, crawl_name):
    """Providers of proxies tell sessions apart by the user name alone."""
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers)
        exits = [f"http://user-{n}:secret@gate.example:7000" for n in (1, 2)]
        found = []
        request = Request(HOME)
        for number, proxy in enumerate([*exits, "http://gate.example:7000"]):
            workers.sessions.save(HOME, {"sid": str(number)}, proxy=proxy)
            chain.worker.expire()
            request = await chain.send(request.replace(dont_filter=True))
            found.append(authorization(request))
        assert found[0] != found[1]
        assert None not in found[:2]
        assert found[2] is None


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_retry_follows_the_session(server, crawl_name, *, is_stored: bool):
    """It has what the first download was given, which is not its own will."""
    async with workers_on(server, crawl_name) as workers:
        first, second = start(workers), start(workers)
        workers.sessions.save(
            HOME, {"sid": "1"}, user_agent="old", proxy="p1", headers={"X-App": "7"}
        )
        sent = await first.send(Request(HOME, headers={"X-Own": "1"}))
        assert agent(sent) == b"old"
        workers.sessions.save(HOME, {"sid": "2"}, user_agent="new", proxy="p2")
        retry = sent.replace(dont_filter=True)
        taker = first
        if is_stored:
            taker, retry = second, handed_on(retry, first.worker, second.worker)
        taker.worker.expire()
        await taker.send(retry)
        assert retry.headers["Cookie"] == b"sid=2"
        assert agent(retry) == b"new"
        assert retry.meta["proxy"] == PROXIES["p2"]
        assert authorization(retry) is None
        assert "X-App" not in retry.headers
        assert retry.headers["X-Own"] == b"1"
        assert taker.worker.stat("identity_overridden") == 0
        # The session ends: back to what the project says.
        workers.sessions.invalidate(HOME)
        first.worker.expire()
        again = await first.send(sent.replace())
        assert (
            agent(again)
            == (await first.send(Request("http://x.example/"))).headers["User-Agent"]
        )
        assert again.meta.get("proxy") is None
        assert "Cookie" not in again.headers


@pytest.mark.parametrize(
    ("label", "proxy"),
    [
        ("p2", "http://proxy2:1"),
        ("http://direct.example:8080", "http://direct.example:8080"),
        ("socks5://ann:secret@direct.example:1", "socks5://direct.example:1"),
        ("nowhere", None),
    ],
)
async def test_labels_stand_for_proxies(server, crawl_name, caplog, label, proxy):
    """A URL stands for itself; an unknown label is warned about once."""
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers)
        workers.sessions.save(HOME, {"sid": "1"}, proxy=label)
        for _ in range(2):
            request = await chain.send(Request(HOME))
            assert request.meta.get("proxy") == proxy
        expected = 1 if proxy is None else 0
        assert caplog.text.count("none of REDIS_STATE_SESSION_PROXIES") == expected
        assert "secret" not in caplog.text


async def test_a_proxy_of_the_environment_is_a_default(server, crawl_name, monkeypatch):
    """Scrapy puts it into meta, where a retry has it."""
    monkeypatch.setenv("http_proxy", "http://env.example:1")
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers)
        request = await chain.send(Request(HOME))
        assert request.meta["proxy"] == "http://env.example:1"
        workers.sessions.save(HOME, {"sid": "1"}, proxy="p2")
        chain.worker.expire()
        retry = await chain.send(request.replace())
        assert retry.meta["proxy"] == "http://proxy2:1"
        assert chain.worker.stat("identity_overridden") == 0


async def test_requests_that_do_not_merge_have_no_session(server, crawl_name):
    """Neither its cookies nor what they are bound to."""
    async with workers_on(server, crawl_name) as workers:
        chain = start(workers)
        workers.sessions.save(HOME, {"sid": "1"}, user_agent=BROWSER)
        request = Request(HOME, meta={"dont_merge_cookies": True})
        assert agent(await chain.send(request)) != BROWSER.encode()


async def test_memory_of_what_was_given_is_bounded(server, crawl_name):
    """Identities may change with every publication."""
    async with AsyncExitStack() as stack:
        workers = Workers(server, crawl_name, stack)
        chain = start(workers)
        for n in range(20):
            workers.sessions.save(HOME, {"sid": "1"}, user_agent=f"agent/{n}")
            chain.worker.expire()
            await chain.send(Request(HOME))
        (given,) = chain.worker.crawl.given._sessions.values()
        assert len(given) == 8
