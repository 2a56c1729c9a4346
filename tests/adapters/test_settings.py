"""Settings: what they are, what they may be, and what is said when they are not."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_redis_state import SessionProvider
from scrapy_redis_state.settings import SETTINGS, Config, is_enabled
from scrapy_redis_state.settings_table import STOCK_FINGERPRINTER
from scrapy_redis_state.store.canonical import StripRules


def config(values: dict[str, Any] | None = None, /, **settings: Any) -> Config:
    """Read ``NAME=value`` as REDIS_STATE_NAME; ``values`` are other settings."""
    ours = {f"REDIS_STATE_{name}": value for name, value in settings.items()}
    return Config.from_settings(Settings({**(values or {}), **ours}), "shop")


def refusal(values: dict[str, Any] | None = None, /, **settings: Any) -> str:
    with pytest.raises(ValueError) as caught:
        config(values, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestTable:
    def test_the_settings_are_these(self):
        """A change of a name or a default is a change for users."""
        assert {setting.name: setting.default for setting in SETTINGS} == {
            "REDIS_STATE_ENABLED": True,
            "REDIS_STATE_URL": "redis://localhost:6379/0",
            "REDIS_STATE_CRAWL_ID": "%(bot)s:%(spider)s",
            "REDIS_STATE_KEY_PREFIX": "",
            "REDIS_STATE_LEASE_SECS": 60,
            "REDIS_STATE_REAP_INTERVAL_SECS": 5,
            "REDIS_STATE_MAX_DELIVERIES": 3,
            "REDIS_STATE_PREFETCH": None,
            "REDIS_STATE_ORDER": "fifo",
            "REDIS_STATE_PRIORITY_RULES": (),
            "REDIS_STATE_SEEN": "exact",
            "REDIS_STATE_SEEN_CAPACITY": 1_000_000,
            "REDIS_STATE_SEEN_ERROR_RATE": 0.000001,
            "REDIS_STATE_REVISIT_SECS": 0,
            "REDIS_STATE_MAX_PAGES_PER_SITE": 0,
            "REDIS_STATE_STRIP_QUERY_PARAMS": ["tracking"],
            "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS": STOCK_FINGERPRINTER,
            "REDIS_STATE_FINISHED_TTL_SECS": 604_800,
            "REDIS_STATE_START": "once",
            "REDIS_STATE_START_HIGH_WATER": 100_000,
            "REDIS_STATE_KEEP_ALIVE": False,
            "REDIS_STATE_IDLE_TIMEOUT_SECS": 0,
            "REDIS_STATE_START_KEYS": (),
            "REDIS_STATE_START_KEYS_BATCH_SIZE": 100,
            "REDIS_STATE_SHUTDOWN_GRACE_SECS": 25,
            "REDIS_STATE_WAIT_REPLICAS": 0,
            "REDIS_STATE_OUTAGE_SECS": 600,
            "REDIS_STATE_SESSIONS_ENABLED": True,
            "REDIS_STATE_SESSION_TTL_SECS": 1800,
            "REDIS_STATE_SESSION_PROXIES": {},
            "REDIS_STATE_SESSION_PROVIDER": None,
            "REDIS_STATE_METRICS_PORT": None,
            "REDIS_STATE_METRICS_ADDRESS": "127.0.0.1",
        }

    def test_every_setting_is_in_the_config(self):
        """The config has each setting under its name, and some values of its own."""
        names = {field.name for field in dataclasses.fields(Config)}
        of_settings = {setting.attribute for setting in SETTINGS}
        assert names == of_settings | {"spider", "crawl_id_given", "urls"}

    def test_every_setting_is_documented(self):
        """The documentation's table has a line for its values and its meaning."""
        for setting in SETTINGS:
            assert setting.check.takes
            assert setting.meaning.endswith(".")
            assert "\n" not in setting.meaning

    def test_defaults(self):
        """Without any setting the crawl is shared through a server on this machine."""
        assert config({"BOT_NAME": "bot"}) == Config(
            spider="shop",
            enabled=True,
            url="redis://localhost:6379/0",
            urls=("redis://localhost:6379/0",),
            crawl_id="bot:shop",
            crawl_id_given=False,
            key_prefix="",
            lease_secs=60,
            reap_interval_secs=5,
            max_deliveries=3,
            prefetch=16,
            order="fifo",
            priority_rules=(),
            seen="exact",
            seen_capacity=1_000_000,
            seen_error_rate=0.000001,
            revisit_secs=0,
            max_pages_per_site=0,
            strip_query_params=StripRules.of(["tracking"]),
            fallback_request_fingerprinter_class=STOCK_FINGERPRINTER,
            finished_ttl_secs=604_800,
            start="once",
            start_high_water=100_000,
            keep_alive=False,
            idle_timeout_secs=0,
            start_keys=(),
            start_keys_batch_size=100,
            shutdown_grace_secs=25,
            wait_replicas=0,
            outage_secs=600,
            sessions_enabled=True,
            session_ttl_secs=1800,
            session_proxies={},
            session_provider=None,
            metrics_port=None,
            metrics_address="127.0.0.1",
        )

    def test_the_config_cannot_be_changed(self):
        """It is read once; who holds it can rely on it."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            config().lease_secs = 1  # type: ignore[misc]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("REDIS_STATE_URI", "REDIS_STATE_URL"),
            ("REDIS_STATE_LEASE_TIME", "REDIS_STATE_LEASE_SECS"),
            ("REDIS_STATE_CRAWLID", "REDIS_STATE_CRAWL_ID"),
            ("REDIS_STATE_SEEN_SIZE", "REDIS_STATE_SEEN"),
        ],
    )
    def test_unknown_names_are_refused(self, name: str, nearest: str):
        """A name that begins like ours and is none of ours is a mistake."""
        text = refusal({name: "redis://:secret@host"})
        assert text.startswith(f"{name} is not a setting")
        assert f"the nearest is {nearest};" in text
        assert "secret" not in text

    def test_other_names_are_not_ours(self):
        """Settings of others are left alone."""
        config({"REDIS_URL": "redis://x", "MY_REDIS_STATE": 1})


class TestStrings:
    """What ``-s`` gives is read as what a settings module would say."""

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("ENABLED", "False", False),
            ("ENABLED", "1", True),
            ("LEASE_SECS", "30", 30.0),
            ("LEASE_SECS", "1.5", 1.5),
            ("FINISHED_TTL_SECS", "0", 0.0),
            ("MAX_DELIVERIES", "5", 5),
            ("PREFETCH", "4", 4),
            ("START_HIGH_WATER", "100", 100),
            ("KEEP_ALIVE", "True", True),
            ("START_KEYS", "a, %(name)s:b", ("a", "shop:b")),
            ("START_KEYS", '["%(bot)s:{c}"]', ("scrapybot:{c}",)),
            ("START_KEYS", "", ()),
            ("START_KEYS_BATCH_SIZE", "7", 7),
            ("PRIORITY_RULES", '[["/sale/", 10]]', ((re.compile("/sale/"), 10),)),
            ("STRIP_QUERY_PARAMS", "", StripRules.of([])),
            ("STRIP_QUERY_PARAMS", "tracking, r*", StripRules.of(["tracking", "r*"])),
            ("STRIP_QUERY_PARAMS", '["!a"]', StripRules.of(["!a"])),
            ("STRIP_QUERY_PARAMS", '{"h": ["a"]}', StripRules.of({"h": ["a"]})),
            ("SESSIONS_ENABLED", "false", False),
            ("SESSION_TTL_SECS", "60", 60.0),
            ("SESSION_PROXIES", '{"a": "http://p:1"}', {"a": "http://p:1"}),
            ("SESSION_PROVIDER", "scrapy_redis_state.SessionProvider", SessionProvider),
            ("SESSION_PROVIDER", "", None),
            ("METRICS_PORT", "9410", 9410),
            ("METRICS_PORT", "", None),
            ("METRICS_ADDRESS", "::1", "::1"),
        ],
    )
    def test_strings_are_read(self, name: str, text: str, value: object):
        """Numbers, booleans, and lists as JSON."""
        read = getattr(config(**{name: text}), name.lower())
        assert read == value
        assert type(read) is type(value)


class TestBadValues:
    @pytest.mark.parametrize(
        ("name", "value", "remedy"),
        [
            ("ENABLED", "perhaps", "True or False"),
            ("ENABLED", None, "True or False"),
            ("ENABLED", 2, "True or False"),
            ("SESSION_PROVIDER", 1, "must be a class with renew()"),
            ("METRICS_PORT", 65_536, "from 0 to 65535"),
            ("METRICS_PORT", "http", "from 0 to 65535"),
            ("METRICS_ADDRESS", "", "such as 127.0.0.1"),
            ("METRICS_ADDRESS", "a b", "such as 127.0.0.1"),
            ("SESSION_PROVIDER", "collections.Counter", "must be a class with renew()"),
            ("SESSION_PROVIDER", "scrapy.signals", "must be a class with renew()"),
            ("SESSION_PROVIDER", "no.such.Thing", "cannot be loaded"),
            ("LEASE_SECS", "abc", "a number of seconds, at least 1"),
            ("LEASE_SECS", "", "a number of seconds, at least 1"),
            ("LEASE_SECS", None, "a number of seconds, at least 1"),
            ("LEASE_SECS", True, "a number of seconds, at least 1"),
            ("LEASE_SECS", -60, "a number of seconds, at least 1"),
            ("LEASE_SECS", "-60", "a number of seconds, at least 1"),
            ("LEASE_SECS", 0, "a number of seconds, at least 1"),
            ("LEASE_SECS", 0.5, "a number of seconds, at least 1"),
            ("LEASE_SECS", float("nan"), "a number of seconds, at least 1"),
            ("LEASE_SECS", float("inf"), "a number of seconds, at least 1"),
            ("LEASE_SECS", "1e3", "a number of seconds, at least 1"),
            ("LEASE_SECS", "1_000", "a number of seconds, at least 1"),
            ("LEASE_SECS", [60], "a number of seconds, at least 1"),
            ("REAP_INTERVAL_SECS", 0, "from 0.1 to 5 (the crawl clock counts at"),
            ("REAP_INTERVAL_SECS", 6, "from 0.1 to 5 (the crawl clock counts at"),
            ("MAX_DELIVERIES", 1, "a whole number, at least 2"),
            ("MAX_DELIVERIES", "2.5", "a whole number, at least 2"),
            ("MAX_DELIVERIES", 3.0, "a whole number, at least 2"),
            (
                "MAX_DELIVERIES",
                2**31,
                "a whole number, at least 2 and at most 2147483647",
            ),
            ("PREFETCH", 0, "a whole number, at least 1"),
            ("PREFETCH", "many", "a whole number, at least 1"),
            ("ORDER", "FIFO", "must be 'fifo' or 'lifo'"),
            ("ORDER", None, "must be 'fifo' or 'lifo'"),
            ("SEEN", "set", "must be 'exact' or 'bloom' or 'packed'"),
            ("SEEN_CAPACITY", 999, "a whole number, at least 1000"),
            ("SEEN_ERROR_RATE", "often", "a number from 1e-09 to 0.1"),
            ("SEEN_ERROR_RATE", 0.5, "a number from 1e-09 to 0.1"),
            ("SEEN_ERROR_RATE", True, "a number from 1e-09 to 0.1"),
            ("REVISIT_SECS", -1, "at least 0"),
            ("MAX_PAGES_PER_SITE", -1, "at least 0"),
            ("STRIP_QUERY_PARAMS", None, "a list of names and globs, or a dict of"),
            ("STRIP_QUERY_PARAMS", True, "a list of names and globs, or a dict of"),
            ("STRIP_QUERY_PARAMS", "[tracking]", "in strings as JSON"),
            ("STRIP_QUERY_PARAMS", "a,,b", "has the entry ''"),
            ("STRIP_QUERY_PARAMS", ["a=b"], "use the parameter's name alone"),
            ("STRIP_QUERY_PARAMS", {"http://h": ["a"]}, "use a host name"),
            ("FALLBACK_REQUEST_FINGERPRINTER_CLASS", None, "the path of one"),
            ("FALLBACK_REQUEST_FINGERPRINTER_CLASS", "nowhere.X", "cannot be loaded"),
            ("FALLBACK_REQUEST_FINGERPRINTER_CLASS", "X", "cannot be loaded"),
            ("FINISHED_TTL_SECS", -1, "at least 0"),
            ("FINISHED_TTL_SECS", 10**12, "a number of seconds"),
            ("START", "never", "must be 'once' or 'every_worker'"),
            ("START_HIGH_WATER", 0, "at least 1"),
            ("KEEP_ALIVE", "maybe", "True or False"),
            ("IDLE_TIMEOUT_SECS", -1, "at least 0"),
            ("IDLE_TIMEOUT_SECS", 60, "when all is done: set REDIS_STATE_KEEP_ALIVE"),
            ("START_KEYS", None, "a list of key names"),
            ("START_KEYS", [1], "a list of key names"),
            ("START_KEYS", ["a", " "], "a list of key names"),
            ("START_KEYS", ["%(spider)s:a"], "only %(name)s and %(bot)s are filled"),
            ("START_KEYS", ["%d"], "only %(name)s and %(bot)s are filled in"),
            ("START_KEYS", ["a", "a"], "name each once"),
            ("START_KEYS_BATCH_SIZE", 501, "a whole number, from 1 to 500"),
            ("OUTAGE_SECS", 0, "at least 1"),
            ("SESSION_TTL_SECS", -1, "at least 0"),
            ("SESSION_PROXIES", ["p"], "must be a dict of proxy labels"),
            ("SESSION_PROXIES", "p", "must be a dict of proxy labels"),
            ("SESSION_PROXIES", {1: "p"}, "name each proxy"),
            ("SESSION_PROXIES", {"a": "b"}, "needs for 'a' a URL"),
            ("SESSION_PROXIES", {"a": None}, "needs for 'a' a URL"),
            ("URL", None, "must be a URL"),
            ("URL", "localhost:6379", "has no known scheme: use redis://"),
            ("KEY_PREFIX", "{a}", "contains { or }"),
            ("KEY_PREFIX", "a\n", "control characters"),
            ("KEY_PREFIX", 1, "must be a text"),
            ("CRAWL_ID", "", "is empty"),
            ("CRAWL_ID", " ", "is empty"),
            ("CRAWL_ID", "{shop}", "contains { or }"),
            ("CRAWL_ID", "a}b", "contains { or }"),
            ("CRAWL_ID", "a\tb", "control characters"),
            ("CRAWL_ID", "a\udc80", "control characters"),
            ("CRAWL_ID", "%(spidr)s", "contains '%(spidr)s': only %(bot)s and"),
            ("CRAWL_ID", "%(spider)d", "contains '%(spider)d': only %(bot)s and"),
            ("CRAWL_ID", "%(spider", "contains '%(spider': only %(bot)s and"),
            ("CRAWL_ID", 7, "must be a text"),
        ],
    )
    def test_bad_values_are_refused(self, name: str, value: object, remedy: str):
        """One line with the setting, its value and the remedy."""
        text = refusal(**{name: value})
        assert text.startswith(f"REDIS_STATE_{name} = {value!r}: ")
        assert remedy in text

    @pytest.mark.parametrize(
        ("rules", "problem"),
        [
            ("sale", "must be a list"),
            ('{"a": 1}', "must be a list"),
            ({"a": 1}, "must be a list"),
            ([("/a", 1), "/b"], "rule 2 must be a (URL regex, priority added) pair"),
            ([("/a",)], "rule 1 must be a (URL regex, priority added) pair"),
            ([(1, "/a")], "rule 1 must add a whole number"),
            ([("/a", "1")], "rule 1 must add a whole number"),
            ([("/a", 1.5)], "rule 1 must add a whole number"),
            ([("/a", True)], "rule 1 must add a whole number"),
            ([("/a", 2**40)], "rule 1 must add less than"),
            ([(b"/a", 1)], "rule 1 must begin with a URL regex"),
            ([("(", 1)], "rule 1 has an invalid regex: missing )"),
        ],
    )
    def test_bad_priority_rules_are_refused(self, rules: object, problem: str):
        """The message says which rule it is."""
        text = refusal(PRIORITY_RULES=rules)
        assert text.startswith("REDIS_STATE_PRIORITY_RULES = ")
        assert problem in text

    def test_passwords_are_not_shown(self):
        """Neither in the message about a URL nor in what else may hold one."""
        for name in ("URL", "CRAWL_ID", "KEY_PREFIX"):
            text = refusal(**{name: "redis://ann:secret{}@host/x y"})
            assert "secret" not in text
            assert "'redis://***'" in text
        url = "redis://ann:secret@host"
        assert "secret" not in repr(config(URL=url))
        assert config(URL=url).url == url
        assert config(URL=url).masked_url == "redis://***@host"

    @pytest.mark.parametrize("as_text", [False, True])
    def test_passwords_of_proxies_are_not_shown(self, *, as_text: bool):
        """A dict of proxies is refused and shown without them."""
        proxies: Any = {"a": "http://ann:secret@p:1", "b": "nowhere"}
        text = refusal(SESSION_PROXIES=json.dumps(proxies) if as_text else proxies)
        assert "needs for 'b' a URL" in text
        assert "secret" not in text
        del proxies["b"]
        assert "secret" not in repr(config(SESSION_PROXIES=proxies))

    def test_long_values_are_cut(self):
        """A message stays readable."""
        assert len(refusal(ORDER="x" * 10_000)) < 300


class TestUrls:
    """One server, or several over which crawls are spread."""

    URLS = ("redis://a:1/0", "redis://ann:secret@b:2/0", "rediss://c/3")

    @pytest.mark.parametrize(
        "value", [list(URLS), URLS, json.dumps(URLS), f" {json.dumps(URLS)}"]
    )
    def test_each_crawl_is_on_one_of_a_list(self, value: object):
        """A list or a tuple, or a list as JSON in a string."""
        found = [config(URL=value, CRAWL_ID=f"crawl{n}") for n in range(50)]
        assert {one.url for one in found} == set(self.URLS)
        assert {one.urls for one in found} == {self.URLS}
        for one in found:
            assert {one.url, *one.other_urls} == set(self.URLS)
            assert one.url not in one.other_urls
        assert found[0] == config(URL=value, CRAWL_ID="crawl0")
        assert "secret" not in repr(found)

    def test_the_spider_counts_by_the_crawl_id(self):
        """By default each spider's crawl may be on another server."""
        settings = Settings({"REDIS_STATE_URL": self.URLS})
        found = {Config.from_settings(settings, f"shop{n}").url for n in range(50)}
        assert found == set(self.URLS)

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ([], "must be a URL"),
            ("[]", "must be a URL"),
            ("[redis://a]", "must be a URL, or a list of URLs (in strings as JSON)"),
            ({"a": 1}, "must be a URL"),
            (["redis://a", 1], "URL 2 must be a text"),
            (["redis://a", "b"], "URL 2 has no known scheme"),
            (["redis://u:secret@a", "redis://v:secret@a:6379/0"], "URLs 1 and 2 are"),
            (["redis://u:secret@a", "redis://v:secret@b/x"], "URL 2 has a path"),
            ('["redis://u:secret@a", "redis://v:secret@b/x"]', "URL 2 has a path"),
        ],
    )
    def test_lists_that_cannot_be_used(self, value: object, problem: str):
        """The message says which URL it is, and shows no password."""
        text = refusal(URL=value)
        assert text.startswith("REDIS_STATE_URL = ")
        assert problem in text
        assert "secret" not in text


