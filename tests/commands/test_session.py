"""Shared sessions from the command line: ``session``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_redis_state.commands.renewal_state import renewal_figures, renewal_text
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.sessions import renewal_scripts
from scrapy_redis_state.store.sessions.sessions import Sessions
from tests.commands.commands import Commands, Done, refusal
from tests.servers import Server

pytestmark = pytest.mark.one_server

SITE = "shop.example"
SECRET = "s3cr3t"


class SessionCommands:
    """``scrapy redis-state session``, under a prefix of the test's."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self.prefix = f"{commands.crawl}:"

    def __call__(self, *words: object, text: str = "") -> Done:
        place = ["--url", self._commands.url, "--prefix", self.prefix]
        return self._commands.run("session", *words, *place, text=text)


@pytest.fixture
def session(commands: Commands) -> SessionCommands:
    return SessionCommands(commands)


@pytest.fixture
def sessions(server: Server, session: SessionCommands) -> Iterator[Sessions]:
    """The same sessions, for another program."""
    client = sync_client(server.url)
    yield Sessions(client, session.prefix)
    client.close()


def cookie(name: str, domain: str = f".{SITE}", **fields: object) -> dict[str, object]:
    expires = int(time.time()) + 5000
    known: dict[str, object] = {
        "name": name,
        "value": f"{SECRET} {name}",
        "domain": domain,
        "path": "/",
    }
    known |= {"expires": expires, "httpOnly": True, "secure": True, "sameSite": "Lax"}
    return {**known, **fields}


def test_sessions_are_listed_and_shown_without_values(
    session: SessionCommands, sessions: Sessions
) -> None:
    """Unless they are asked for."""
    assert session("list").output == "no sessions\n"
    sessions.save(
        SITE,
        [cookie("sid"), cookie("old", f"www.{SITE}", expires=-1)],
        user_agent="Mozilla/5.0",
        proxy=f"http://u:{SECRET}@p.example",
        headers={"X-Key": SECRET},
        tokens={"csrf": SECRET},
    )
    sessions.save(SITE, {"sid": SECRET}, session=("bob", 7))
    listed = session("list", "--json").json
    assert [(one["site"], one["session"], one["cookies"]) for one in listed] == [
        (SITE, None, 2), (SITE, '~("bob",7)', 1),
    ]  # fmt: skip
    assert listed[0]["renewal"] is None
    assert 1700 < listed[0]["ttl_secs"] <= 1800
    (line,) = session("list", f"{SITE}:*").lines[1:]
    assert line.split()[:3] == [SITE, '~("bob",7)', "1"]
    for words in ([], ["--json"]):
        shown = session("show", f"https://www.{SITE}/x", *words)
        assert shown.status == 0
        assert SECRET not in shown.output
        for text in ("Mozilla/5.0", "X-Key", "csrf", "sid", f"www.{SITE}", "***"):
            assert text in shown.output, text
    shown = session("show", SITE, "--json", "--reveal").json
    assert shown["tokens"] == {"csrf": SECRET}
    assert [one["value"] for one in shown["cookies"]] == [
        f"{SECRET} sid", f"{SECRET} old",
    ]  # fmt: skip
    named = session("show", SITE, "--session", '~("bob",7)', "--json", "--reveal").json
    assert [one["value"] for one in named["cookies"]] == [SECRET]
    text = refusal(session("show", SITE, "--session", "nobody"))
    assert text == f"There is no session of {SITE} called 'nobody'."


def test_the_renewal_of_a_session_is_shown(
    session: SessionCommands, sessions: Sessions
) -> None:
    """Who makes it anew, since when, and how often that failed."""
    key, started = SessionKey(SITE, "", session.prefix), time.time()
    options: dict[str, Any] = {"ttl": 100, "most_failures": 2, "back_off_ms": 60_000}

    def figures() -> dict[str, Any] | None:
        return renewal_figures(sessions.load(SITE).session)

    def begin() -> None:
        call = renewal_scripts.claim(key, "w1", "", lease_ms=30_000, **options)
        assert run(sessions._client, call).status == "yours"

    def fail() -> None:
        call = renewal_scripts.renewal_failed(key, "w1", counts=True, **options)
        run(sessions._client, call)

    assert renewal_text(figures()) is None
    begin()
    shown = figures()
    assert shown
    assert abs(shown.pop("since") - started) < 60
    assert shown == {
        "state": "running",
        "worker": "w1",
        "retry_at": None,
        "failures": 0,
        "why": None,
    }
    (line,) = (one for one in session("show", SITE).lines if "renewal" in one)
    assert line.startswith("renewal     under way by worker w1 since 20")
    fail()
    shown = figures()
    assert shown
    assert (shown["state"], shown["worker"], shown["failures"]) == ("waiting", None, 1)
    assert 30 < shown["retry_at"] - started < 120
    text = renewal_text(shown) or ""
    assert text.startswith("to be tried again after 20")
    assert text.endswith(", 1 failure")
    sessions._client.hset(str(key), "renewal:retry_at", "0")
    begin()
    assert (renewal_text(figures()) or "").endswith(", 1 failure")
    fail()
    given_up = session("show", SITE, "--json").json["renewal"]
    assert given_up["state"] == "given_up"
    expected = "given up after 2 failures, the last: renew() failed"
    assert renewal_text(given_up) == expected
    (listed,) = session("list", "--json").json
    assert (listed["site"], listed["cookies"]) == (SITE, 0)
    assert listed["renewal"] == given_up
    (line,) = session("list").lines[1:]
    assert line.split()[:3] == [SITE, "-", "0"]
    assert line.endswith(expected)
    sessions._client.delete(str(key))
    begin()
    run(sessions._client, renewal_scripts.renewed(key, "w1", None, ttl=100))
    assert figures() == {"state": "unproven"}
    assert renewal_text(figures()) == "done, and no page was good with it yet"


