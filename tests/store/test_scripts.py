"""The scripts themselves: headers, includes, keys; and the table of keys."""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scrapy_redis_state.store import (
    AsyncCrawlState,
    CrawlState,
    keys,
    operator_scripts,
    scripts,
    start_keys,
)
from scrapy_redis_state.store.call import Call, Script, load_script
from scrapy_redis_state.store.dead import DeadLetter
from scrapy_redis_state.store.keys import CrawlKeys, SessionKey
from scrapy_redis_state.store.messages import (
    Answer,
    Bury,
    CrawlStatus,
    ExchangeRequest,
    Fail,
    JoinRequest,
    Seeding,
    Store,
)
from scrapy_redis_state.store.move import scripts as move_scripts
from scrapy_redis_state.store.sessions import Changes, renewal_scripts
from scrapy_redis_state.store.sessions import scripts as session_scripts
from scrapy_redis_state.store.status import status
from tests.store.crawls import MAX_DELIVERIES, TUNABLE, Crawl, ack, page

FOLDER = Path(scripts.__file__).with_name("lua")
KEYS = CrawlKeys("a")

CALLS: dict[str, Call[Any]] = {
    "exchange": scripts.exchange(KEYS, ExchangeRequest("w", "t", 1, 0, 1)),
    "join": scripts.join(KEYS, JoinRequest("w")),
    "push": scripts.push(KEYS, 1, "t", []),
    "reap": scripts.reap(KEYS),
    "prioritize": scripts.prioritize(KEYS, 1, ["1"]),
    "scan": scripts.scan(KEYS, "0"),
    "reset": scripts.reset(KEYS, 1, "t", force=False),
    "status": status(KEYS, 1),
    "tidy": scripts.tidy(KEYS, "1/0:0"),
    "dead_scan": operator_scripts.dead_scan(KEYS, "0"),
    "dead_look": operator_scripts.dead_look(KEYS, ["1"]),
    "dead_drop": operator_scripts.dead_drop(KEYS, [DeadLetter("1", "2")]),
    "dead_requeue": operator_scripts.dead_requeue(
        KEYS, 1, [(DeadLetter("1", "2"), b"3")]
    ),
    "set_status": operator_scripts.set_status(KEYS, CrawlStatus.PAUSED),
    "peek": operator_scripts.peek(KEYS, 1),
    "delete": operator_scripts.delete(KEYS, 1, "t", force=False, unused_ms=0),
    "export_look": move_scripts.look(KEYS),
    "import_begin": move_scripts.begin(KEYS, 1, "t", {}),
    "import_write": move_scripts.write(KEYS, 1, "t", []),
    "import_end": move_scripts.end(KEYS, 1, "t", "running", sequence=1, sizes=[]),
    "start_take": start_keys.take(
        KEYS, 1, "t", [start_keys.Move(start_keys.Message("start", b"m"), [])]
    ),
}
START_CALLS: dict[str, Call[Any]] = {
    "start_look": start_keys.look(["start"], 1),
    "start_check": start_keys.check(["start"]),
}
SESSION = SessionKey("a.example")
SESSION_CALLS: dict[str, Call[Any]] = {
    "session_load": session_scripts.load(SESSION, 1),
    "session_save": session_scripts.save(SESSION, Changes(), None, 1),
    "session_replace": session_scripts.replace(SESSION, Changes(), 1),
    "session_restore": move_scripts.restore_session(SESSION, [], 1),
    "session_describe": session_scripts.describe(SESSION),
    "session_claim": renewal_scripts.claim(
        SESSION, "h", "", ttl=1, lease_ms=1, most_failures=1, back_off_ms=1
    ),
    "session_confirm": session_scripts.confirm(SESSION, [], "", 1),
    "session_proved": renewal_scripts.proved(SESSION, "1", ttl=1),
    "session_hold": renewal_scripts.hold(SESSION, "h", ttl=1, lease_ms=1),
    "session_renewed": renewal_scripts.renewed(SESSION, "h", None, ttl=1),
    "session_renewal_failed": renewal_scripts.renewal_failed(
        SESSION, "h", ttl=1, most_failures=1, back_off_ms=1, counts=True
    ),
}
ALL_CALLS = CALLS | SESSION_CALLS | START_CALLS


