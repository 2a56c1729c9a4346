"""The fingerprinter: one page is one fingerprint, and the project's own is honoured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import JsonRequest
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter, fingerprint

from scrapy_redis_state import Addon
from scrapy_redis_state.crawl import SharedCrawl
from scrapy_redis_state.fingerprinter import (
    LONGEST_REMEMBERED,
    URLS_REMEMBERED,
    CanonicalRequestFingerprinter,
)
from scrapy_redis_state.requests import page_identity
from scrapy_redis_state.store import CrawlState, scripts, url_fingerprint
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import JoinStatus
from scrapy_redis_state.store.runner import run

NAME = "REQUEST_FINGERPRINTER_CLASS"
FALLBACK = "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS"
STRIP = "REDIS_STATE_STRIP_QUERY_PARAMS"
OURS = "scrapy_redis_state.fingerprinter.CanonicalRequestFingerprinter"
STOCK = "scrapy.utils.request.RequestFingerprinter"

PAGE = "http://h.example/p?a=1&b=2"
SPELLINGS = (
    PAGE,
    "http://H.example/p?b=2&a=1",
    "http://h.example:80/p?a=1&b=2#top",
    "http://h.example./p?utm_source=mail&a=1&b=2",
    "http://h.example/p?a=1&b=2&gclid=x",
)


class Shop(Spider):
    name = "shop"


class Headers:
    """Looks at a header too, as in Scrapy's documentation."""

    def fingerprint(self, request: Request) -> bytes:
        return fingerprint(request, include_headers=["Accept-Language"])


class Fragments:
    """Of a project that crawls pages made by scripts."""

    def fingerprint(self, request: Request) -> bytes:
        return fingerprint(request, keep_fragments=True)


class FromMeta:
    """Takes what a request brings, and remembers what it was given."""

    last: Request

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FromMeta:
        found = cls()
        found.name = crawler.settings["BOT_NAME"]
        return found

    name = ""

    def fingerprint(self, request: Request) -> bytes:
        self.last = request
        if "fingerprint" in request.meta:
            return bytes(request.meta["fingerprint"])
        return f"{self.name} {request.url}".encode()


class Session(RequestFingerprinter):
    """Scrapy's, and the account of the request."""

    def fingerprint(self, request: Request) -> bytes:
        return (
            super().fingerprint(request) + str(request.meta.get("cookiejar")).encode()
        )


class OursToo(CanonicalRequestFingerprinter):
    pass


class OddRequest(Request):
    """A request of a kind of its own."""


def crawler_with(settings: dict[str, Any] | None = None, *, addon: bool = True) -> Any:
    """Make a crawler with the settings of the add-on, or of a project without it."""
    addons = {"ADDONS": {Addon: 500}} if addon else {}
    crawler = Crawler(Shop, {**addons, "BOT_NAME": "bot", **(settings or {})})
    crawler.spider = Shop.from_crawler(crawler)
    crawler.addons.load_settings(crawler.settings)
    return crawler


def fingerprinter(settings: dict[str, Any] | None = None, **options: bool) -> Any:
    """What such a crawler uses."""
    crawler = crawler_with(settings, **options)
    return build_from_crawler(load_object(crawler.settings[NAME]), crawler)


