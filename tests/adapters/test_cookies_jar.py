"""A jar and the sessions it is filled from, without a server."""

from __future__ import annotations

from scrapy import Request

from scrapy_redis_state.sessions.cookie_jar import SharedCookieJar
from scrapy_redis_state.store.sessions import (
    Changes,
    Cookie,
    CookieKey,
    Session,
)
from tests.adapters.cookie_pair import answer

SITE = "shop.example"
REQUEST = Request(f"http://{SITE}/")
OLD, NEW = "1790000000000000", "1790000000000001"


def session(version: int, epoch: str = OLD, **values: str) -> Session:
    cookies = [
        Cookie(name, value, SITE, order=order)
        for order, (name, value) in enumerate(values.items())
    ]
    return Session(
        SITE,
        version=version,
        epoch=epoch,
        cookies={cookie.key: cookie for cookie in cookies},
    )


def key(name: str) -> CookieKey:
    return CookieKey(SITE, "/", name)


def keys(*names: str) -> frozenset[CookieKey]:
    return frozenset(map(key, names))


def receive(jar: SharedCookieJar, *cookies: str) -> dict[str, Changes]:
    """Take the cookies of a response; what is to be written."""
    with jar.noting() as noted:
        jar.extract_cookies(answer(REQUEST, cookies), REQUEST)
    return jar.by_site(noted, SITE, SITE)


def header(jar: SharedCookieJar) -> str:
    request = REQUEST.copy()
    jar.add_cookie_header(request)
    return (request.headers.get("Cookie") or b"").decode()


def test_a_change_that_is_on_its_way_stays():
    """What was loaded meanwhile is older."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    receive(jar, "a=2")
    jar.apply(session(2, a="9", b="1"), keys("a"))
    assert header(jar) == "a=2; b=1"
    jar.apply(session(3, a="2", b="1"))
    assert header(jar) == "a=2; b=1"


def test_a_cookie_that_the_store_refuses_stays():
    """It is too large, say; this process has it all the same."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    receive(jar, "big=2")
    jar.apply(session(2, a="1", c="3"), keys("big"))
    jar.apply(session(3, a="1"))
    assert header(jar) == "a=1; big=2"


def test_a_session_that_ended_takes_everything_with_it():
    """Also what was never stored."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    receive(jar, "b=2")
    jar.apply(session(0, NEW))
    assert header(jar) == ""


def test_a_change_of_a_dead_session_goes_when_it_is_known_to_be_lost():
    """It waited for the server, and was refused there."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    receive(jar, "a=2", "b=2")
    jar.apply(session(5, NEW, a="9"), keys("a", "b"))
    assert header(jar) == "a=2; b=2"
    jar.apply(session(5, NEW, a="9"), keys("a"))
    assert header(jar) == "a=2"
    jar.apply(session(5, NEW, a="9"))
    assert header(jar) == "a=9"


def test_changes_in_vain_are_taken_back():
    """What was set goes, what was deleted comes back."""
    jar = SharedCookieJar()
    jar.apply(session(1, NEW, a="1", b="2"))
    receive(jar, "a=; Max-Age=0", "c=3", "b=9")
    jar.apply(session(1, NEW, a="1", b="2"), dropped=keys("a", "b", "c"))
    assert header(jar) == "a=1; b=2"


def test_deletions_are_noted_with_what_is_known_of_them():
    """Of what is here; of what may be there; and of nothing elsewhere."""
    jar = SharedCookieJar()
    assert receive(jar, "a=; Max-Age=0") == {}
    receive(jar, "b=1")
    changes = receive(jar, "b=; Max-Age=0", "b=; Max-Age=0")
    assert changes == {SITE: Changes(deleted=(key("b"),))}
    jar.apply(session(1))
    changes = receive(jar, "a=; Max-Age=0", "x=; Max-Age=0; Domain=other.example")
    assert changes == {SITE: Changes(deleted=(key("a"),))}


def test_what_is_set_as_it_is_changes_nothing():
    """Neither a cookie that is there nor one that is refused."""
    jar = SharedCookieJar()
    assert set(receive(jar, "a=1")) == {SITE}
    assert receive(jar, "a=1", "b=1; Domain=other.example") == {}
    assert set(receive(jar, "a=1; HttpOnly")) == {SITE}


def test_what_is_set_as_it_is_is_compared_with_the_store_later():
    """If the store has it, or may have it; not what it had no room for."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    assert again(jar, "a=1") == ["a"]
    assert again(jar, "a=1", "a=2") == []
    jar.apply(session(2, a="2"))
    receive(jar, "big=1; Path=/")
    assert again(jar, "big=1", "a=2") == ["big", "a"]
    jar.apply(session(3, a="2"), keys("big"))
    assert again(jar, "big=1") == ["big"]
    jar.apply(session(4, a="2"))
    assert again(jar, "big=1", "a=2") == ["a"]


def test_what_others_deleted_meanwhile_is_compared_as_well():
    """As long as it is not known who was later; then the jar follows the store."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1", b="1"))
    jar.apply(session(2, b="2"), keys("a", "b"))
    assert header(jar) == "a=1; b=1"
    assert again(jar, "a=1", "b=1") == ["a", "b"]
    jar.apply(session(2, b="2"))
    assert header(jar) == "b=2"


def again(jar: SharedCookieJar, *cookies: str) -> list[str]:
    """What a response sets as it was."""
    headers = [f"{cookie}; Path=/" for cookie in cookies]
    with jar.noting() as noted:
        jar.extract_cookies(answer(REQUEST, headers), REQUEST)
    return [cookie.name for cookie in jar.again_by_site(noted).get(SITE, [])]


def test_tidying_up_deletes_nothing_elsewhere():
    """A cookie that expired here may have been renewed there."""
    jar = SharedCookieJar()
    expired = Cookie("a", "1", SITE, expires=1.0)
    jar.apply(Session(SITE, version=1, epoch=OLD, cookies={expired.key: expired}))
    receive(jar, "b=1; Max-Age=1000")
    (made,) = jar
    made.expires = 1
    with jar.noting() as noted:
        jar.jar.clear_expired_cookies()
    assert noted.changed == {}
    assert len(jar) == 0


def test_nothing_is_left_of_what_is_forgotten():
    """No cookie, no key, and no empty dict for each site that ever was."""
    jar = SharedCookieJar()
    jar.apply(session(1, a="1"))
    receive(jar, "b=1; Path=/x", "c=1", "c=; Max-Age=0")
    jar.forget(SITE)
    assert jar.is_unused
    assert jar.jar._cookies == {}
    assert jar._owners == {}
