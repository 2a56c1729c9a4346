"""Sessions as programs use them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scrapy_redis_state.store import AsyncCrawlState, CrawlState
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.sessions import Cookie, Identity
from tests.processes import await_until
from tests.store.session_store import SITE, TTL, Store, cookie


async def test_what_is_saved_is_loaded(store: Store) -> None:
    """By any host of the site, and by URL."""
    await store.save("www.shop.example", {"sid": "1", "lang": "de"})
    for domain in ("shop.example", "https://www.shop.example:8443/x", "A.SHOP.EXAMPLE"):
        assert await store.load(domain) == {"sid": "1", "lang": "de"}
    assert await store.load("other.example") == {}


async def test_a_plain_cookie_goes_to_the_whole_site(store: Store) -> None:
    """As far as its name allows; an address and localhost have no subdomains."""
    plain = {"sid": "1", "__Host-a": "2", "__Secure-b": "3"}
    saved = await store.save("www.shop.example", plain)
    assert list(saved.session.cookies.values()) == [
        Cookie("sid", "1", ".shop.example"),
        Cookie("__Host-a", "2", "www.shop.example", secure=True),
        Cookie("__Secure-b", "3", ".shop.example", secure=True),
    ]
    for domain, stored in [
        ("http://127.0.0.1:80/", "127.0.0.1"),
        ("http://localhost:80/", "localhost"),
        ("http://[::1]:80/", "[::1]"),
        ("github.io", "github.io"),
        ("http://[::ffff:1.2.3.4]/", "[::ffff:1.2.3.4]"),
    ]:
        (found,) = (await store.save(domain, {"s": "1"})).session.cookies.values()
        assert (found.domain, found.host_only) == (stored, True)
        assert await store.load(domain) == {"s": "1"}


async def test_subdomains_of_an_unknown_suffix_share_cookies(store: Store) -> None:
    """Its last label may end in a digit."""
    for domain, wide in [("www.shop.lan1", ".shop.lan1"), ("shop.com", ".shop.com")]:
        (found,) = (await store.save(domain, {"s": "1"})).session.cookies.values()
        assert found.domain == wide


async def test_all_of_it_comes_back(store: Store) -> None:
    """Cookies with everything, in their order, and what they are bound to."""
    full = [
        cookie("b", "x", path="/a", expires=time.time() + 9.25, secure=True),
        cookie("a", None, domain="www.shop.example", http_only=True, same_site="Lax"),
        cookie("c", "é\u2028\ud800\"'\\", extra={"port": "80", "rest": {"A": None}}),
        cookie("a", "", partition_key="https://shop.example"),
    ]
    headers = {"Accept-Language": "de", "X-Ä": "ö"}
    tokens = {"csrf": "t", "a:b": "", "ü": "ä"}
    await store.save(
        SITE,
        full,
        user_agent="Agent/1",
        proxy="exit-1",
        headers=headers,
        tokens=tokens,
    )
    session = (await store.load(SITE)).session
    assert list(session.cookies.values()) == full
    assert session.identity == Identity("Agent/1", "exit-1", headers)
    assert session.tokens == tokens
    assert session.skipped == ()
    assert abs(session.updated_at - time.time()) < 60


async def test_a_publication_takes_the_place_of_all_there_was(store: Store) -> None:
    """Cookies, identity and tokens."""
    await store.save(
        SITE, {"a": "1", "b": "2"}, user_agent="old", proxy="old", tokens={"t": "old"}
    )
    await store.save(SITE, {"b": "3"}, headers={"X": "new"})
    cookies = await store.load(SITE)
    assert cookies == {"b": "3"}
    assert cookies.session.identity == Identity(headers={"X": "new"})
    assert cookies.session.tokens == {}


async def test_an_update_leaves_the_rest_as_it_is(store: Store) -> None:
    """Only what is given is changed; None and empty delete."""
    await store.save(
        SITE,
        {"a": "1", "b": "2", "c": "3"},
        user_agent="agent",
        proxy="exit-1",
        headers={"X": "1"},
        tokens={"t": "1", "u": "2"},
    )
    await store.update(SITE, {"b": "4", "c": None, "d": "5"}, tokens={"t": None})
    cookies = await store.load(SITE)
    assert cookies == {"a": "1", "b": "4", "d": "5"}
    assert cookies.session.identity == Identity("agent", "exit-1", {"X": "1"})
    assert cookies.session.tokens == {"u": "2"}
    await store.update(SITE, user_agent="other", proxy="", headers={})
    assert (await store.load(SITE)).session.identity == Identity("other")


async def test_a_plain_update_replaces_cookies_of_that_name(store: Store) -> None:
    """Wherever they belong: a program that says ``sid`` means the one there is."""
    await store.save(SITE, [cookie("sid", "1", domain="www.shop.example", path="/x")])
    await store.update(SITE, {"sid": "2"})
    assert await store.load(SITE) == {"sid": "2"}
    await store.update(SITE, [cookie("sid", "3", domain="www.shop.example", path="/")])
    assert len((await store.load(SITE)).session.cookies) == 2


async def test_sessions_of_a_site_do_not_mix(store: Store) -> None:
    """Whatever names them; equal values name the same one."""
    names = [None, "bob", "~bob", 0, "0", ("bob", 7), 1.5, b"bob", ""]
    for number, name in enumerate(names):
        await store.save(SITE, {"n": str(number)}, session=name)
    for number, name in enumerate(names):
        assert await store.load(SITE, session=name) == {"n": str(number)}
    assert await store.load(SITE, session=False) == {"n": "3"}


async def test_an_invalidated_session_is_gone(store: Store) -> None:
    """Until somebody publishes another; other sessions of the site stay."""
    await store.save(SITE, {"sid": "1"}, user_agent="a", tokens={"t": "1"})
    await store.save(SITE, {"sid": "2"}, session="bob")
    await store.invalidate(SITE)
    cookies = await store.load(SITE)
    assert cookies == {}
    assert cookies.session.identity == Identity()
    assert cookies.session.tokens == {}
    assert await store.load(SITE, session="bob") == {"sid": "2"}
    await store.save(SITE, {"sid": "3"})
    assert await store.load(SITE) == {"sid": "3"}


async def test_the_list_has_no_values(store: Store) -> None:
    """Site, session, how many cookies, when it was changed, how long it stays."""
    await store.save(SITE, {"sid": "secret", "b": "secret"})
    await store.save(SITE, {"sid": "secret"}, session=("bob", 1))
    await store.save("http://[::1]:80/", {"sid": "secret"}, session="x")
    await store.save("other.example", {}, tokens={"t": "secret"})
    await store.save("gone.example", {"sid": "secret"})
    await store.invalidate("gone.example")
    found = {(info.site, info.session): info for info in await store.list()}
    assert {place: info.cookies for place, info in found.items()} == {
        ("::1", "x"): 1,
        ("other.example", None): 0,
        (SITE, None): 2,
        (SITE, '~("bob",1)'): 1,
    }
    for info in found.values():
        assert abs(info.updated_at - time.time()) < 60
        assert info.ttl is not None
        assert TTL - 60 < info.ttl <= TTL
    assert "secret" not in repr(found)
    named = found[SITE, '~("bob",1)'].session
    assert await store.load(SITE, session=named) == {"sid": "secret"}
    assert [info.site for info in await store.list("other.*")] == ["other.example"]
    assert [info.session for info in await store.list(f"{SITE}:*")] == ['~("bob",1)']


async def test_a_look_at_the_list_keeps_nobody_alive(store: Store) -> None:
    """Neither does it change anything."""
    await store.save(SITE, {"sid": "1"})
    store.client.expire(str(store.key()), 100)
    before = store.fields()
    await store.list()
    assert store.ttl() <= 100
    assert store.fields() == before


async def test_expired_cookies_are_not_loaded(store: Store) -> None:
    """And are gone from the server."""
    soon = time.time() + 0.3
    await store.save(SITE, [cookie("soon", expires=soon), cookie("later")])

    async def is_gone() -> Any:
        cookies = await store.load(SITE)
        assert "later" in cookies
        assert "soon" not in cookies or time.time() < soon + 1
        return not any("soon" in name for name in store.fields())

    await await_until(is_gone)
    assert time.time() >= soon
    assert await store.load(SITE) == {"later": "1"}


async def test_cookies_of_a_partition_go_nowhere_else(store: Store) -> None:
    """They are kept, and are not among those for the site itself."""
    await store.save(
        SITE,
        [
            cookie("elsewhere", partition_key="https://other.example"),
            cookie("here", partition_key="https://www.shop.example"),
            cookie("both", "1"),
            cookie(
                "both", "2", partition_key={"topLevelSite": "https://other.example"}
            ),
            cookie("odd", partition_key={"what": 1}),
        ],
    )
    cookies = await store.load(SITE)
    assert cookies == {"here": "1", "both": "1"}
    assert len(cookies.session.cookies) == 5


async def test_cookies_as_playwright_has_them_can_be_saved(store: Store) -> None:
    """A list of them, and a storage state."""
    browser = {"name": "sid", "value": "1", "domain": ".shop.example", "path": "/"}
    await store.save(SITE, [browser | {"expires": -1, "sameSite": "Lax"}])
    assert await store.load(SITE) == {"sid": "1"}
    origin = {"origin": "https://www.shop.example", "localStorage": []}
    await store.save(SITE, {"cookies": [browser], "origins": [origin]})
    session = (await store.load(SITE)).session
    assert json.loads(session.tokens["storage_state:origins"]) == [origin]
    await store.save(SITE, [{"name": "a", "value": "1"}])
    (found,) = (await store.load(SITE)).session.cookies.values()
    assert (found.domain, found.host_only) == (SITE, True)


@pytest.mark.parametrize(
    ("cookies", "others", "problem"),
    [
        ({"a": 1}, {}, "'a'"),
        ({"a": "secret\r\nX: y"}, {}, "'a'"),
        ({1: "secret"}, {}, "1"),
        ([{"name": "a"}], {}, "'a'"),
        ([{"name": 1, "value": "secret"}], {}, "name"),
        ([{"name": "a", "value": "secret", "expires": "soon"}], {}, "no time"),
        ([{"name": "a", "value": "secret", "domain": "b.example"}], {}, "b.example"),
        (["a=secret"], {}, "not an object"),
        ([cookie("a", "secret", domain="other.example")], {}, "other.example"),
        ([cookie("a", "secret\n")], {}, "'a'"),
        ({"cookies": [{"name": "a", "value": "secret"}]}, {}, "domain"),
        ({}, {"user_agent": "secret\n"}, "user_agent"),
        ({}, {"proxy": 1}, "proxy"),
        ({}, {"headers": {"X": "secret\r\nY: z"}}, "'X'"),
        ({}, {"headers": {"X\n": "secret"}}, "header"),
        ({}, {"tokens": {"t": 1}}, "'t'"),
    ],
)
async def test_a_value_that_cannot_be_used_is_refused(
    store: Store, cookies, others, problem
) -> None:
    """Named, and not shown; nothing is stored."""
    with pytest.raises(ValueError, match=r"must|needs|cannot|belongs") as caught:
        await store.save(SITE, cookies, **others)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)
    assert await store.list() == []


async def test_text_is_no_cookies(store: Store) -> None:
    """It would be read letter by letter."""
    with pytest.raises(TypeError):
        await store.save(SITE, "a=1")


async def test_what_is_not_ours_is_not_overwritten(store: Store) -> None:
    """A key of another type, or a newer schema: refused, with the reason."""
    store.client.set(str(store.key()), "theirs")
    for change in (
        store.save(SITE, {"a": "1"}),
        store.update(SITE, {"a": "1"}),
        store.invalidate(SITE),
    ):
        with pytest.raises(Refused, match="the key holds a string"):
            await change
    assert await store.load(SITE) == {}
    assert store.client.get(str(store.key())) == b"theirs"
    assert await store.list() == []


async def test_nothing_shows_a_value(store: Store) -> None:
    """Neither ``repr`` nor ``str`` of anything."""
    saved = await store.save(
        SITE,
        [cookie("sid", "secret", partition_key="https://shop.example")],
        user_agent="agent",
        proxy="http://user:secret@proxy.example",
        headers={"Authorization": "secret"},
        tokens={"t": "secret"},
    )
    await store.update(SITE, [cookie("b", "secret", extra={"rest": {"x": "secret"}})])
    loaded = await store.load(SITE)
    assert loaded["sid"] == "secret"
    for thing in (saved, loaded, loaded.session, list(loaded.session.cookies.values())):
        assert "secret" not in f"{thing!r} {thing!s}"


async def test_a_state_of_a_crawl_has_the_sessions(server, crawl_name: str) -> None:
    """Of all under the same prefix, whatever its crawl."""
    where: dict[str, Any] = {"prefix": crawl_name, "session_ttl_secs": 77}
    with CrawlState.connect(server.url, crawl="one", **where) as state:
        state.sessions.save(SITE, {"sid": "1"})
        (info,) = state.sessions.list()
    async with AsyncCrawlState.connect(server.url, crawl="two", **where) as other:
        assert await other.sessions.load(SITE) == {"sid": "1"}
        assert [info.site for info in await other.sessions.list()] == [info.site]
    assert 70 < (info.ttl or 0) <= 77


@pytest.mark.parametrize("prefix", ["a*", "a?", "a[b]", "a\\", "a^"])
async def test_a_prefix_is_no_pattern(server, crawl_name: str, prefix: str) -> None:
    """Others' sessions are not in the list."""
    mine, others = f"{crawl_name}{prefix}", f"{crawl_name}abc"
    for each in (mine, others):
        with CrawlState.connect(server.url, crawl="c", prefix=each) as state:
            state.sessions.save(f"{each == mine}.example", {"a": "1"})
    with CrawlState.connect(server.url, crawl="c", prefix=mine) as state:
        assert [info.site for info in state.sessions.list()] == ["true.example"]
