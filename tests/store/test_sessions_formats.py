"""Cookies of browsers and of other programs, in and out."""

from __future__ import annotations

import http.cookiejar
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.store.sessions import Cookie, Session
from scrapy_redis_state.store.sessions.formats.files import read_cookie_file
from scrapy_redis_state.store.sessions.formats.imported import ORIGINS_TOKEN
from scrapy_redis_state.store.sessions.formats.netscape import (
    read_cookies_txt,
    write_cookies_txt,
)
from scrapy_redis_state.store.sessions.formats.playwright import (
    read_cookies,
    read_storage_state,
    write_cookies,
    write_storage_state,
)
from tests.store.session_store import BROWSER, Store, cookie

LATER = 4_000_000_000.0


def read_one(**fields: Any) -> Cookie:
    found = read_cookies([BROWSER | fields])
    assert found.skipped == ()
    (one,) = found.cookies
    return one


# --- Playwright -----------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_characters="\r\n\0"), max_size=5)
NAMES = st.text(st.characters(exclude_characters="\r\n\0"), min_size=1, max_size=5)
DOMAINS = st.sampled_from(
    (
        *("shop.example", ".shop.example", "www.shop.example", "localhost"),
        *("127.0.0.1", "[::1]", ".other.example", "xn--bcher-kva.example"),
    )
)


@st.composite
def browser_cookies(draw: st.DrawFn) -> dict[str, Any]:
    """A cookie as a browser would have it."""
    secure = draw(st.booleans())
    fields = {
        "name": draw(NAMES),
        "value": draw(TEXT),
        "domain": draw(DOMAINS),
        "path": draw(st.sampled_from(["/", "/a", "/a/b"])),
        "expires": draw(st.just(-1) | st.floats(LATER, 2.5e11)),
        "httpOnly": draw(st.booleans()),
        "secure": secure,
    }
    policies = ["Strict", "Lax", *(["None"] if secure else [])]
    if draw(st.booleans()):
        fields["sameSite"] = draw(st.sampled_from(policies))
    if secure and draw(st.booleans()):
        fields["partitionKey"] = "https://shop.example"
        fields["_crHasCrossSiteAncestor"] = draw(st.booleans())
    return fields


@given(st.lists(browser_cookies(), max_size=5))
def test_a_browsers_cookies_come_back_equal(cookies: list[dict[str, Any]]) -> None:
    """All of each, in their order."""
    found = read_cookies(cookies)
    assert found.skipped == ()
    assert write_cookies(found.cookies) == cookies


async def test_a_storage_state_comes_back_from_the_store(store: Store) -> None:
    """Cookies of several sites, and their local storage untouched."""
    state = {
        "cookies": [
            BROWSER,
            BROWSER | {"name": "b", "expires": LATER + 0.25, "httpOnly": False},
            {**BROWSER, "name": "c", "domain": "127.0.0.1"},
        ],
        "origins": [
            {
                "origin": "https://shop.example",
                "localStorage": [{"name": "t", "value": "é\ud800" * 30_000}],
                "indexedDB": [{"version": 1.5, "stores": []}],
            },
            {"origin": "http://127.0.0.1:8000", "localStorage": []},
        ],
    }
    sessions = []
    for site, content in read_storage_state(state).by_site().items():
        saved = await store.save(site, content.cookies, tokens=content.tokens)
        assert saved.refused == ()
        sessions.append((await store.load(site)).session)
    assert write_storage_state(*sessions) == state


async def test_from_browser_to_http_and_back(store: Store) -> None:
    """A worker without a browser changes the session, and a browser goes on with it."""
    await store.save("shop.example", [BROWSER])
    assert await store.load("www.shop.example") == {"sid": "1"}
    await store.update("shop.example", [cookie("cart", "7", http_only=True)])
    (sid, cart) = write_storage_state((await store.load("shop.example")).session)[
        "cookies"
    ]
    assert sid == BROWSER
    assert cart == {
        "name": "cart",
        "value": "7",
        "domain": ".shop.example",
        "path": "/",
        "expires": -1,
        "httpOnly": True,
        "secure": False,
    }


