"""What is said of duplicates: as much as Scrapy's own filter says."""

from __future__ import annotations

import logging

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_redis_state.reports.duplicates import DuplicateNotes


@pytest.mark.parametrize(("debug", "named"), [(False, ["a"]), (True, ["a", "b", "c"])])
def test_the_first_duplicate_is_named_and_all_are_counted(caplog, debug, named):
    """With DUPEFILTER_DEBUG each of them is."""
    caplog.set_level(logging.DEBUG, "scrapy_redis_state.reports.duplicates")
    crawler = get_crawler(Spider, {"DUPEFILTER_DEBUG": debug})
    notes = DuplicateNotes(crawler)
    for name in "abc":
        notes.note(Request(f"http://shop.example/{name}"))
    assert crawler.stats.get_value("dupefilter/filtered") == 3
    assert len(caplog.messages) == len(named)
    for name, message in zip(named, caplog.messages, strict=True):
        assert f"<GET http://shop.example/{name}>" in message
        assert debug != ("see DUPEFILTER_DEBUG" in message)