class TestFingerprints:
    def test_all_spellings_of_a_page_have_one(self):
        """And it is that of Scrapy for the canonical one."""
        ours = fingerprinter()
        found = {ours.fingerprint(Request(url)) for url in SPELLINGS}
        assert found == {fingerprint(Request(PAGE))}

    @pytest.mark.parametrize("url", SPELLINGS)
    def test_programs_have_the_same(self, url: str):
        """What CrawlState claims, a crawl with default settings filters."""
        assert fingerprinter().fingerprint(Request(url)) == url_fingerprint(url)

    def test_the_request_is_not_touched(self):
        """What is fetched is what the spider asked for."""
        for own in ({}, {NAME: Headers}):
            request = Request(SPELLINGS[3], meta={"a": 1}, headers={"X": "y"})
            before = request.to_dict()
            fingerprinter(own).fingerprint(request)
            assert request.to_dict() == before

    def test_method_and_body_are_parts_of_it(self):
        """As in Scrapy: pages of an API are told apart by what is sent."""
        url = SPELLINGS[3]
        requests = [
            Request(url),
            Request(url, method="HEAD"),
            Request(url, body=b"x"),
            Request(url, method="POST"),
            Request(url, method="POST", body=b"o"),
            Request(f"{url}o", method="POST"),
            FormRequest(url, formdata={"page": "1"}),
            FormRequest(url, formdata={"page": "2"}),
            JsonRequest(url, data={"a": 1, "b": 2}),
            Request(url, method="POST", body=b'{"b": 2, "a": 1}'),
            *(Request(url, method="POST", body=b"page=%d" % n) for n in range(5)),
        ]
        ours = fingerprinter()
        found = [ours.fingerprint(request) for request in requests]
        assert len(set(found[:-5])) == len(requests) - 5
        assert len(set(found[-5:])) == 5
        plain = [request.replace(url=PAGE) for request in requests]
        plain[5] = Request(f"{PAGE}o", method="POST")
        assert found == [fingerprint(request) for request in plain]
        same = JsonRequest(url, data={"b": 2, "a": 1})
        assert ours.fingerprint(same) == found[8]

    def test_headers_and_cookies_are_not(self):
        """As in Scrapy, unless the project's own fingerprinter looks at them."""
        ours = fingerprinter()
        one = Request(PAGE, headers={"Accept-Language": "de"}, cookies={"a": "b"})
        other = Request(PAGE, headers={"Accept-Language": "en"}, meta={"cookiejar": 1})
        assert ours.fingerprint(one) == ours.fingerprint(other)

    def test_a_request_may_ask_to_be_taken_as_it_is(self):
        """With verbatim_url in its meta; so does Scrapy from 2.17 on."""
        ours = fingerprinter()
        request = Request(SPELLINGS[3], meta={"verbatim_url": True})
        assert ours.fingerprint(request) == fingerprint(request)
        assert ours.fingerprint(request) != ours.fingerprint(Request(PAGE))

    def test_urls_without_a_host_are_as_in_scrapy(self):
        """There is nothing to tell about them."""
        for url in ("data:,a?utm_id=1", "about:blank", "file:///tmp/a?b=1&a=2"):
            assert fingerprinter().fingerprint(Request(url)) == fingerprint(
                Request(url)
            )

    def test_the_cache_is_bounded(self):
        """In number and in length."""
        ours = fingerprinter()
        for number in range(URLS_REMEMBERED + 100):
            ours.fingerprint(Request(f"http://h.example/{number}"))
        info = ours._of_plain_get.cache_info
        assert info().currsize == URLS_REMEMBERED
        missed = info().misses
        long = f"http://h.example/{'x' * LONGEST_REMEMBERED}"
        assert ours.fingerprint(Request(long)) == fingerprint(Request(long))
        assert info().misses == missed

    def test_parameters_are_chosen_by_settings(self):
        """For all sites or one; custom_settings are settings."""

        class Picky(Shop):
            custom_settings = {  # noqa: RUF012
                STRIP: {"*": ["tracking"], "h.example": ["ref", "!gclid"]}
            }

        crawler = Crawler(Picky, {"ADDONS": {Addon: 500}})
        crawler.addons.load_settings(crawler.settings)
        ours = CanonicalRequestFingerprinter.from_crawler(crawler)

        def same(one: str, other: str) -> bool:
            return ours.fingerprint(Request(one)) == ours.fingerprint(Request(other))

        assert same("http://h.example/?ref=1&utm_id=2", "http://h.example/")
        assert not same("http://h.example/?gclid=1", "http://h.example/")
        assert same("http://i.example/?gclid=1", "http://i.example/")
        assert not same("http://i.example/?ref=1", "http://i.example/")


