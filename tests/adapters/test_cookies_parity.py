"""In one process, every Cookie header is what stock Scrapy sends."""

from __future__ import annotations

import contextlib
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from scrapy import Request

from tests.adapters.cookie_pair import Ours, Stock

FAMILIES = [
    ["example.com", "www.example.com", "a.b.www.example.com", "EXAMPLE.com"],
    ["example.com.", "example.com", "www.example.com."],
    ["shop.co.uk", "www.shop.co.uk", "other.co.uk"],
    ["ann.github.io", "bob.github.io", "www.bob.github.io"],
    ["127.0.0.1", "10.0.0.1"],
    ["[::1]", "[2001:db8::1]"],
    ["shop.internal", "a.shop.internal", "b.internal"],
    ["b\u00fccher.example", "xn--bcher-kva.example", "www.b\u00fccher.example"],
]
"""Hosts that may have to do with each other."""
CROSSING = [
    ["localhost", "localhost.local", "intranet", "printer.local", "a.printer.local"],
    ["co.uk", "shop.co.uk"],
    ["github.io", "ann.github.io", "bob.github.io"],
]
"""Hosts of different sites that get cookies of each other in stock Scrapy, too."""
ODD_DOMAINS = ["com", ".co.uk", ".local", ".internal", "", ".", "..example.com", "::1"]
PATHS = ["/", "/a", "/a/", "/a/b", "/A", "/a%20b", "/\u00e9", "", "a", "/a?b"]
URL_PATHS = ["/", "/a", "/a/", "/a/b", "/A", "/a%20b", "", "/a?b"]
NAMES = ["a", "b", "A", "", "__Host-x", "__Secure-y", "\u00e9", "a b", "expires"]
VALUES = ["", "1", "2", '"q"', "a=b", "a b", "\u00e9", "x;y", "\u2603", '"a;b"', "1,2"]
JARS = [None, 0, "0", "", "~0", ("acc", 7), 1.5, True, b"x", frozenset({1})]

ATTRIBUTES = [
    "Secure",
    "HttpOnly",
    "Max-Age=0",
    "Max-Age=-1",
    "Max-Age=1000",
    "Max-Age=100000000000000000000",
    "Max-Age=x",
    "Expires=Thu, 01 Jan 1970 00:00:00 GMT",
    "Expires=Fri, 31 Dec 2100 23:59:59 GMT",
    "Expires=never",
    "SameSite=Lax",
    "samesite=none",
    "Port",
    'Port="80,8080"',
    "Version=1",
    "Version=x",
    "Comment=c",
    "Discard",
    "Partitioned",
    "=",
    "",
]


def some(*, often: Any, rarely: Any) -> Any:
    """One of the first mostly, of the second sometimes."""
    return st.integers(0, 7).flatmap(lambda n: rarely if n == 0 else often)


def domains_of(hosts: list[str]) -> Any:
    """What may be said to be the domain of a cookie."""
    bare = [host.strip("[]") for host in hosts]
    parents = [host.partition(".")[2] for host in bare if "." in host]
    near = [*bare, *(f".{one}" for one in bare), *parents]
    return some(often=st.sampled_from(near), rarely=st.sampled_from(ODD_DOMAINS))


@st.composite
def set_cookies(draw: Any, hosts: list[str]) -> str | bytes:
    """A Set-Cookie header."""
    name = draw(some(often=st.sampled_from("ab"), rarely=st.sampled_from(NAMES)))
    text = f"{name}={draw(st.sampled_from(VALUES))}"
    if draw(st.integers(0, 9)) == 0:
        text = draw(st.sampled_from(["", name, f"{text}, second=1; Path=/"]))
    if draw(st.booleans()):
        text += f"; Domain={draw(domains_of(hosts))}"
    if draw(st.booleans()):
        text += f"; Path={draw(st.sampled_from(PATHS))}"
    for attribute in draw(st.lists(st.sampled_from(ATTRIBUTES), max_size=2)):
        text += f"; {attribute}"
    if draw(st.integers(0, 15)) == 0:
        return text.encode("latin-1", "replace")
    return text


def request_cookies(hosts: list[str]) -> Any:
    """What a request may have as its ``cookies``."""
    verbose = st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES),
            "value": st.sampled_from([*VALUES, 1, 1.5, True]),
        },
        optional={
            "domain": domains_of(hosts),
            "path": st.sampled_from(PATHS),
            "secure": st.booleans(),
        },
    )
    return st.one_of(
        st.none(),
        st.none(),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3),
        st.lists(verbose, max_size=3),
    )


