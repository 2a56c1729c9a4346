"""The renewal of a session: one holder at a time, and an end to it in every case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_redis_state.store.sessions import (
    Changes,
    Claimed,
    Renewal,
    Saved,
    Session,
    renewal_scripts,
    scripts,
)
from scrapy_redis_state.store.sessions.formats.playwright import write_storage_state
from tests.processes import wait_until
from tests.store.session_store import SITE, TTL, Store, cookie, names

LEASE_MS = 30_000
MOST = 3


@pytest.fixture
def store(scripts_store: Store) -> Store:
    return scripts_store


def claim(
    store: Store,
    holder: str,
    epoch: str,
    *,
    lease_ms: int = LEASE_MS,
    ttl: int = TTL,
    back_off_ms: int = 0,
    page: str = "",
) -> Claimed:
    call = renewal_scripts.claim(
        store.key(),
        holder,
        epoch,
        ttl=ttl,
        lease_ms=lease_ms,
        most_failures=MOST,
        back_off_ms=back_off_ms,
        page=page,
    )
    claimed = store.run(call)
    assert isinstance(claimed, Claimed)
    return claimed


def hold(store: Store, holder: str, lease_ms: int = LEASE_MS) -> bool:
    call = renewal_scripts.hold(store.key(), holder, ttl=TTL, lease_ms=lease_ms)
    return bool(store.run(call))


def renewed(store: Store, holder: str, content: Changes | None = None) -> Saved:
    saved = store.run(renewal_scripts.renewed(store.key(), holder, content, ttl=TTL))
    assert isinstance(saved, Saved)
    return saved


def prove(store: Store, epoch: str) -> Saved:
    saved = store.run(renewal_scripts.proved(store.key(), epoch, ttl=TTL))
    assert isinstance(saved, Saved)
    return saved


def failed(
    store: Store, holder: str, *, counts: bool = True, back_off_ms: int = 0
) -> Saved:
    call = renewal_scripts.renewal_failed(
        store.key(),
        holder,
        ttl=TTL,
        most_failures=MOST,
        back_off_ms=back_off_ms,
        counts=counts,
    )
    saved = store.run(call)
    assert isinstance(saved, Saved)
    return saved


def old_session(store: Store) -> Session:
    """With everything that a session can have."""
    content = Changes((cookie("sid"),), user_agent="a", tokens={"t": "1"})
    return store.run(scripts.replace(store.key(), content, TTL)).session  # type: ignore[no-any-return]


# --- who makes it ---------------------------------------------------------------------


def test_one_of_many_makes_it_anew(store: Store) -> None:
    """The first; the others are told how long it may take."""
    old = old_session(store)
    assert claim(store, "a", old.epoch).status == "yours"
    for holder in ("b", "c"):
        other = claim(store, holder, old.epoch)
        assert other.status == "busy"
        assert LEASE_MS - 5000 < other.ms <= LEASE_MS
        assert other.session.renewal == Renewal("a")


def test_what_is_begun_has_nothing_of_the_old_session(store: Store) -> None:
    """Neither cookies nor identity nor tokens, and what still comes in is stale."""
    old = old_session(store)
    begun = claim(store, "a", old.epoch).session
    assert (names(begun), dict(begun.tokens)) == ([], {})
    assert begun.identity.user_agent is None
    assert begun.stamp > old.stamp
    assert store.save_changes(cookie("late"), epoch=old.epoch).stale
    assert not store.save_changes(cookie("new"), epoch=begun.epoch).stale


def test_there_need_be_no_session(store: Store) -> None:
    """The first login of all is a renewal too."""
    assert claim(store, "a", "").status == "yours"
    assert claim(store, "b", "").status == "busy"
    store.save_changes(cookie("sid"))
    assert names(renewed(store, "a").session) == ["sid"]


def test_one_that_was_forgotten_is_made_anew(store: Store) -> None:
    """An idle session dies; who still knows its epoch may renew it."""
    old = old_session(store)
    store.client.delete(str(store.key()))
    assert claim(store, "a", old.epoch).status == "yours"


def test_who_judged_an_older_session_is_told(store: Store) -> None:
    """It is another one already, so nothing is to be done."""
    old = old_session(store)
    claim(store, "a", old.epoch)
    store.save_changes(cookie("sid", "2"))
    renewed(store, "a")
    late = claim(store, "b", old.epoch)
    assert late.status == "renewed"
    assert late.session.renewal is None
    prove(store, late.session.epoch)
    assert claim(store, "b", late.session.epoch).status == "yours"


def test_a_claim_whose_answer_was_lost_is_repeated(store: Store) -> None:
    """It is the same holder's, and no failure."""
    old = old_session(store)
    begun = claim(store, "a", old.epoch, lease_ms=1).session
    store.save_changes(cookie("csrf"), epoch=begun.epoch)
    again = claim(store, "a", old.epoch)
    assert again.status == "yours"
    assert again.session.renewal == Renewal("a")
    assert again.session.epoch == begun.epoch
    assert names(again.session) == ["csrf"]
    assert claim(store, "b", old.epoch).status == "busy"