class TestProjectsOwn:
    @pytest.mark.parametrize("own", [Headers, f"{__name__}.Headers"])
    @pytest.mark.parametrize("priority", ["default", "addon", "project", "cmdline"])
    def test_it_is_kept_behind_ours(self, own: Any, priority: str):
        """Whoever set it, and by class or by path."""
        crawler = Crawler(Shop, {"ADDONS": {Addon: 500}})
        crawler.settings.set(NAME, own, priority)
        crawler.addons.load_settings(crawler.settings)
        assert crawler.settings[NAME] == OURS
        assert crawler.settings[FALLBACK] == own

    def test_that_of_a_spider_too(self):
        """custom_settings are settings."""

        class Own(Shop):
            custom_settings = {NAME: Headers}  # noqa: RUF012

        crawler = Crawler(Own, {"ADDONS": {Addon: 500}})
        crawler.addons.load_settings(crawler.settings)
        assert (crawler.settings[NAME], crawler.settings[FALLBACK]) == (OURS, Headers)

    @pytest.mark.parametrize("ours", [OURS, CanonicalRequestFingerprinter, OursToo])
    def test_ours_may_be_set_by_hand(self, ours: Any):
        """With Scrapy's behind it, or another that is named."""
        settings = crawler_with({NAME: ours}).settings
        assert settings[NAME] == ours
        assert settings.getpriority(FALLBACK) is None
        own = fingerprinter({NAME: ours, FALLBACK: Headers})
        one, other = (
            Request(PAGE, headers={"Accept-Language": code}) for code in ("de", "en")
        )
        assert own.fingerprint(one) != own.fingerprint(other)

    def test_a_fallback_may_be_named_alone(self):
        """Or together with the same as the project's own."""
        for settings in ({FALLBACK: Headers}, {FALLBACK: Headers, NAME: Headers}):
            found = crawler_with(settings).settings
            assert (found[NAME], found[FALLBACK]) == (OURS, Headers)

    def test_two_of_them_are_refused(self):
        """Ours could hand requests to one only."""
        with pytest.raises(ValueError) as caught:
            crawler_with({NAME: Headers, FALLBACK: Fragments})
        assert str(caught.value).startswith(f"{FALLBACK} = ")
        assert "remove one of the two settings" in str(caught.value)

    @pytest.mark.parametrize("bad", [OURS, CanonicalRequestFingerprinter, OursToo])
    def test_ours_behind_ours_is_refused(self, bad: Any):
        """It would go on for ever."""
        with pytest.raises(ValueError, match="name the project's own, or remove"):
            crawler_with({FALLBACK: bad})

    def test_it_is_used_without_ours(self):
        """A project that switches parts on by hand may leave this one out."""
        own = fingerprinter({NAME: Headers}, addon=False)
        assert isinstance(own, Headers)

    def test_ours_by_hand_is_not_in_the_way_where_nothing_is_shared(self):
        """Then the project's own is all there is."""
        settings = {NAME: OURS, FALLBACK: Headers, "REDIS_STATE_ENABLED": False}
        assert isinstance(fingerprinter(settings, addon=False), Headers)

    def test_what_it_looks_at_still_counts(self):
        """Headers, sessions, meta; and the spelling of the URL does not."""
        ours = fingerprinter({NAME: Headers})
        english, german = (
            {
                ours.fingerprint(Request(url, headers={"Accept-Language": code}))
                for url in SPELLINGS
            }
            for code in ("en", "de")
        )
        assert len(english) == len(german) == 1
        assert english != german
        ours = fingerprinter({NAME: Session})
        accounts = {
            ours.fingerprint(Request(url, meta={"cookiejar": account}))
            for url in SPELLINGS
            for account in "ab"
        }
        assert len(accounts) == 2

    def test_it_is_given_the_fragment(self):
        """Pages made by scripts may differ in nothing else."""
        ours = fingerprinter({NAME: Fragments})
        urls = [PAGE, f"{SPELLINGS[1]}#a", f"{SPELLINGS[3]}#a", f"{SPELLINGS[3]}#b"]
        found = [ours.fingerprint(Request(url)) for url in urls]
        assert found[1] == found[2]
        assert len(set(found)) == 3

    def test_it_is_given_the_request_in_all_other_respects(self):
        """Its class, meta, cb_kwargs, headers, body and flags."""
        ours = fingerprinter({NAME: FromMeta})
        request = OddRequest(
            SPELLINGS[3],
            callback=print,
            method="PUT",
            headers={"A": ["b", "c"]},
            body=b"body",
            cookies={"d": "e"},
            meta={"f": object()},
            encoding="latin-1",
            priority=7,
            dont_filter=True,
            errback=print,
            flags=["g"],
            cb_kwargs={"h": object()},
        )
        assert ours.fingerprint(request) == f"bot {PAGE}".encode()
        given = ours._fallback.last
        assert type(given) is OddRequest
        for name in OddRequest.attributes:
            if name != "url":
                assert getattr(given, name) == getattr(request, name), name
        assert ours.fingerprint(request.replace(meta={"fingerprint": b"f"})) == b"f"

    def test_a_request_with_a_canonical_url_is_not_copied(self):
        """It is handed on as it is."""
        ours = fingerprinter({NAME: FromMeta})
        for request in (
            Request(PAGE),
            Request(SPELLINGS[3], meta={"verbatim_url": True}),
        ):
            ours.fingerprint(request)
            assert ours._fallback.last is request