def test_a_storage_state_comes_back_as_it_went_in(
    session: SessionCommands, sessions: Sessions, tmp_path: Path
) -> None:
    """Of several sites, each of which gets its session; into a private file."""
    state = {
        "cookies": [cookie("sid"), cookie("a", "www.other.example", expires=-1)],
        "origins": [
            {
                "origin": f"https://{SITE}",
                "localStorage": [{"name": "token", "value": SECRET}],
            }
        ],
    }
    done = session("import", "-", "--user-agent", "UA 1", text=json.dumps(state))
    assert done.lines == ["other.example: 1 cookie", f"{SITE}: 1 cookie"]
    identity = sessions.load(SITE).session.identity
    assert identity.user_agent == "UA 1"
    (tmp_path / "out.json").write_text("old")
    words = ["export", SITE, "other.example"]
    done = session(*words, "-o", tmp_path / "out.json")
    assert (done.status, done.output) == (0, "")
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "out.json").read_text()) == state
    text = refusal(session(*words), 2)
    assert text == "where to? Give -o FILE, or --reveal for the output"
    assert session(*words, "--reveal").json == state
    text = refusal(session("export", SITE, "nope.example", "--reveal"))
    assert text == "There is no session of nope.example."


def test_cookies_txt_comes_back_as_it_went_in(
    session: SessionCommands, sessions: Sessions, tmp_path: Path
) -> None:
    """Of one account, of one site among several."""
    expires = int(time.time()) + 5000
    line = f"#HttpOnly_.{SITE}\tTRUE\t/\tTRUE\t{expires}\tsid\t{SECRET}\n"
    text = f"# Netscape HTTP Cookie File\n{line}"
    path = tmp_path / "cookies.txt"
    path.write_text(f"{text}other.example\tFALSE\t/\tFALSE\t0\ta\tb\n")
    words = ["--session", "bob"]
    done = session("import", path, "--site", f"www.{SITE}", *words)
    assert done.lines == [f"{SITE}: 1 cookie"]
    assert sessions.load(SITE, "bob") == {"sid": SECRET}
    assert sessions.load("other.example", "bob") == {}
    done = session("export", SITE, *words, "--format", "cookies.txt", "--reveal")
    assert done.output == text


def test_what_cannot_be_imported_is_told(
    session: SessionCommands, sessions: Sessions, tmp_path: Path
) -> None:
    """Without values; the rest goes in."""
    done = session("import", "-", text=json.dumps([cookie("sid"), cookie("x", "")]))
    assert (done.status, done.lines) == (1, [f"{SITE}: 1 cookie"])
    assert done.errors == "redis-state: left out: cookie 2 has no usable domain\n"
    (tmp_path / "none.txt").write_text(f"{SECRET}\n")
    text = refusal(session("import", tmp_path / "none.txt"))
    assert text.startswith(f"{tmp_path / 'none.txt'} holds no cookies: give a storage")
    assert SECRET not in text
    broken = (
        f"# Netscape HTTP Cookie File\n.{SITE}\tTRUE\t/\tFALSE\t0\tx\ty\n{SECRET}\n"
    )
    (tmp_path / "broken.txt").write_text(broken)
    text = refusal(session("import", tmp_path / "broken.txt"))
    assert f"{tmp_path / 'broken.txt'}: line 3 has not the seven columns" in text
    assert SECRET not in text
    assert [*sessions.load(SITE)] == ["sid"]


def test_a_session_is_forgotten_for_all(
    session: SessionCommands, sessions: Sessions
) -> None:
    """The others of its site are not."""
    sessions.save(SITE, {"sid": SECRET})
    sessions.save(SITE, {"sid": SECRET}, session="bob")
    done = session("invalidate", f"www.{SITE}", "--session", "bob")
    assert done.output == f"the session 'bob' of {SITE} is forgotten\n"
    assert sessions.load(SITE, "bob") == {}
    assert sessions.load(SITE) == {"sid": SECRET}
    text = refusal(session("invalidate", "nope.example"))
    assert text == "There is no session of nope.example."