def header(name):
    """Text of the leading comment, by its first words."""
    lines = (FOLDER / f"{name}.lua").read_text().splitlines()
    comment = []
    for line in lines:
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--"))
    text = "\n".join(comment)
    parts = re.split(r"^ (KEYS|ARGV|Returns)\b", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_script_has_a_function():
    """And every function a script."""
    assert set(ALL_CALLS) == {path.stem for path in FOLDER.glob("*.lua")}
    for name, call in ALL_CALLS.items():
        assert call.script == load_script(name)


@pytest.mark.parametrize("name", ALL_CALLS)
def test_a_header_lists_the_arguments_that_are_passed(name):
    """As many as it numbers."""
    described = header(name)
    numbers = list(map(int, re.findall(r"\b(\d+) [\w\"]", described["ARGV"])))
    assert numbers == [*range(1, len(ALL_CALLS[name].args) + 1)]
    assert bool(numbers) != ("none" in described["ARGV"])


@pytest.mark.parametrize("name", ALL_CALLS)
def test_a_header_lists_the_keys_that_are_passed(name):
    """All keys of the crawl in the order of the table, or others."""
    if name in CALLS:
        assert "include/keys.lua" in header(name)["KEYS"]
        more = {"tidy": [KEYS.seen(1)], "start_take": ["start"]}
        assert CALLS[name].keys == KEYS.for_script(1) + more.get(name, [])
    elif name in START_CALLS:
        assert header(name)["KEYS"].split() == ["the", "start", "keys"]
        assert START_CALLS[name].keys == ["start"]
    else:
        assert header(name)["KEYS"].split() == ["1", "the", "session"]
        assert ALL_CALLS[name].keys == [str(SESSION)]


@pytest.mark.parametrize("name", ALL_CALLS)
def test_a_script_reads_the_arguments_that_its_header_lists(name):
    """No more and no fewer."""
    read = {int(n) for n in re.findall(r"ARGV\[(\d+)\]", load_script(name).text)}
    assert read == set(range(1, len(ALL_CALLS[name].args) + 1))


def test_includes_are_put_in():
    """Each is used, and none is left out."""
    used = set()
    for name in ALL_CALLS:
        text = (FOLDER / f"{name}.lua").read_text()
        used |= set(re.findall(r"^-- @include (\w+)$", text, flags=re.MULTILINE))
        assert "@include" not in load_script(name).text
    assert used == {path.stem for path in (FOLDER / "include").glob("*.lua")}


def test_the_names_of_keys_in_scripts_are_those_of_the_table():
    """In the same order."""
    text = (FOLDER / "include" / "keys.lua").read_text()
    named = dict(re.findall(r"(\w+) = KEYS\[(\d+)\]", text))
    full = KEYS.for_script(7)
    assert [int(number) for number in named.values()] == [*range(1, len(full) + 1)]
    for name, key in zip(named, full, strict=True):
        assert key == (KEYS.seen(7) if name == "seen" else KEYS.named(name))


@pytest.mark.parametrize(
    "path", sorted(FOLDER.rglob("*.lua")), ids=lambda path: path.stem
)
def test_no_script_makes_a_key_name(path):
    """Every command gets a key of KEYS: ``K.name``, or a variable that holds one."""
    text = path.read_text()
    calls = re.findall(r"redis\.p?call\(\s*('?[\w.]+'?)\s*(?:,\s*([^)]*))?", text)
    assert len(calls) == len(re.findall(r"redis\.p?call\(", text))
    for command, arguments in calls:
        if command == "'TIME'":
            continue
        key = arguments.split(",")[0].strip()
        known = r"K\.\w+|K\[name\]|KEYS\[[\w +]+\]|\w+ and K\.\w+ or K\.\w+|key"
        assert re.fullmatch(known, key), f"{command}: {key}"
    for caller in re.findall(r"\bpop_from\(([^)]*)\)", text):
        assert "K." in caller or "key" in caller


@pytest.fixture
def used(crawl):
    """A crawl in which every key is there."""
    member = crawl.member(seeding=Seeding.OPEN, tunable=TUNABLE | {"max_per_site": "9"})
    token = member.exchange(seeder=True).summary.seed_token
    member.exchange(
        Store(b"start", seed=b"1", seed_token=token), *map(page, "abcde"), want=0
    )
    one, two, *_ = member.take(3)
    member.exchange(
        Bury(one.id, one.batch, "given up"), Fail(two.id, two.batch, 60_000, "oops")
    )
    for _ in range(MAX_DELIVERIES - 1):
        crawl.later()
        crawl.reap()
        crawl.member(f"w{crawl.field('clock')}").take(9)
    crawl.push(page("f", site="a.example"), page("g", revisit_ms=60_000))
    crawl.member("last").take(1)
    return crawl


def key_table():
    """Name and type of each key, as the documentation has it."""
    rows = re.findall(
        r"^``(\w+):\{<crawl>\}(?::<epoch>)?`` +(\w+) ", keys.__doc__, re.MULTILINE
    )
    return dict(rows)


def test_the_table_of_keys_tells_the_truth(used):
    """Every key of a crawl in full swing is in it, with its type, and no other is."""
    table = key_table()
    expected = {used.key(name): kind.lower() for name, kind in table.items()}
    found = {
        key.decode(): used.client.type(key).decode() for key in used.client.scan_iter()
    }
    assert found == expected
    assert len(table) == len(KEYS.for_script(1))


def test_the_scripts_touch_no_key_that_they_are_not_given(server, used):
    """A cluster would not find it, and no other server says so."""
    given = set(used.keys.for_script(used.epoch))
    with used.client.monitor() as monitor, server.client() as client:
        crawl_on(CrawlState(client, used.keys))
        server.client().execute_command("PING", "the end")
        commands = iter(monitor.next_command, None)
        seen = list(itertools.takewhile(is_not_the_end, commands))
    by_scripts = [one["command"] for one in seen if one["client_type"] == "lua"]
    touched = {key for command in by_scripts for key in keys_of(command)}
    assert len(by_scripts) > 100
    assert touched <= given


def is_not_the_end(command):
    return "the end" not in command["command"]


def keys_of(command):
    """Keys in a command as the server shows it."""
    name, *words = command.split()
    if name.upper() == "TIME":
        return []
    return words if name.upper() == "UNLINK" else words[:1]


def crawl_on(state):
    """Use most of the scripts."""
    while leased := state.lease(2):
        state.push_many(["http://a.example/", "http://b.example/"])
        state.ack(leased[0])
        state.release(*leased[2:])
    state.reap()
    state.status()
    state.reset(force=True)


def test_a_server_that_forgets_the_scripts_is_told_them_again(server, crawl):
    """At whatever moment somebody flushes them; nothing is done twice."""
    over = threading.Event()

    def flush():
        client = server.client()
        while not over.is_set():
            client.script_flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    with CrawlState.connect(server.url, crawl=crawl.keys.crawl) as state:
        urls = [f"http://a.example/{number}" for number in range(100)]
        assert [state.push(one) for one in urls] == [True] * 100
        taken = []
        while leased := state.lease(3):
            taken += [one.url for one in leased]
            assert all(state.ack(*leased))
    over.set()
    thread.join(10)
    assert taken == urls
    assert crawl.summary.done == 100


async def test_asyncio_programs_tell_it_again_as_well(server, crawl):
    """One flush before each call."""
    async with AsyncCrawlState.connect(server.url, crawl=crawl.keys.crawl) as state:
        for number in range(5):
            crawl.client.script_flush()
            assert await state.push(f"http://a.example/{number}")
            crawl.client.script_flush()
            (leased,) = await state.lease()
            assert await state.ack(leased) == [True]


SMALL_LONG = (
    "local string = setmetatable({format = function(form, value)"
    " local is_whole = string.find(form, 'd$')"
    " if is_whole then value = math.max(-2^31, math.min(value, 2^31 - 1)) end"
    " return string.format(form, value) end}, {__index = string}) "
)
"""Makes of a server one of 32 bits, where Lua's ``%d`` is for such numbers alone."""


class CrawlOnSmallServer(Crawl):
    """A crawl on a server of 32 bits."""

    def run(self, call):
        text = SMALL_LONG + call.script.text
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        return super().run(replace(call, script=Script(text, sha)))


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_a_server_of_32_bits_keeps_large_numbers(server, crawl_name, order):
    """Times, ids and priorities are those that any other server has."""
    crawl = CrawlOnSmallServer(server.client(), crawl_name)
    member = crawl.member(identity={"order": order})
    names = ["a", "b", "c"] if order == "fifo" else ["c", "b", "a"]
    member.exchange(page("late", -(2**53)), *map(page, "abc"), page("soon", 2**53))
    crawl.push(page("first", 2**53))
    leases = member.take(6)
    ends = ["soon", "first"] if order == "fifo" else ["first", "soon"]
    assert [one.payload.decode() for one in leases] == [*ends, *names, "late"]
    seconds, _ = server.client().time()
    assert abs(int(crawl.field("last_time")) - 1000 * seconds) < 60_000
    assert 0 <= int(crawl.field("clock")) < 60_000
    assert member.answers(*map(ack, leases)) == (Answer.DONE,) * 6
    assert member.leave().summary.status == "finished"