class TestAgreement:
    """What a crawl records of it, and what a later process must bring."""

    @pytest.fixture
    def url(self, server, crawl_name: str) -> Any:
        """Where the crawl is: settings."""
        return {"REDIS_STATE_URL": server.url, "BOT_NAME": crawl_name}

    def join(self, server: Any, settings: dict[str, Any], **options: bool) -> Any:
        """Enter as a worker that is gone at once; the refusal, if it is refused."""
        crawler = crawler_with({**settings}, **options)
        build_from_crawler(load_object(crawler.settings[NAME]), crawler)
        crawl = SharedCrawl.of(crawler)
        with server.client() as client:
            request = replace(crawl.join_request(), new_token="token")
            reply = run(client, scripts.join(crawl.keys, request))
            if reply.status is JoinStatus.EPOCH:
                request = replace(request, epoch=reply.summary.epoch)
                reply = run(client, scripts.join(crawl.keys, request))
            return crawl.refusal(reply)

    def test_the_same_settings_agree(self, server, url: Any):
        """However they were written."""
        assert self.join(server, url) is None
        assert self.join(server, {**url, STRIP: "tracking"}) is None
        assert self.join(server, {**url, STRIP: '{"*": ["tracking"]}'}) is None
        assert self.join(server, {**url, NAME: OURS}, addon=False) is None

    def test_other_parameters_are_refused(self, server, url: Any):
        """With both values and the remedy."""
        assert self.join(server, url) is None
        refusal = self.join(server, {**url, STRIP: ["tracking", "ref"]})
        assert isinstance(refusal, Refused)
        text = str(refusal)
        assert text.startswith(STRIP)
        assert """'["tracking", "ref"]' here""" in text
        assert """'["tracking"]' in crawl""" in text
        assert "use the same in all workers" in text
        assert "start that crawl over ('scrapy redis-state reset')" in text

    def test_other_rules_are_refused(
        self, server, url: Any, monkeypatch: pytest.MonkeyPatch
    ):
        """Another version of this package or of w3lib makes other fingerprints."""
        assert self.join(server, url) is None
        monkeypatch.setattr(page_identity, "rules_version", lambda **_: "2-new")
        text = str(self.join(server, url))
        assert "the rules for URLs (of this version of scrapy-redis-state" in text
        assert "'2-new' here, '1-" in text

    def test_another_fingerprinter_is_refused(self, server, url: Any):
        """The project's own is what counts, since ours is always there."""
        assert self.join(server, {**url, NAME: Headers}) is None
        text = str(self.join(server, url))
        assert text.startswith(NAME)
        assert f"'{STOCK}' here, '{__name__}.Headers' in crawl" in text

    def test_leaving_ours_out_is_refused(self, server, url: Any):
        """Then no URL is canonical but as in Scrapy."""
        assert self.join(server, url) is None
        refusal = self.join(server, url, addon=False)
        assert "'none' here" in str(refusal)

    @pytest.mark.parametrize("own", [STOCK, f"{__name__}.Headers"])
    def test_a_crawl_of_an_older_version_goes_on(self, server, url: Any, own: str):
        """It recorded the project's fingerprinter, and nothing of our rules."""
        settings = {**url, NAME: own}
        assert self.join(server, settings) is None
        keys = CrawlKeys(f"{url['BOT_NAME']}:shop")
        with server.client() as client:
            crawl = keys.named("crawl")
            assert client.hdel(crawl, "agreed:url_rules", "agreed:strip_params") == 2
            assert client.hget(crawl, "agreed:fingerprinter") == own.encode()
            assert self.join(server, settings) is None
            # From now on it is one of this version.
            assert client.hexists(crawl, "agreed:strip_params")
        assert self.join(server, {**settings, STRIP: []}) is not None

    def test_programs_take_no_part_in_it(self, server, url: Any):
        """They have the default rules, and may come first."""
        id = f"{url['BOT_NAME']}:shop"
        with CrawlState.connect(server.url, crawl=id) as state:
            assert state.claim(SPELLINGS[3])
            assert state.lease() == []
        assert self.join(server, url) is None