@st.composite
def requests(draw: Any, hosts: list[str], jars: list[Any]) -> dict[str, Any]:
    """Arguments of a Request."""
    port = draw(st.sampled_from(["", "", ":80", ":8080"]))
    scheme, host = (
        draw(st.sampled_from(["http", "https"])),
        draw(st.sampled_from(hosts)),
    )
    meta: dict[str, Any] = {}
    if draw(st.booleans()):
        meta["cookiejar"] = draw(st.sampled_from(jars))
    if draw(st.integers(0, 9)) == 0:
        meta["dont_merge_cookies"] = draw(st.booleans())
    fields: dict[str, Any] = {"meta": meta, "cookies": draw(request_cookies(hosts))}
    if draw(st.integers(0, 9)) == 0:
        fields["headers"] = {"Cookie": "hand=made"}
    url = f"{scheme}://{host}{port}{draw(st.sampled_from(URL_PATHS))}"
    return {"url": url, **fields}


@st.composite
def steps(draw: Any, families: list[list[str]], *others: str) -> Any:
    """What happens: requests are sent, responses come in any order, time passes."""
    hosts = draw(st.sampled_from(families))
    jars = draw(st.lists(st.sampled_from(JARS), min_size=1, max_size=3))
    cookies = st.lists(set_cookies(hosts), max_size=4)
    sending = st.tuples(st.just("send"), requests(hosts, jars))
    receiving = st.tuples(st.just("receive"), st.tuples(st.integers(0, 4), cookies))
    passing = st.tuples(st.sampled_from(others), st.none())
    one = st.one_of(sending, receiving, sending, receiving, passing)
    return draw(st.lists(one, min_size=4, max_size=25))


class Pair:
    """Both middlewares, and the requests that both have in the air."""

    def __init__(self, ours: Ours) -> None:
        self.ours, self.stock = ours, Stock()
        self.in_air: list[tuple[Request, Request]] = []

    async def send(self, fields: dict[str, Any]) -> None:
        mine, theirs = Request(**fields), Request(**fields)
        error = None
        try:
            expected = self.stock.send(theirs)
        except Exception as raised:  # noqa: BLE001 - whatever Scrapy raises
            error = raised
        if error is not None:
            with pytest.raises(type(error)):
                await self.ours.send(mine)
            return
        assert await self.ours.send(mine) == expected
        assert mine.headers == theirs.headers
        if expected:
            event("a Cookie header")
        self.in_air.append((mine, theirs))

    async def receive(self, what: tuple[int, list[str | bytes]]) -> None:
        number, cookies = what
        if not self.in_air:
            return
        mine, theirs = self.in_air.pop(number % len(self.in_air))
        error = None
        try:
            self.stock.receive(theirs, *cookies)
        except Exception as raised:  # noqa: BLE001 - whatever Scrapy raises
            error = raised
        with contextlib.nullcontext() if error is None else pytest.raises(type(error)):
            await self.ours.receive(mine, *cookies)

    async def run(self, steps: list[tuple[str, Any]]) -> None:
        for what, argument in steps:
            if what in ("send", "receive"):
                await getattr(self, what)(argument)
            elif what == "forget":
                self.ours.forget()
            else:
                self.ours.expire()


class Fleet(Pair):
    """Workers that take turns, and know the latest at each request."""

    def __init__(self, *workers: Ours) -> None:
        super().__init__(workers[0])
        self.workers = workers
        self.senders: dict[int, Ours] = {}
        self.turn = 0

    async def send(self, fields: dict[str, Any]) -> None:
        self.turn += 1
        self.ours = self.workers[self.turn % 3 % 2]
        self.ours.expire()
        before = len(self.in_air)
        await super().send(fields)
        for mine, _ in self.in_air[before:]:
            self.senders[id(mine)] = self.ours

    async def receive(self, what: tuple[int, list[str | bytes]]) -> None:
        if self.in_air:
            mine, _ = self.in_air[what[0] % len(self.in_air)]
            self.ours = self.senders[id(mine)]
        await super().receive(what)


relaxed = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def compare(server: Any, prefix: str, steps: Any, workers: int = 1) -> None:
    """Run steps through stock Scrapy, and through workers of an empty server."""
    server.client().flushall()
    async with AsyncExitStack() as stack:
        ours = [Ours(server.url, prefix) for _ in range(workers)]
        for worker in ours:
            stack.push_async_callback(worker.close)
        await (Pair(*ours) if workers == 1 else Fleet(*ours)).run(steps)


@pytest.mark.one_server
@relaxed
@given(steps=steps([*FAMILIES, *CROSSING], "expire"))
async def test_every_header_is_what_stock_scrapy_sends(server, crawl_name, steps):
    """Whatever sites set and spiders ask for, in any order."""
    await compare(server, crawl_name, steps)


@pytest.mark.one_server
@relaxed
@given(steps=steps(FAMILIES, "expire", "forget"))
async def test_what_was_forgotten_comes_back_from_the_store(server, crawl_name, steps):
    """A jar that was thrown out of memory is equal when it is needed again."""
    await compare(server, crawl_name, steps)


@pytest.mark.one_server
@relaxed
@given(steps=steps(FAMILIES, "expire", "forget"))
async def test_many_workers_send_what_one_would(server, crawl_name, steps):
    """Whichever worker has a request, its header is that of one stock process."""
    await compare(server, crawl_name, steps, workers=2)