# --- signs of life --------------------------------------------------------------------


def test_a_holder_that_is_silent_is_replaced(store: Store) -> None:
    """By whoever claims next; that counts as a failure, and the old one is told."""
    old = old_session(store)
    claim(store, "a", old.epoch, lease_ms=100)
    wait_until(lambda: claim(store, "b", old.epoch).status == "yours", 5)
    assert store.load_session().renewal == Renewal("b", failures=1)
    assert not hold(store, "a")
    assert renewed(store, "a", Changes((cookie("sid"),))).stale
    assert failed(store, "a").stale
    assert store.load_session().renewal == Renewal("b", failures=1)


def test_a_holder_that_kills_whoever_tries_is_given_up(store: Store) -> None:
    """Each death is a failure, so there is an end to it."""
    old = old_session(store)
    claim(store, "a", old.epoch, lease_ms=1)
    for holder in ("b", "c"):
        wait_until(
            lambda holder=holder: (  # type: ignore[misc]
                claim(store, holder, old.epoch, lease_ms=1).status == "yours"
            ),
            5,
        )
    wait_until(lambda: claim(store, "d", old.epoch).status == "failed", 5)


def test_signs_of_life_make_it_last(store: Store) -> None:
    """Each lasts for a lease."""
    old = old_session(store)
    claim(store, "a", old.epoch, lease_ms=500)
    assert hold(store, "a", lease_ms=60_000)
    assert claim(store, "b", old.epoch).ms > LEASE_MS


def test_a_clock_that_was_set_back_makes_nobody_wait(store: Store) -> None:
    """For longer than any lease can be."""
    old = old_session(store)
    claim(store, "a", old.epoch)
    store.put_raw("renewal:until", "99999999999999")
    assert claim(store, "b", old.epoch).status == "yours"


def test_a_session_lives_as_long_as_its_renewal(store: Store) -> None:
    """However short its own time is."""
    claim(store, "a", "", ttl=1)
    assert store.ttl() > LEASE_MS / 1000 - 5
    known = store.load_session(ttl=1)
    assert store.ttl() > LEASE_MS / 1000 - 5
    store.run(scripts.load(store.key(), 1, known.stamp))
    assert store.ttl() > LEASE_MS / 1000 - 5


# --- how it ends ----------------------------------------------------------------------


def test_it_ends_with_what_its_responses_made_of_it(store: Store) -> None:
    """Everybody sees that there is something new."""
    claim(store, "a", "")
    begun = store.save_changes(cookie("sid")).session
    done = renewed(store, "a").session
    assert names(done) == ["sid"]
    assert done.renewal is None
    assert done.stamp > begun.stamp
    assert done.epoch == begun.epoch