@pytest.mark.parametrize("expires", [-1, 0, None, -1.0, 0.0])
def test_the_ways_to_say_session_cookie(expires: float | None) -> None:
    """As does leaving it out."""
    assert read_one(expires=expires).expires is None
    found = read_cookies([{k: v for k, v in BROWSER.items() if k != "expires"}])
    assert found.cookies[0].expires is None


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [
        (4_000_000_000.52, 4_000_000_000.52),
        (4_000_000_000_520, 4_000_000_000.52),
        (253_402_300_799, 253_402_300_799),  # the year 9999 is a popular one
    ],
)
def test_times_are_seconds_even_if_given_in_milliseconds(
    expires: float, seconds: float
) -> None:
    """Fractions stay."""
    assert read_one(expires=expires).expires == seconds


@pytest.mark.parametrize("expires", [1, 1_000_000_000.5, 1_000_000_000_000, -2])
def test_what_has_expired_is_dropped(expires: float) -> None:
    """In seconds or milliseconds."""
    assert read_cookies([BROWSER | {"expires": expires}]).cookies == ()


@pytest.mark.parametrize(
    "expires", ["1", True, [], float("nan"), float("inf"), 10**400]
)
def test_what_is_no_time_is_reported(expires: Any) -> None:
    """The cookie is left out, the others are not."""
    found = read_cookies([BROWSER | {"expires": expires}, BROWSER])
    assert len(found.cookies) == 1
    assert found.skipped == ("cookie 1 expires at what is no time",)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("Strict", "Strict"),
        ("lax", "Lax"),
        ("None", "None"),
        ("no_restriction", "None"),
        ("unspecified", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_words_for_same_site(given: Any, stored: str | None) -> None:
    """Extensions have their own; what says nothing is left out again."""
    one = read_one(sameSite=given)
    assert one.same_site == stored
    (written,) = write_cookies([one])
    assert written.get("sameSite") == stored


def test_same_site_none_is_written_for_secure_cookies_only() -> None:
    """A browser refuses it for others."""
    for secure in (True, False):
        (written,) = write_cookies([cookie("a", secure=secure, same_site="None")])
        assert ("sameSite" in written) is secure


def test_a_partitioned_cookie_stays_one() -> None:
    """In both forms of its key."""
    for key in ("https://a.example", {"topLevelSite": "https://a.example"}):
        one = read_one(partitionKey=key, _crHasCrossSiteAncestor=True)
        assert one.partition_key == key
        (written,) = write_cookies([one])
        assert written["partitionKey"] == key
        assert written["_crHasCrossSiteAncestor"] is True


@pytest.mark.parametrize(
    ("fields", "is_valid"),
    [
        ({"name": "__Host-s", "domain": "a.shop.example"}, True),
        ({"name": "__Host-s"}, False),
        ({"name": "__host-s"}, False),
        ({"name": "__Host-s", "domain": "a.shop.example", "path": "/x"}, False),
        ({"name": "__Host-s", "domain": "a.shop.example", "secure": False}, False),
        ({"name": "__Secure-s"}, True),
        ({"name": "__Secure-s", "secure": False, "sameSite": "Lax"}, False),
    ],
)
def test_names_that_promise_something(fields: dict[str, Any], is_valid: bool) -> None:
    """What breaks it is not taken from a browser's list, and never given to one."""
    found = read_cookies([BROWSER | fields, BROWSER])
    assert len(found.cookies) == 1 + is_valid
    assert len(found.skipped) == 1 - is_valid
    if is_valid:
        assert write_cookies(found.cookies) == [BROWSER | fields, BROWSER]
    stored = Cookie(
        fields["name"],
        "1",
        fields.get("domain", ".shop.example"),
        path=fields.get("path", "/"),
        secure=fields.get("secure", True),
    )
    written = write_cookies([stored, cookie("other")])
    assert [one["name"] for one in written] == [fields["name"]] * is_valid + ["other"]


def test_a_host_cookie_is_of_one_host() -> None:
    """No sibling gets it, in the store or from it."""
    one = read_one(name="__Host-s", domain="a.shop.example")
    assert one.host_only
    (written,) = write_cookies([one])
    assert (written["domain"], written["path"]) == ("a.shop.example", "/")


def test_what_a_browser_refuses_is_not_written() -> None:
    """One of them would fail the call for all."""
    cookies = [
        cookie(""),
        cookie("a", path="x"),
        cookie("b", expires=1.0),
        cookie("c", None),
        cookie("d", expires=1e15),
    ]
    assert [
        (one["name"], one["value"], one["expires"]) for one in write_cookies(cookies)
    ] == [("c", "", -1), ("d", "1", 253_402_300_799)]


def test_cookies_of_browser_extensions_are_read() -> None:
    """Other words for the same."""
    exported = {
        "name": "sid",
        "value": "1",
        "domain": "shop.example",
        "hostOnly": False,
        "expirationDate": LATER,
        "session": False,
        "sameSite": "unspecified",
        "storeId": "0",
    }
    (one,) = read_cookies([exported, exported | {"hostOnly": True}]).cookies[:1]
    assert (one.domain, one.expires, one.path) == (".shop.example", LATER, "/")


@pytest.mark.parametrize(
    "junk",
    [
        None,
        "a=1",
        {},
        {"name": "a"},
        BROWSER | {"name": None},
        BROWSER | {"value": 1},
        BROWSER | {"value": "x\r\ny"},
        BROWSER | {"domain": ""},
        BROWSER | {"domain": 5},
        BROWSER | {"domain": "//["},
        BROWSER | {"path": 5},
        BROWSER | {"partitionKey": 5},
        BROWSER | {"value": "x" * 70_000},
    ],
)
def test_junk_in_a_list_is_reported(junk: Any) -> None:
    """And the rest is read."""
    found = read_cookies([junk, BROWSER])
    assert len(found.cookies) == 1
    (report,) = found.skipped
    assert report.startswith("cookie 1 ")
    assert "xx" not in report


def test_nothing_of_a_storage_state_is_lost_in_silence() -> None:
    """What cannot be kept is reported."""
    state = {"cookies": [BROWSER], "origins": [{"x": 1}, None], "more": []}
    assert len(read_storage_state(state).skipped) == 3
    every: list[dict[str, Any]] = [{"cookies": {}}, {"cookies": [], "origins": None}]
    for broken in every:
        with pytest.raises(ValueError, match="list of cookies"):
            read_storage_state(broken)


def test_local_storage_that_is_none_is_not_exported() -> None:
    """Another program wrote it: the token is named."""
    for text in ("{", "{}", "null"):
        session = Session("a.example", tokens={ORIGINS_TOKEN: text})
        with pytest.raises(ValueError, match="storage_state:origins"):
            write_storage_state(session)


def test_what_is_read_hides_its_values() -> None:
    """In ``repr``."""
    state: dict[str, Any] = {"cookies": [BROWSER | {"value": "secret"}]}
    state["origins"] = [{"origin": "https://a.example", "x": "secret"}]
    found = read_storage_state(state)
    assert "secret" not in f"{found!r} {found.by_site()!r}"


# --- cookies.txt ----------------------------------------------------------------------

FIELD = st.text(st.characters(exclude_characters="\r\n\0\t"), max_size=5)


@st.composite
def file_cookies(draw: st.DrawFn) -> Cookie:
    """A cookie of which a cookies.txt has all."""
    return Cookie(
        name=draw(FIELD.filter(bool)),
        value=draw(FIELD | st.none()),
        domain=draw(DOMAINS),
        path=draw(st.sampled_from(["/", "/a", "/a/b c"])),
        expires=draw(st.none() | st.integers(4 * 10**9, 10**11).map(float)),
        secure=draw(st.booleans()),
        http_only=draw(st.booleans()),
    )


@given(st.lists(file_cookies(), max_size=5))
def test_a_cookies_txt_comes_back_equal(cookies: list[Cookie]) -> None:
    """Whatever is in names and values."""
    found = read_cookies_txt(write_cookies_txt(cookies))
    assert found.skipped == ()
    assert list(found.cookies) == cookies


@given(st.lists(file_cookies(), max_size=5, unique_by=lambda one: one.key))
def test_other_programs_read_it(cookies: list[Cookie]) -> None:
    """As :mod:`http.cookiejar` does."""
    cookies = [one for one in cookies if is_utf8(one)]
    jar = http.cookiejar.MozillaCookieJar()
    text = write_cookies_txt(cookies)
    read_by_jar(jar, text)
    found = {(c.domain, c.path, c.name, c.value, c.expires, c.secure) for c in jar}
    assert found == {
        (c.domain, c.path, c.name, c.value, c.expires, c.secure) for c in cookies
    }
    http_only = {c.name for c in jar if c.has_nonstandard_attr("HTTPOnly")}
    assert http_only == {c.name for c in cookies if c.http_only}


def is_utf8(one: Cookie) -> bool:
    try:
        (one.name + (one.value or "")).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_by_jar(jar: Any, text: str) -> None:
    """Read text as a file in which only line feeds end lines."""
    lines = iter(text.split("\n"))

    class File:
        def readline(self) -> str:
            line = next(lines, "")
            return f"{line}\n" if line else ""

    jar._really_load(File(), "file", ignore_discard=True, ignore_expires=True)


def test_a_file_that_http_cookiejar_wrote_is_read(tmp_path: Path) -> None:
    """And it reads ours."""
    path = tmp_path / "cookies.txt"
    ours = [
        cookie("a", "1", expires=LATER),
        cookie("b", "2", domain="www.shop.example", path="/x", secure=True),
        cookie("c", None, http_only=True),
    ]
    path.write_text(write_cookies_txt(ours))
    jar = http.cookiejar.MozillaCookieJar(path)
    jar.load(ignore_discard=True)
    jar.save(ignore_discard=True)
    assert sorted(read_cookie_file(path).cookies, key=lambda c: c.name) == ours


def test_files_as_other_tools_write_them() -> None:
    """Without a header, with 0 for a session, lines of Windows, lost tabs."""
    found = read_cookies_txt(
        "shop.example\tTRUE\t/\tFALSE\t0\ta\t1\r\n"
        "\n# a comment\n"
        ".shop.example\tFALSE\t/\tTRUE\t4000000000\tb\n"
        "#HttpOnly_.shop.example\ttrue\t\tfalse\t\tc\t3\n"
        ".shop.example\tTRUE\t/\tFALSE\t1\told\t1\n"
    )
    assert found.skipped == ()
    assert list(found.cookies) == [
        cookie("a"),
        cookie("b", "", domain="shop.example", secure=True, expires=LATER),
        cookie("c", "3", http_only=True),
    ]


def test_lines_that_cannot_be_used_are_reported() -> None:
    """By their number."""
    found = read_cookies_txt(
        "# Netscape HTTP Cookie File\n"
        ".shop.example\tTRUE\t/\tFALSE\tsoon\ta\tsecret\n"
        "\tTRUE\t/\tFALSE\t0\tb\tsecret\n"
        ".shop.example\tTRUE\t/\tFALSE\t0\t\t\n"
        ".shop.example\tTRUE\t/\tFALSE\tnan\tc\tsecret\n"
    )
    assert found.cookies == ()
    assert [line.split()[:2] for line in found.skipped] == [
        ["line", "2"],
        ["line", "3"],
        ["line", "4"],
        ["line", "5"],
    ]
    assert "secret" not in str(found.skipped)


def test_what_a_cookies_txt_has_no_place_for_is_left_out() -> None:
    """A partitioned cookie would be an ordinary one to others."""
    cookies = [
        cookie("a", partition_key="https://b.example"),
        cookie("b", "x\ty"),
        cookie("c", expires=time.time() - 1),
        cookie("d"),
    ]
    assert [
        one.name for one in read_cookies_txt(write_cookies_txt(cookies)).cookies
    ] == ["d"]


# --- files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"cookies": [BROWSER], "origins": []}),
        "\ufeff" + json.dumps({"cookies": [BROWSER]}),
        f"  {json.dumps([BROWSER])}\n",
        "# Netscape HTTP Cookie File\n"
        "#HttpOnly_.shop.example\tTRUE\t/\tTRUE\t0\tsid\t1\n",
    ],
)
def test_a_file_is_read_whatever_its_form(tmp_path: Path, text: str) -> None:
    """Nobody has to say which it is."""
    path = tmp_path / "cookies"
    path.write_text(text, encoding="utf-8")
    (one,) = read_cookie_file(path).cookies
    assert (one.name, one.domain, one.http_only) == ("sid", ".shop.example", True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"hello",
        b"a\tb\n",
        b"{",
        b"[",
        b"{}",
        b'{"a": 1}',
        b'"text"',
        b"7",
        b'{"cookies": 5}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_neither_is_refused_by_name(
    tmp_path: Path, content: bytes
) -> None:
    """In one line that says what would be right."""
    path = tmp_path / "holiday.jpg"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"holiday\.jpg holds no cookies") as caught:
        read_cookie_file(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_empty_list_is_a_list(tmp_path: Path) -> None:
    """And an empty jar is a jar."""
    for text in ("[]", "# Netscape HTTP Cookie File\n", '{"cookies": []}'):
        path = tmp_path / "cookies"
        path.write_text(text)
        assert read_cookie_file(path).cookies == ()


def test_an_empty_session_is_an_empty_state() -> None:
    """It has both lists."""
    assert write_storage_state(Session("a.example")) == {"cookies": [], "origins": []}
