"""Crawls whose sessions are renewed: once in the fleet, while other pages go on."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.sharding import choose
from tests.crawl.accounts import Accounts
from tests.crawl.crawls import Crawls, finish, stats, total, wait_until_joined
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server

PROVIDERS = "tests.crawl.project.sessions"
BY_HAND = {
    "ADDONS": "{}",
    "DOWNLOADER_MIDDLEWARES": json.dumps(
        {
            "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
            "scrapy_redis_state.cookies.CookiesMiddleware": 700,
        }
    ),
}
"""The middleware without any other part of the package."""
BEGUN = ": renewal begun"


class AccountsCrawls:
    """Starts workers of the spider ``accounts``."""

    def __init__(self, crawls: Crawls, site: Accounts) -> None:
        self.crawls, self.site = crawls, site
        self.prefix = f"{crawls.bot}-"

    def start(
        self,
        provider: str = "Login",
        settings: Mapping[str, object] | None = None,
        **arguments: Any,
    ) -> Program:
        ours = {
            "REDIS_STATE_KEY_PREFIX": self.prefix,
            "REDIS_STATE_SESSION_PROVIDER": f"{PROVIDERS}.{provider}",
        }
        return self.crawls.start(
            "accounts",
            settings={**ours, **(settings or {})},
            site=self.site.url,
            **arguments,
        )

    def start_held(self, count: int, **options: Any) -> list[Program]:
        """Workers that are all there before the first login is answered."""
        self.site.may_log_in.clear()
        workers = [self.start(**options) for _ in range(count)]
        wait_until_joined(*workers)
        wait_until(lambda: len(self.site.attempts) > 0, 30)
        return workers

    def state(self) -> CrawlState:
        return self.crawls.state("accounts", self.prefix)

    def users(self) -> dict[str, int]:
        return dict(self.crawls.values("user"))

    def problems(self) -> dict[str, int]:
        return dict(self.crawls.values("failed"))


@pytest.fixture
def accounts(crawls: Crawls) -> Iterator[AccountsCrawls]:
    with Accounts() as site:
        yield AccountsCrawls(crawls, site)
        site.may_log_in.set()


def who_renews(workers: list[Program]) -> Program:
    found: list[Program] = []

    def has_begun() -> bool:
        found[:] = [one for one in workers if BEGUN in one.output]
        return bool(found)

    wait_until(has_begun, 30)
    (renewer,) = found
    return renewer


def times(text: str, workers: list[Program]) -> int:
    return sum(worker.output.count(text) for worker in workers)


@pytest.mark.parametrize("reactor", [True, False])
def test_four_processes_log_in_once(accounts: AccountsCrawls, *, reactor: bool) -> None:
    """Though all of them need it at the same time."""
    workers = accounts.start_held(
        4, pages=60, mode="errback", settings={"TWISTED_REACTOR_ENABLED": reactor}
    )
    accounts.site.may_log_in.set()
    finish(*workers)
    assert accounts.problems() == {}
    assert accounts.site.logins == {"ann": 1}
    assert len(accounts.site.attempts) == 1
    assert accounts.users() == {"ann": 60}
    assert {user for _, user in accounts.site.pages} == {"ann"}
    assert total("redis_state/sessions/renewed", workers) == 1
    assert total("redis_state/sessions/put_off", workers) > 0
    assert total("redis_state/sessions/invalid", workers) == 0
    assert total("redis_state/failed", workers) == 0
    assert times(": renewed in ", workers) == times(BEGUN, workers) == 1
    assert not any("PutOff" in line for worker in workers for line in errors(worker))


def errors(worker: Program) -> list[str]:
    lines = worker.output.splitlines()
    return [line for line in lines if re.search(r"\] (ERROR|WARNING|CRITICAL):", line)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["page", "moved"])
def test_a_login_that_the_site_ends_is_made_again(
    accounts: AccountsCrawls, kind: str
) -> None:
    """Judged by a page that is compressed, or by a redirect before it is followed."""
    site = accounts.site
    settings = {"DOWNLOAD_DELAY": 0.05, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    workers = [accounts.start(pages=60, kind=kind, settings=settings) for _ in range(2)]
    for ended in (10, 30):
        wait_until(lambda ended=ended: len(accounts.crawls.items()) >= ended, 60)  # type: ignore[misc]
        site.end("ann")
    finish(*workers)
    assert site.logins == {"ann": 3}
    assert accounts.users() == {"ann": 60}
    assert total("redis_state/sessions/renewed", workers) == 3
    assert total("redis_state/sessions/invalid", workers) >= 2
    assert accounts.crawls.dead("accounts", accounts.prefix) == {}


@pytest.mark.long
def test_other_sites_go_on_meanwhile(accounts: AccountsCrawls) -> None:
    """Pages that wait for a login hold up no worker, though they would come first."""
    workers = accounts.start_held(
        2, pages=40, others=60, settings={"CONCURRENT_REQUESTS": 2}
    )
    wait_until(lambda: len(accounts.crawls.values("other")) > 0, 30)
    wait_until(lambda: accounts.crawls.values("other")["open"] == 60, 60)
    assert accounts.users() == {}
    accounts.site.may_log_in.set()
    finish(*workers)
    assert accounts.users() == {"ann": 40}
    assert accounts.site.logins == {"ann": 1}


def test_a_renewer_that_is_killed_is_replaced(accounts: AccountsCrawls) -> None:
    """By another worker, when its lease is over."""
    workers = accounts.start_held(3, pages=30, settings={"RENEWAL_LEASE": 3})
    renewer = who_renews(workers)
    accounts.site.drop_logins()
    renewer.kill()
    killed = time.time()
    wait_until(lambda: len(accounts.site.attempts) == 2, 30)
    assert accounts.site.attempts[1] - killed < 15
    accounts.site.may_log_in.set()
    workers.remove(renewer)
    finish(*workers)
    assert accounts.users() == {"ann": 30}
    assert times(BEGUN, workers) == 1


@pytest.mark.long
def test_a_worker_that_stops_leaves_it_to_others_at_once(
    accounts: AccountsCrawls,
) -> None:
    """Nobody waits for its lease, and it does not wait for its login."""
    workers = accounts.start_held(2, pages=30)
    renewer = who_renews(workers)
    accounts.site.drop_logins()
    renewer.terminate()
    told = time.time()
    renewer.wait_for_success(15)
    assert "renewal left to others" in renewer.output
    wait_until(lambda: len(accounts.site.attempts) == 2, 15)
    assert accounts.site.attempts[1] - told < 10
    accounts.site.may_log_in.set()
    workers.remove(renewer)
    finish(*workers)
    assert accounts.users() == {"ann": 30}
    assert accounts.crawls.dead("accounts", accounts.prefix) == {}
    assert total("redis_state/sessions/renewal_failed", workers) == 0


@pytest.mark.parametrize("mode", ["errback", ""])
def test_what_cannot_be_renewed_ends(accounts: AccountsCrawls, mode: str) -> None:
    """With the errback, or as a dead letter; the crawl finishes."""
    accounts.site.is_broken = True
    workers = [accounts.start(pages=10, others=10, mode=mode) for _ in range(2)]
    finish(*workers)
    assert len(accounts.site.attempts) == 3
    assert accounts.crawls.values("other") == {"open": 10}
    assert total("redis_state/sessions/renewal_failed", workers) == 3
    assert times("renewal failed (3 of 3): ValueError: the login was", workers) == 1
    assert accounts.site.pages == []
    dead = accounts.crawls.dead("accounts", accounts.prefix)
    if mode == "errback":
        assert accounts.problems() == {"SessionInvalid": 10}
        assert dead == {}
    else:
        assert accounts.problems() == {}
        assert len(dead) == 10
        reasons = {letter.reason for letter in dead.values()}
        assert reasons == {
            "the session of 127.0.0.1: its renewal failed too often; once the login"
            " works, 'scrapy redis-state session invalidate 127.0.0.1' has it tried"
            " again"
        }


@pytest.mark.long
def test_what_was_given_up_is_tried_again_when_a_program_says_so(
    accounts: AccountsCrawls,
) -> None:
    """Whoever repaired the login invalidates the session."""
    accounts.site.is_broken = True
    finish(accounts.start(pages=3))
    accounts.site.is_broken = False
    settings = {"REDIS_STATE_CRAWL_ID": accounts.crawls.bot}
    with accounts.state() as state:
        state.sessions.invalidate(accounts.site.url)
    finish(accounts.start(pages=3, settings=settings))
    assert accounts.users() == {"ann": 3}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["errback", ""])
def test_a_page_that_is_never_good_is_given_up(
    accounts: AccountsCrawls, mode: str
) -> None:
    """After as many renewals as may fail: none of them has made it good."""
    worker = accounts.start(pages=1, kind="never", mode=mode)
    finish(worker)
    assert len(accounts.site.pages) == 3
    assert stats(worker)["redis_state/sessions/invalid"] == 3
    dead = accounts.crawls.dead("accounts", accounts.prefix)
    if mode == "errback":
        assert accounts.problems() == {"SessionInvalid": 1}
        assert dead == {}
    else:
        (letter,) = dead.values()
        assert "renewed too often without a page that was good" in letter.reason


@pytest.mark.long
def test_logins_that_help_no_page_are_few(accounts: AccountsCrawls) -> None:
    """For the whole fleet, and not for each page; then all pages are given up."""
    workers = [accounts.start(pages=12, kind="never", mode="errback") for _ in range(2)]
    finish(*workers)
    assert len(accounts.site.attempts) == 3
    assert accounts.problems() == {"SessionInvalid": 12}
    assert total("redis_state/sessions/renewed", workers) == 3
    assert total("redis_state/sessions/renewal_failed", workers) == 3


@pytest.mark.long
def test_a_page_that_alone_is_never_good_costs_few_logins(
    accounts: AccountsCrawls,
) -> None:
    """Others are good with the same session."""
    settings = {"REDIS_STATE_MAX_DELIVERIES": 6}
    worker = accounts.start(pages=20, kind="mixed", mode="errback", settings=settings)
    finish(worker)
    assert accounts.users() == {"ann": 19}
    assert accounts.problems() == {"SessionInvalid": 1}
    assert len(accounts.site.attempts) <= 4


@pytest.mark.long
def test_two_accounts_are_renewed_each_by_itself(accounts: AccountsCrawls) -> None:
    """The end of one is nothing to the other."""
    settings = {"DOWNLOAD_DELAY": 0.05, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    workers = [
        accounts.start(pages=30, users="ann,bob", settings=settings) for _ in range(2)
    ]
    wait_until(lambda: len(accounts.crawls.items()) >= 20, 60)
    accounts.site.end("bob")
    finish(*workers)
    assert accounts.site.logins == {"ann": 1, "bob": 2}
    assert accounts.users() == {"ann": 30, "bob": 30}


@pytest.mark.long
def test_what_a_program_published_is_used(accounts: AccountsCrawls) -> None:
    """There is a session, so nobody logs in."""
    with accounts.state() as state:
        state.sessions.save(accounts.site.url, {"sid": accounts.site.log_in("ann")})
    finish(accounts.start(pages=5))
    assert accounts.users() == {"ann": 5}
    assert accounts.site.attempts == []


@pytest.mark.long
def test_a_provider_may_hand_in_the_session(accounts: AccountsCrawls) -> None:
    """Cookies with what they are bound to; it needs no base class and no coroutines."""
    sid = accounts.site.log_in("ann")
    finish(accounts.start("HandsIn", pages=5, sid=sid))
    assert accounts.users() == {"ann": 5}
    assert accounts.crawls.values("agent") == {"browser/1": 5}
    with accounts.state() as state:
        session = state.sessions.load(accounts.site.url).session
    assert session.tokens == {"of": "127.0.0.1"}
    assert session.renewal is None


@pytest.mark.long
def test_a_renewal_that_changes_nothing_has_failed(accounts: AccountsCrawls) -> None:
    """Or it would be done again for ever."""
    worker = accounts.start("Useless", pages=3)
    finish(worker)
    assert stats(worker)["redis_state/sessions/renewal_failed"] == 3
    assert "is_needed() says that it still is" in worker.output
    assert len(accounts.crawls.dead("accounts", accounts.prefix)) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "bare"},
        {"settings": {"COOKIES_ENABLED": False}},
        {"settings": {"REDIS_STATE_SESSIONS_ENABLED": False}},
        {"settings": {"REDIS_STATE_SESSION_PROVIDER": ""}},
    ],
)
def test_without_a_shared_session_nothing_is_renewed(
    accounts: AccountsCrawls, how: dict[str, Any]
) -> None:
    """Requests that do not merge cookies, and crawls without cookies."""
    finish(accounts.start(pages=3, **how))
    assert accounts.site.attempts == []
    assert len(accounts.site.pages) == 3


@pytest.mark.long
def test_downloads_by_callbacks_wait_where_they_are(accounts: AccountsCrawls) -> None:
    """They belong to a page that runs already."""
    workers = accounts.start_held(2, pages=10, mode="inner")
    time.sleep(1.5)  # a poll at least has to find that nothing has changed
    accounts.site.may_log_in.set()
    finish(*workers)
    assert accounts.users() == {"ann": 10}
    assert accounts.site.logins == {"ann": 1}
    assert total("redis_state/failed", workers) == 0


@pytest.mark.long
def test_downloads_by_callbacks_do_not_wait_for_ever(accounts: AccountsCrawls) -> None:
    """Their callback gets an error, like any other."""
    settings = {"RENEWAL_PATIENCE": 1}
    (worker,) = accounts.start_held(1, pages=1, mode="inner", settings=settings)
    wait_until(lambda: "no session within 1 s" in worker.output, 30)
    wait_until(lambda: accounts.crawls.dead("accounts", accounts.prefix), 60)
    (letter,) = accounts.crawls.dead("accounts", accounts.prefix).values()
    assert "SessionInvalid" in letter.reason
    accounts.site.may_log_in.set()
    finish(worker)


@pytest.mark.long
def test_a_worker_that_stops_waits_for_no_session(accounts: AccountsCrawls) -> None:
    """Pages whose callback waits for a download are handed back."""
    (worker,) = accounts.start_held(1, pages=4, mode="inner")
    worker.terminate()
    worker.wait_for_success(20)
    accounts.site.may_log_in.set()
    finish(accounts.start(pages=4, mode="inner"))
    assert accounts.users() == {"ann": 4}
    assert total("redis_state/failed", [worker]) == 0
    assert "Traceback" not in worker.output


@pytest.mark.long
def test_a_download_by_a_callback_is_judged_as_well(accounts: AccountsCrawls) -> None:
    """It is sent again, and not for ever."""
    with accounts.state() as state:
        state.sessions.save(accounts.site.url, {"sid": "of yesterday"})
    finish(accounts.start(pages=4, mode="inner"))
    assert accounts.users() == {"ann": 4}
    assert accounts.site.logins == {"ann": 1}


@pytest.mark.long
def test_cookies_alone_renew_as_well(accounts: AccountsCrawls) -> None:
    """With Scrapy's own scheduler, requests wait in their process."""
    workers = [accounts.start(pages=8, settings=BY_HAND) for _ in range(2)]
    finish(*workers)
    assert accounts.users() == {"ann": 16}
    assert accounts.site.logins == {"ann": 1}
    accounts.site.end("ann")
    finish(accounts.start(pages=8, settings=BY_HAND))
    assert accounts.users() == {"ann": 24}
    assert accounts.site.logins == {"ann": 2}
    worker = accounts.start(pages=1, kind="never", mode="errback", settings=BY_HAND)
    finish(worker)
    assert accounts.problems() == {"SessionInvalid": 1}


