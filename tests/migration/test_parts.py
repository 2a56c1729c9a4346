"""What spiders and settings of scrapy-redis become."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_redis_state import Addon
from scrapy_redis_state.migration import (
    RedisCrawlSpider,
    RedisSpider,
    ScrapyRedisFingerprinter,
)
from scrapy_redis_state.migration.their_settings import (
    REPLACEMENTS,
    warn_of_their_base_class,
    warn_of_their_settings,
)

FINGERPRINTS = [
    (
        Request("http://a.example/?b=2&a=1#top"),
        "e485827c69066452cc91a0d140b1dadda1c18593",
    ),
    (
        Request("http://a.example/", method="POST", body=b"\x00x"),
        "cef116e4d6d52427b51edf1aac6ef695278319f3",
    ),
    (
        Request("http://a.example/é?q=%7E a&empty="),
        "f4befd6ef1e8b0dcacf29d402df46ed74c58df21",
    ),
]


class OwnSpider(RedisSpider):
    name = "own"
    redis_key = "%(name)s:urls"
    redis_batch_size = "5"


def spider(cls, **settings):
    return get_crawler(cls, settings)._create_spider()


@pytest.mark.parametrize("base", [RedisSpider, RedisCrawlSpider])
def test_attributes_become_start_keys(base: Any):
    """Those of the class, those that __init__ sets, or the default name."""

    class Named(base):  # type: ignore[misc]
        name = "own"

        def __init__(self, key=None, **kwargs):
            super().__init__(**kwargs)
            if key:
                self.redis_key = key

    assert spider(Named).redis_state_start_keys == ("own:start_urls",)
    assert spider(Named).redis_state_start_keys_batch_size is None
    with_setting = spider(Named, REDIS_START_URLS_KEY="%(name)s:there")
    assert with_setting.redis_state_start_keys == ("own:there",)
    ours = spider(Named, REDIS_STATE_START_KEYS=["a", "b"])
    assert ours.redis_state_start_keys is None
    of_init: Any = get_crawler(Named)._create_spider(key="k")
    assert of_init.redis_state_start_keys == ("k",)
    assert spider(OwnSpider).redis_state_start_keys == ("own:urls",)
    assert spider(OwnSpider).redis_state_start_keys_batch_size == 5


def test_spiders_stay_for_messages_unless_the_project_says_otherwise():
    """For as long as their idle time says."""

    class Idle(OwnSpider):
        max_idle_time = 7

    def kept(cls, **settings):
        found = get_crawler(cls, settings).settings
        names = ("REDIS_STATE_KEEP_ALIVE", "REDIS_STATE_IDLE_TIMEOUT_SECS")
        return tuple(found.get(name) for name in names)

    assert kept(OwnSpider) == (True, None)
    assert kept(OwnSpider, MAX_IDLE_TIME_BEFORE_CLOSE=5) == (True, 5)
    assert kept(Idle, MAX_IDLE_TIME_BEFORE_CLOSE=5) == (True, 7)
    project = {"REDIS_STATE_KEEP_ALIVE": False, "MAX_IDLE_TIME_BEFORE_CLOSE": 5}
    assert kept(OwnSpider, **project) == (False, None)


def test_bad_attributes_are_refused():
    """With the name of the attribute, its value and the remedy."""
    one = spider(OwnSpider)
    one.redis_batch_size = "many"
    with pytest.raises(ValueError, match="redis_batch_size = 'many': must be a whole"):
        _ = one.redis_state_start_keys_batch_size
    one.redis_key = " "
    with pytest.raises(ValueError, match="redis_key = ' ': is empty"):
        _ = one.redis_state_start_keys


def test_messages_are_read_as_they_were():
    """URLs; or JSON, whose other fields are those of a form."""
    make = spider(OwnSpider).make_request_from_data
    plain = make(b"http://a.example/")
    assert (plain.url, plain.method, plain.dont_filter) == (
        "http://a.example/",
        "GET",
        True,
    )
    form = make(
        json.dumps(
            {"url": "http://a.example/", "method": "post", "meta": {"k": 1}, "q": "x"}
        ).encode()
    )
    assert type(form) is FormRequest
    assert (form.method, form.body, form.meta) == ("POST", b"q=x", {"k": 1})
    with pytest.raises(ValueError, match="names no url"):
        make(b'{"method": "GET"}')
    with pytest.raises(ValueError, match="neither a URL nor an object"):
        make(b"[1]")


def test_an_older_hook_makes_requests_of_urls():
    """make_requests_from_url, where a spider has it."""

    class Older(RedisSpider):
        name = "older"

        def make_requests_from_url(self, url):
            return Request(url, priority=3)

    assert spider(Older).make_request_from_data(b"http://a.example/").priority == 3


def test_settings_of_scrapy_redis_are_named_in_one_warning(caplog):
    """Each with what stands for it; those that spiders still read are passed over."""
    values = dict.fromkeys(REPLACEMENTS, 1)
    warn_of_their_settings(Settings(values), reads_some=False)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for name in REPLACEMENTS:
        assert f"{name} (" in record.getMessage()
    caplog.clear()
    warn_of_their_settings(Settings(values), reads_some=True)
    assert "REDIS_START_URLS_KEY (" not in caplog.text
    caplog.clear()
    warn_of_their_settings(Settings(), reads_some=False)
    assert not caplog.records


def test_a_base_class_of_scrapy_redis_is_named(caplog):
    """It works, and what it does is not safe."""
    theirs = type("RedisSpider", (Spider,), {"__module__": "scrapy_redis.spiders"})
    warn_of_their_base_class(type("Old", (theirs,), {"name": "old"})())
    (record,) = caplog.records
    assert record.getMessage().startswith("Spider old has a base class of scrapy-redis")
    caplog.clear()
    warn_of_their_base_class(spider(OwnSpider))
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("SCHEDULER", "scrapy_redis.scheduler.Scheduler"),
        ("DUPEFILTER_CLASS", "scrapy_redis.dupefilter.RFPDupeFilter"),
    ],
)
def test_parts_of_scrapy_redis_are_refused_in_our_place(name, path):
    """Also where scrapy-redis is not installed any more."""
    settings = Settings({name: path}, priority="project")
    with pytest.raises(ValueError, match=f"{name} = '{path}': is of scrapy-redis"):
        Addon("own").update_settings(settings)


def test_fingerprints_stand_alone():
    """The add-on puts no canonical URLs before them."""
    path = "scrapy_redis_state.migration.ScrapyRedisFingerprinter"
    settings = Settings({"REQUEST_FINGERPRINTER_CLASS": path}, priority="project")
    Addon("own").update_settings(settings)
    assert settings["REQUEST_FINGERPRINTER_CLASS"] == path


@pytest.mark.parametrize(("request_", "expected"), FINGERPRINTS)
def test_fingerprints_are_those_of_scrapy_redis(request_, expected):
    """Recorded from 0.9.1."""
    assert ScrapyRedisFingerprinter().fingerprint(request_).hex() == expected