class TestCrawlId:
    def test_names_are_filled_in(self):
        """Spider and bot may be anywhere in it; other percent signs stay."""
        found = config({"BOT_NAME": "bot"}, CRAWL_ID="50% %(bot)s/%(spider)s/%(bot)s")
        assert found.crawl_id == "50% bot/shop/bot"

    def test_a_spider_name_that_does_not_fit_is_refused(self):
        """The default crawl id is checked like any other."""
        with pytest.raises(ValueError, match=r"contains \{ or \}") as caught:
            Config.from_settings(Settings({"BOT_NAME": "bot"}), "sh{o}p")
        assert "REDIS_STATE_CRAWL_ID = '%(bot)s:%(spider)s'" in str(caught.value)

    @pytest.mark.parametrize("priority", ["addon", "project", "spider", "cmdline"])
    def test_a_crawl_id_that_was_given_is_known_as_such(self, priority: str):
        """Also when it is the same as the default."""
        settings = Settings()
        settings.set("REDIS_STATE_CRAWL_ID", "%(bot)s:%(spider)s", priority)
        assert Config.from_settings(settings, "shop").crawl_id_given

    def test_a_default_is_not_given(self):
        """Neither by its absence nor by a default of the project's framework."""
        settings = Settings()
        settings.set("REDIS_STATE_CRAWL_ID", "shared", "default")
        assert not Config.from_settings(settings, "shop").crawl_id_given


class TestPrefetch:
    @pytest.mark.parametrize(
        ("concurrency", "prefetch"), [(1, 1), (32, 32), ("8", 8), (0, 16), (-1, 16)]
    )
    def test_it_follows_the_concurrency(self, concurrency: object, prefetch: int):
        """A worker holds as much as it can start at a time."""
        assert config({"CONCURRENT_REQUESTS": concurrency}).prefetch == prefetch

    def test_none_means_the_default(self):
        """A spider can take back what its project set."""
        assert config({"CONCURRENT_REQUESTS": 3}, PREFETCH=None).prefetch == 3


class TestEnabled:
    def test_it_can_be_asked_alone(self):
        """A crawl that is not shared may have any other setting."""
        settings = Settings({"REDIS_STATE_ENABLED": "0", "REDIS_STATE_URL": "nonsense"})
        assert not is_enabled(settings)
        assert is_enabled(Settings())

    def test_a_bad_value_is_refused_there_too(self):
        """Perhaps is no answer."""
        with pytest.raises(ValueError, match="REDIS_STATE_ENABLED = 'perhaps'"):
            is_enabled(Settings({"REDIS_STATE_ENABLED": "perhaps"}))