@pytest.mark.long
def test_rules_for_robots_need_no_login(accounts: AccountsCrawls) -> None:
    """Or the login would wait for them, and they for the login."""
    worker = accounts.start("Everywhere", pages=3, settings={"ROBOTSTXT_OBEY": True})
    finish(worker)
    assert accounts.users() == {"ann": 3}


@pytest.mark.long
def test_pages_wait_while_the_server_of_sessions_is_away(
    accounts: AccountsCrawls, fresh_server: Any
) -> None:
    """Nothing is lost, and nothing fails."""
    away, crawls = fresh_server(), accounts.crawls
    urls = (away.url, crawls.server.url)
    names = [f"{crawls.bot}{number}:x" for number in range(100)]
    id = next(name for name in names if choose(urls, name) != away.url)
    settings = {"REDIS_STATE_URL": json.dumps(urls), "REDIS_STATE_CRAWL_ID": id}
    accounts.site.may_log_in.clear()
    worker = accounts.start(pages=10, others=5, settings=settings)
    wait_until(lambda: len(accounts.site.attempts) == 1, 30)
    away.kill()
    wait_until(lambda: crawls.values("other")["open"] == 5, 30)
    away.start()
    accounts.site.may_log_in.set()
    finish(worker)
    assert accounts.users() == {"ann": 10}
    assert accounts.crawls.dead(id, accounts.prefix) == {}