def test_it_ends_with_what_its_maker_hands_in(store: Store) -> None:
    """Cookies, identity and tokens together, in the place of everything."""
    claim(store, "a", "")
    store.save_changes(cookie("csrf"), tokens={"form": "1"})
    content = Changes((cookie("sid"),), user_agent="browser/1", tokens={"t": "2"})
    done = renewed(store, "a", content).session
    assert names(done) == ["sid"]
    assert done.identity.user_agent == "browser/1"
    assert done.tokens == {"t": "2"}
    assert done.renewal is None
    assert [name for name in store.fields() if name.startswith("renewal")] == [
        "renewal:unproven"
    ]


def test_a_failure_is_tried_again_later(store: Store) -> None:
    """After a pause that doubles."""
    claim(store, "a", "")
    assert failed(store, "a", back_off_ms=10_000).session.renewal == Renewal("", 1)
    waiting = claim(store, "b", "")
    assert waiting.status == "busy"
    assert 5000 < waiting.ms <= 10_000
    store.put_raw("renewal:retry_at", "0")
    assert claim(store, "b", "").session.renewal == Renewal("b", 1)
    failed(store, "b", back_off_ms=10_000)
    assert 10_000 < claim(store, "c", "").ms <= 20_000


def test_whoever_judged_an_older_session_may_try_after_a_failure(store: Store) -> None:
    """The epoch is another, but what it names is no good."""
    old = old_session(store)
    claim(store, "a", old.epoch)
    failed(store, "a")
    assert claim(store, "b", old.epoch).status == "yours"


def test_too_many_failures_end_it(store: Store) -> None:
    """For all who ask, whatever they judged."""
    old = old_session(store)
    for _ in range(MOST):
        assert claim(store, "a", old.epoch).status == "yours"
        failed(store, "a")
    for epoch in (old.epoch, store.load_session().epoch, ""):
        assert claim(store, "b", epoch).status == "failed"
    assert store.load_session().renewal == Renewal("", MOST, failed=True, why="failed")


def test_a_success_forgets_earlier_failures(store: Store) -> None:
    """Only those in a row count; and it is one when a page was good."""
    for _ in range(2 * MOST):
        epoch = store.load_session().epoch
        claim(store, "a", epoch)
        failed(store, "a")
        claim(store, "a", epoch)
        done = renewed(store, "a", Changes((cookie("sid"),))).session
        assert done.unproven
        assert prove(store, done.epoch).session.renewal is None
        assert not store.load_session().unproven


def test_a_session_that_no_page_is_good_with_has_failed_to_be_renewed(
    store: Store,
) -> None:
    """However often its renewals work; whoever judges a page, once for each."""
    epoch = old_session(store).epoch
    for number in range(1, MOST + 1):
        assert claim(store, f"{number}", epoch, page=f"p{number}").status == "yours"
        renewed(store, f"{number}", Changes((cookie("sid"),)))
        epoch = store.load_session().epoch
        disproved = claim(store, "x", epoch, back_off_ms=10_000, page="q")
        assert disproved.status == "disproved"
        why = "invalid" if number == MOST else ""
        expected = Renewal("", number, failed=number == MOST, why=why)
        assert disproved.session.renewal == expected
        again = claim(store, "y", epoch, back_off_ms=10_000)
        assert again.status == ("failed" if number == MOST else "busy")
        assert again.ms == disproved.ms == 0 or again.ms > 5000 * 2 ** (number - 1)
        if number < MOST:
            store.put_raw("renewal:retry_at", "0")
    assert claim(store, "z", "").status == "failed"


def test_who_proves_another_session_proves_nothing(store: Store) -> None:
    """The proof came too late; or there is nothing to prove."""
    old = old_session(store)
    assert prove(store, old.epoch).stale
    claim(store, "a", old.epoch)
    renewed(store, "a", Changes((cookie("sid"),)))
    before = store.fields()
    assert prove(store, old.epoch).stale
    assert store.fields() == before
    store.client.delete(str(store.key()))
    assert prove(store, "").stale
    assert not store.client.exists(str(store.key()))


