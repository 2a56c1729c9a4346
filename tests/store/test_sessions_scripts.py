"""What one step does to a session: versions, epochs, ages and limits."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from scrapy_redis_state.store.sessions import (
    Changes,
    Cookie,
    CookieKey,
    Session,
    Stamp,
    scripts,
)
from scrapy_redis_state.store.sessions.cookie import MAX_COOKIE_BYTES
from scrapy_redis_state.store.sessions.session import MAX_SESSION_BYTES
from tests.processes import wait_until
from tests.store.session_store import TTL, Store, cookie, names


@pytest.fixture
def store(scripts_store: Store) -> Store:
    return scripts_store


def far(seconds: float) -> float:
    return time.time() + seconds


# --- what is stored -------------------------------------------------------------------


def test_a_session_is_plain_json_in_a_hash(store: Store) -> None:
    """One field per cookie, readable from any language."""
    store.save_changes(cookie("sid", "x", expires=1e10), tokens={"csrf": "t"})
    fields = store.fields()
    assert set(fields) == {
        "schema",
        "epoch",
        "grown",
        "recent",
        "version",
        "updated_at",
        "token:csrf",
        'cookie:[".shop.example","/","sid"]',
    }
    assert fields["schema"] == "1"
    assert json.loads(fields['cookie:[".shop.example","/","sid"]']) == {
        "name": "sid",
        "value": "x",
        "domain": ".shop.example",
        "path": "/",
        "expires": 1e10,
        "secure": False,
        "httpOnly": False,
        "hostOnly": False,
        "order": 2,
    }
    assert abs(float(fields["updated_at"]) - time.time()) < 60
    assert len(fields["epoch"]) == 16


def test_where_nothing_is_stored_nothing_is_made(store: Store) -> None:
    """Neither by looking nor by deleting."""
    assert store.load_session() == Session("shop.example")
    saved = store.save_changes(deleted=(cookie("a").key,), tokens={"t": None})
    assert saved.session == Session("shop.example")
    assert not saved.stale
    assert store.run(scripts.describe(store.key())) is None
    assert not store.client.exists(str(store.key()))


def test_cookies_keep_the_order_in_which_they_came(store: Store) -> None:
    """One that is changed keeps its place; one that comes again is the last."""
    store.save_changes(cookie("b"), cookie("a"), cookie("c"))
    store.save_changes(cookie("d"), cookie("b", "2"))
    assert names(store.load_session()) == ["b", "a", "c", "d"]
    store.save_changes(deleted=(cookie("a").key,))
    store.save_changes(cookie("a"))
    assert names(store.load_session()) == ["b", "c", "d", "a"]
    store.save_changes(cookie("c", "2"), deleted=(cookie("c").key,))
    assert names(store.load_session()) == ["b", "d", "a", "c"]


def test_a_cookie_is_its_name_path_and_domain(store: Store) -> None:
    """And its partition. With and without a dot are two."""
    same = [
        cookie("T"),
        cookie("T", path="/bar"),
        cookie("T", domain="shop.example"),
        cookie("T", domain="www.shop.example"),
        cookie("t"),
        cookie("T", partition_key="https://a.example"),
        cookie("T", partition_key={"topLevelSite": "https://b.example", "x": True}),
    ]
    store.save_changes(*same)
    assert list(store.load_session().cookies.values()) == same
    assert [*store.load_session().cookies] == [one.key for one in same]
    store.save_changes(deleted=tuple(one.key for one in same[:6]))
    assert list(store.load_session().cookies.values()) == same[6:]


# --- versions and epochs --------------------------------------------------------------


def test_every_change_raises_the_version(store: Store) -> None:
    """And nothing else does."""
    stamps = [store.save_changes(cookie("a")).session.stamp]
    every: list[dict[str, Any]] = [
        {"tokens": {"t": "1"}},
        {"deleted": (cookie("a").key,)},
        {"user_agent": "x"},
        {"headers": {"a": "b"}},
        {"user_agent": ""},
    ]
    stamps += [store.save_changes(**changes).session.stamp for changes in every]
    assert stamps == sorted(set(stamps))
    store.save_changes(cookie("b"))
    before = store.load_session().stamp
    store.save_changes(cookie("b"), deleted=(cookie("x").key,), tokens={"t": "1"})
    assert store.load_session().stamp == before


def test_a_replaced_session_goes_on_counting(store: Store) -> None:
    """Of two states the later has the higher version, too."""
    versions = [store.save_changes(cookie("a"), cookie("b")).session.version]
    published = Changes(cookies=(cookie("c"),))
    for call in (
        scripts.replace(store.key(), published, TTL),
        scripts.invalidate(store.key(), TTL),
    ):
        versions.append(store.run(call).session.version)  # noqa: PERF401
    assert versions == sorted(set(versions))


def test_what_is_known_is_not_sent_again(store: Store) -> None:
    """It counts as a use all the same."""
    stamp = store.save_changes(cookie("a")).session.stamp
    store.client.expire(str(store.key()), 10)
    assert store.run(scripts.load(store.key(), TTL, stamp)) is None
    assert store.ttl() > 10
    store.save_changes(cookie("b"))
    assert names(store.load_session(stamp)) == ["a", "b"]


def test_a_slow_writer_does_not_bring_back_a_dead_session(store: Store) -> None:
    """Invalidated or replaced: its changes are dropped, and it is told the news."""
    store.save_changes(cookie("sid", "old"), tokens={"t": "1"}, user_agent="x")
    slow = store.load_session()
    store.run(scripts.invalidate(store.key(), TTL))
    saved = store.save_changes(cookie("sid", "late"), epoch=slow.epoch)
    assert saved.stale
    assert saved.session.cookies == {}
    assert saved.session.stamp > slow.stamp
    assert store.load_session().cookies == {}

    published = Changes(cookies=(cookie("sid", "new"),))
    store.run(scripts.replace(store.key(), published, TTL))
    for epoch in (slow.epoch, saved.session.epoch):
        saved = store.save_changes(cookie("sid", "late"), epoch=epoch)
        assert saved.stale
        assert [one.value for one in saved.session.cookies.values()] == ["new"]
    saved = store.save_changes(cookie("b"), epoch=saved.session.epoch)
    assert not saved.stale
    assert names(saved.session) == ["sid", "b"]


def test_a_deletion_is_not_undone_by_a_slow_writer(store: Store) -> None:
    """Who writes what a response changed does not write what it knew before."""
    known = store.save_changes(cookie("sid"), cookie("cart")).session
    store.save_changes(deleted=(cookie("sid").key,), epoch=known.epoch)
    saved = store.save_changes(cookie("cart", "2"), epoch=known.epoch)
    assert not saved.stale
    assert names(saved.session) == ["cart"]


def test_a_session_that_was_forgotten_begins_anew(store: Store) -> None:
    """With what the writer changed, and nothing else; it is later than the old one."""
    old = store.save_changes(cookie("a"), cookie("b")).session
    store.client.delete(str(store.key()))
    saved = store.save_changes(cookie("b", "2"), epoch=old.epoch)
    assert not saved.stale
    assert names(saved.session) == ["b"]
    assert saved.session.stamp > old.stamp


def test_epochs_rise_though_the_clock_goes_back(store: Store) -> None:
    """A later epoch is the later session."""
    store.put(schema="1", epoch="9999999999999999"[:15], version="5")
    ahead = str(int(time.time() * 1e6) + 10**12)
    store.put(epoch=ahead)
    first = store.run(scripts.invalidate(store.key(), TTL)).session
    second = store.run(scripts.invalidate(store.key(), TTL)).session
    assert int(ahead) < int(first.epoch) < int(second.epoch)
    assert Stamp(ahead, 5) < first.stamp < second.stamp


# --- age ------------------------------------------------------------------------------


def test_every_use_begins_its_time_anew(store: Store) -> None:
    """Loading, saving, replacing, invalidating, and a save that came too late."""
    session = store.save_changes(cookie("a", expires=far(10**7))).session
    for use in (
        scripts.load(store.key(), TTL),
        scripts.load(store.key(), TTL, session.stamp),
        scripts.save(store.key(), Changes(cookies=(cookie("b"),)), None, TTL),
        scripts.replace(store.key(), Changes(), TTL),
        scripts.invalidate(store.key(), TTL),
        scripts.save(store.key(), Changes(cookies=(cookie("b"),)), session.epoch, TTL),
    ):
        store.client.expire(str(store.key()), 10)
        store.run(use)
        assert TTL - 10 < store.ttl() <= TTL


def test_an_idle_session_is_forgotten(store: Store) -> None:
    """Whatever its cookies say."""
    store.save_changes(cookie("a", expires=far(10**7)), ttl=1)
    wait_until(lambda: not store.client.exists(str(store.key())))


def test_without_a_time_it_lives_as_long_as_its_longest_cookie(store: Store) -> None:
    """For ever with a session cookie, or with something that has no age."""
    store.save_changes(
        cookie("a", expires=far(100)), cookie("b", expires=far(900)), ttl=0
    )
    assert 890 < store.ttl() <= 900
    store.save_changes(cookie("c"), ttl=0)
    assert store.ttl() == math.inf
    store.save_changes(deleted=(cookie("c").key, cookie("b").key), ttl=0)
    assert 90 < store.ttl() <= 100
    store.save_changes(cookie("a", expires=far(1e16)), ttl=0)
    assert store.ttl() == math.inf
    store.save_changes(tokens={"t": "1"}, deleted=(cookie("a").key,), ttl=0)
    assert store.ttl() == math.inf
    store.run(scripts.invalidate(store.key(), 0))
    assert 86_000 < store.ttl() <= 86_400
    store.run(scripts.replace(store.key(), Changes(cookies=(cookie("a"),)), TTL))
    store.load_session(ttl=0)
    assert store.ttl() == math.inf


def test_what_is_no_cookie_keeps_no_session_alive(store: Store) -> None:
    """Only what can be read counts."""
    store.put_raw('cookie:["d","/","n"]', "{")
    store.save_changes(cookie("a", expires=far(100)), ttl=0)
    assert 90 < store.ttl() <= 100


def expire(store: Store, name: str) -> str:
    """Make a stored cookie one that has just expired; its field."""
    (field,) = [field for field in store.fields() if f'"{name}"' in field]
    dead = json.loads(store.fields()[field]) | {"expires": time.time() - 0.5}
    store.put_raw(field, json.dumps(dead))
    return field


def test_expired_cookies_are_neither_counted_nor_used(store: Store) -> None:
    """Also those that expire while somebody knows them."""
    expires = far(100)
    session = store.save_changes(cookie("a", expires=expires), cookie("b")).session
    assert [one.name for one in session.current_cookies()] == ["a", "b"]
    assert [one.name for one in session.current_cookies(expires)] == ["b"]
    expire(store, "a")
    assert store.run(scripts.describe(store.key())).cookies == 1


def test_expired_cookies_are_cleaned_up(store: Store) -> None:
    """On load and on save; the others stay."""
    for clean in (
        store.load_session,
        lambda: store.save_changes(cookie("new")).session,
    ):
        store.save_changes(cookie("old", expires=far(100)), cookie("kept"))
        field = expire(store, "old")
        assert "old" not in names(clean())
        assert field not in store.fields()
        assert "kept" in names(store.load_session())


@pytest.mark.parametrize("ttl", [TTL, 0])
def test_a_server_whose_clock_is_ahead_takes_no_cookie_away(
    store: Store, monkeypatch: pytest.MonkeyPatch, ttl: int
) -> None:
    """What has not expired for the program that uses it stays."""
    behind = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: behind)
    saved = store.save_changes(cookie("a", expires=behind + 60), ttl=ttl)
    assert names(saved.session) == ["a"]
    assert names(store.load_session(ttl=ttl)) == ["a"]
    published = Changes(cookies=(cookie("b", expires=behind + 60),))
    saved = store.run(scripts.replace(store.key(), published, ttl))
    assert names(saved.session) == ["b"]
    assert store.ttl() > 50
    monkeypatch.undo()
    assert store.load_session(ttl=ttl).cookies == {}


def test_setting_an_expired_cookie_deletes_it(store: Store) -> None:
    """As a browser does with ``Max-Age=0``."""
    store.save_changes(cookie("a"), cookie("b"))
    saved = store.save_changes(cookie("a", expires=far(-1)), cookie("c", expires=0.5))
    assert names(saved.session) == ["b"]
    assert len([name for name in store.fields() if name.startswith("cookie:")]) == 1


# --- limits ---------------------------------------------------------------------------


def test_a_cookie_that_is_too_large_is_not_stored(store: Store) -> None:
    """It is reported, and the rest is stored."""
    large = cookie("large", "x" * MAX_COOKIE_BYTES)
    just = cookie("just", "")
    just = cookie("just", "x" * (MAX_COOKIE_BYTES - len(just.to_json())))
    saved = store.save_changes(cookie("a"), large, just, cookie("b"))
    assert names(saved.session) == ["a", "just", "b"]
    (report,) = saved.refused
    assert "large" in report
    assert "65536" in report
    assert "xxx" not in report
    assert store.load_session() == saved.session


def test_a_session_does_not_outgrow_its_limit(store: Store) -> None:
    """What has no room is reported, and what is smaller still fits."""
    size = MAX_COOKIE_BYTES - 1000
    many = [cookie(f"c{number}", "x" * size) for number in range(20)]
    saved = store.save_changes(*many, cookie("small"))
    assert "small" in names(saved.session)
    assert len(saved.session.cookies) + len(saved.refused) == 21
    assert len(saved.refused) in range(3, 6)
    assert all("full" in line and "c1" in line for line in saved.refused)
    fields = store.fields()
    assert sum(map(len, fields)) + sum(map(len, fields.values())) < (
        MAX_SESSION_BYTES + 200
    )
    changed = store.save_changes(cookie("c0", "y" * size), cookie("c1", "z" * size))
    assert changed.refused == ()
    assert names(changed.session) == names(saved.session)


def test_a_cookie_that_would_break_a_header_is_not_stored(store: Store) -> None:
    """Nobody could send it."""
    saved = store.save_changes(cookie("a", "1\r\nSet: x"), cookie("b\0"), cookie("c"))
    assert names(saved.session) == ["c"]
    assert len(saved.refused) == 2


# --- what others wrote ----------------------------------------------------------------

JUNK = {
    "no JSON": ('cookie:["d","/","n"]', "{"),
    "deep": ('cookie:["d","/","n"]', "[" * 100_000),
    "other JSON": ('cookie:["d","/","n"]', "[1]"),
    "null": ('cookie:["d","/","n"]', "null"),
    "no name": ('cookie:["d","/","n"]', '{"value": "v", "domain": "d"}'),
    "odd value": ('cookie:["d","/","n"]', '{"name":"n","domain":"d","value":1}'),
    "odd flag": (
        'cookie:["d","/","n"]',
        '{"name":"n","domain":"d","value":"v","secure":"yes"}',
    ),
    "NaN": (
        'cookie:["d","/","n"]',
        '{"name":"n","domain":"d","value":"v","expires":NaN}',
    ),
    "huge": (
        'cookie:["d","/","n"]',
        f'{{"name":"n","domain":"d","value":"v","expires":1{"0" * 400}}}',
    ),
    "true time": (
        'cookie:["d","/","n"]',
        '{"name":"n","domain":"d","value":"v","expires":true}',
    ),
    "other key": ('cookie:["d","/","n"]', '{"name":"m","domain":"d","value":"v"}'),
    "no domain": ('cookie:["","/","n"]', '{"name":"n","domain":"","value":"v"}'),
    "header": ('cookie:["d","/","n"]', '{"name":"n","domain":"d","value":"v\\r\\nx"}'),
    "field": ("cookie:n", '{"name":"n","domain":"d","value":"v"}'),
    "long field": ('cookie:["d","/","n","","x"]', "{}"),
    "short": ("cookie", "{}"),
    "unknown": ("colour", "blue"),
    "unknown kind": ("flavour:x", "1"),
    "own kind": ("schema:x", "1"),
    "headers": ("headers", "[]"),
    "a header": ("headers", '{"a": 1}'),
    "broken header": ("headers", '{"a": "1\\r\\n2"}'),
    "agent": ("user_agent", "a\r\nb"),
    "bytes": (b"token:x", b"\xff"),
    "bytes in name": (b"\xff\n", b"1"),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK.keys())
def test_what_cannot_be_read_is_reported_and_left_out(store: Store, junk) -> None:
    """The rest is used, and writing goes on."""
    field, value = junk
    store.save_changes(cookie("a"), tokens={"t": "1"})
    store.put_raw(field, value)
    session = store.load_session()
    (report,) = session.skipped
    assert "\n" not in report
    assert names(session) == ["a"]
    assert session.tokens == {"t": "1"}
    saved = store.save_changes(cookie("b"), deleted_names=("n",), epoch=session.epoch)
    assert names(saved.session) == ["a", "b"]
    assert store.run(scripts.describe(store.key())).cookies in (2, 3)
    store.save_changes(cookie("c"), ttl=0)
    assert names(store.load_session()) == ["a", "b", "c"]


def test_odd_numbers_do_no_harm(store: Store) -> None:
    """Where an epoch, a version or an order should be."""
    store.save_changes(cookie("a"), cookie("b"))
    (field,) = [name for name in store.fields() if '"a"' in name]
    cookie_a = json.loads(store.fields()[field])
    store.put_raw(field, json.dumps(cookie_a | {"order": "first"}))
    assert names(store.load_session()) == ["b"]
    store.put_raw(field, json.dumps(cookie_a | {"order": -1.5e300}))
    store.put(version="many", epoch="x", updated_at="yesterday")
    session = store.load_session()
    assert (session.version, session.updated_at) == (0, 0)
    assert names(session) == ["a", "b"]
    saved = store.save_changes(cookie("a", "2"), cookie("c"))
    assert set(names(saved.session)) == {"a", "b", "c"}
    assert saved.session.version > 0
    assert int(store.run(scripts.invalidate(store.key(), TTL)).session.epoch) > 1e15


def test_a_hash_that_another_program_made_is_used(store: Store) -> None:
    """It need not know of versions and epochs."""
    store.put_raw(
        'cookie:[".shop.example","/","sid"]',
        '{"name": "sid", "value": "1", "domain": ".shop.example", "new": [1]}',
    )
    (found,) = store.load_session().cookies.values()
    assert found == cookie("sid", "1", extra={"new": [1]})
    saved = store.save_changes(cookie("b"), epoch="1")
    assert not saved.stale
    assert names(saved.session) == ["sid", "b"]
    assert saved.session.epoch


@pytest.mark.parametrize("schema", ["2", "", "x" * 1000])
def test_a_newer_schema_is_left_alone(store: Store, schema: str) -> None:
    """Neither read nor written; the crawl goes on without."""
    store.save_changes(cookie("a"))
    store.put(schema=schema)
    before = store.fields()
    session = store.load_session(Stamp(before["epoch"], int(before["version"])))
    assert session.cookies == {}
    assert "schema" in session.unreadable
    assert len(session.unreadable) < 100
    saved = store.save_changes(cookie("b"))
    assert not saved.stale
    assert "schema" in saved.refused[0]
    assert store.run(scripts.replace(store.key(), Changes(), TTL)).session.unreadable
    assert store.run(scripts.describe(store.key())) is None
    assert store.fields() == before


def test_a_key_of_another_type_is_left_alone(store: Store) -> None:
    """The same."""
    store.client.rpush(str(store.key()), "theirs")
    for known in (None, Stamp("1", 1)):
        assert "a list" in store.load_session(known).unreadable
    assert store.save_changes(cookie("a")).session.unreadable
    assert store.client.lrange(str(store.key()), 0, -1) == [b"theirs"]


# --- a server without room ------------------------------------------------------------


def test_a_full_server_refuses_a_change_as_a_whole(server, store: Store) -> None:
    """Deleting and invalidating still work."""
    store.save_changes(cookie("a"), cookie("b"), tokens={"t": "1"})
    before = store.fields()
    store.client.config_set("maxmemory", "1")
    try:
        changes = Changes(cookies=(cookie("c"),), deleted=(cookie("a").key,))
        for call in (
            scripts.save(store.key(), changes, None, TTL),
            scripts.replace(store.key(), changes, TTL),
        ):
            with pytest.raises(Exception, match="maxmemory"):
                store.run(call)
        assert store.fields() == before
        assert names(store.load_session()) == ["a", "b"]
        assert names(store.save_changes(deleted=(cookie("a").key,)).session) == ["b"]
        store.run(scripts.invalidate(store.key(), TTL))
        assert store.load_session().cookies == {}
    finally:
        store.client.config_set("maxmemory", "0")


def test_a_save_that_is_sent_twice_is_one(store: Store) -> None:
    """Its first reply may be lost."""
    first = store.save_changes(
        cookie("a"), deleted=(CookieKey("x", "/", "y"),), tokens={"t": "1"}
    )
    again = store.save_changes(
        cookie("a"),
        deleted=(CookieKey("x", "/", "y"),),
        tokens={"t": "1"},
        epoch=first.session.epoch,
    )
    assert again.session.stamp == first.session.stamp
    assert isinstance(next(iter(again.session.cookies.values())), Cookie)