def test_a_page_has_a_good_session_renewed_once(store: Store) -> None:
    """After that it is to blame itself, as long as other pages are good."""
    epoch = old_session(store).epoch
    for page in ("p", "q"):
        assert claim(store, "a", epoch, page=page).status == "yours"
        epoch = renewed(store, "a", Changes((cookie("sid"),))).session.epoch
        prove(store, epoch)
    for page in ("p", "q"):
        assert claim(store, "a", epoch, page=page).status == "blamed"
    assert store.load_session().epoch == epoch
    assert claim(store, "a", epoch).status == "yours"  # it was no page


async def test_blame_is_forgotten_with_the_session(store: Store) -> None:
    """Or when there is too much of it."""
    epoch = old_session(store).epoch
    for number in range(60):
        assert claim(store, "a", epoch, page=f"p{number}").status == "yours"
        epoch = renewed(store, "a", Changes((cookie("sid"),))).session.epoch
        prove(store, epoch)
    assert claim(store, "a", epoch, page="p59").status == "blamed"
    assert len(json.loads(store.fields()["renewal:pages"])) == 50
    await store.save(SITE, {"sid": "x"})
    epoch = store.load_session().epoch
    assert claim(store, "a", epoch, page="p59").status == "yours"


def test_who_has_to_stop_leaves_it_to_others(store: Store) -> None:
    """At once, and it is no failure."""
    old = old_session(store)
    claim(store, "a", old.epoch)
    released = failed(store, "a", counts=False, back_off_ms=60_000)
    assert released.session.renewal == Renewal()
    assert claim(store, "b", old.epoch).session.renewal == Renewal("b")


@pytest.mark.parametrize("is_failed", [True, False])
async def test_what_a_program_publishes_is_no_renewal(
    store: Store, *, is_failed: bool
) -> None:
    """It ends all that was under way, and what was given up begins again."""
    for _ in range(MOST if is_failed else 1):
        claim(store, "a", "")
        if is_failed:
            failed(store, "a")
    await store.save(SITE, {"sid": "x"})
    session = store.load_session()
    assert session.renewal is None
    assert renewed(store, "a").stale
    assert not hold(store, "a")
    assert claim(store, "b", session.epoch).status == "yours"
    await store.invalidate(SITE)
    assert store.load_session().renewal is None


# --- what others see ------------------------------------------------------------------


def test_a_renewal_is_no_part_of_a_session(store: Store) -> None:
    """Neither of exports nor, while it may still be made, of lists; nor unknown."""
    claim(store, "a", "")
    begun = store.load_session()
    assert begun.skipped == ()
    assert store.run(scripts.describe(store.key())) is None
    assert begun.cookies == {}
    store.save_changes(cookie("sid"))
    assert "renewal" not in str(write_storage_state(store.load_session()))


@pytest.mark.parametrize(
    "field", ["failures", "until", "retry_at", "holder", "since", "pages"]
)
def test_a_field_that_is_nonsense_stops_nothing(store: Store, field: str) -> None:
    """Other programs may write here."""
    store.put_raw(f"renewal:{field}", "\udcff".encode("utf-8", "surrogateescape"))
    store.put_raw("epoch", "1")
    assert claim(store, "a", "1").status == "yours"
    assert failed(store, "a").session.renewal is not None


def test_what_says_nothing_is_no_renewal(store: Store) -> None:
    """To scripts and readers alike, or a reader would ask again and again."""
    for field in ("until", "failures", "color"):
        store.put_raw(f"renewal:{field}", "3")
    store.put_raw("epoch", "1")
    session = store.load_session()
    assert (session.renewal, session.skipped) == (None, ())
    assert claim(store, "a", "-").status == "renewed"


def test_a_key_that_is_something_else_is_not_renewed(store: Store) -> None:
    """Nor changed; the answer says why."""
    store.client.set(str(store.key()), "x")
    claimed = claim(store, "a", "")
    assert claimed.status == "failed"
    assert "not a hash" in claimed.session.unreadable
    assert not hold(store, "a")
    answers: list[Any] = [renewed(store, "a"), failed(store, "a")]
    assert all("not a hash" in answer.session.unreadable for answer in answers)
    assert store.client.get(str(store.key())) == b"x"
