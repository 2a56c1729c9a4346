"""Requests as spiders make them, carried from one worker to another."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from scrapy.http import HtmlResponse

from tests.crawl.crawls import (
    close_reason,
    finish,
    stats,
    total,
)
from tests.everyday.crawls import EverydayCrawls, GatedSite, paths
from tests.everyday.project.spiders.requests import FORM, facts, one_of_each
from tests.everyday.sites import AnsweringSite
from tests.processes import wait_until

pytestmark = pytest.mark.one_server

ONE_PAGE = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}
"""Settings of a worker that leaves all but the first page to others."""


class FormSite(AnsweringSite):
    def text(self, path: str) -> str:
        return FORM if path == "/start" else ""


@pytest.fixture
def forms() -> Iterator[FormSite]:
    with FormSite() as site:
        yield site


@pytest.mark.filterwarnings("ignore:FormRequest.from_response")
def test_requests_of_every_class_arrive_as_they_were_made(
    crawls: EverydayCrawls, forms: FormSite
) -> None:
    """Made by one worker and sent by two others, with each field and attribute."""
    first = crawls.start("classes", site=forms.url, settings=ONE_PAGE)
    first.wait_for_success()
    assert close_reason(first) == "closespider_pagecount"
    workers = crawls.start_together(2, "classes", forms)
    finish(*workers)
    page = HtmlResponse(f"{forms.url}/start", body=FORM.encode())
    made = [facts(request) for request in one_of_each(page, None)]
    told = [item["facts"] for item in crawls.items()]
    assert sorted(told, key=str) == sorted(made, key=str)
    assert stats(first)["scheduler/unserializable"] == 0
    sent = {call.path: call for call in forms.calls}
    assert sorted(sent["/form/sent"].body.split(b"&")) == [
        b"go=Go",
        b"token=t-1",
        b"user=me",
    ]
    assert sent["/json"].body == b'{"b": [1, null]}'
    assert sent["/json"].headers["Content-Type"] == "application/json"
    assert b"<methodName>do</methodName>" in sent["/rpc"].body
    fields = sent["/fields"]
    assert (fields.method, fields.body) == ("PUT", b"\x00\xff")
    assert fields.headers["Cookie"] == "c=1"


@pytest.mark.skipif(
    not importlib.util.find_spec("scrapy_playwright"), reason="needs scrapy-playwright"
)
def test_what_a_browser_is_to_do_travels_with_the_request(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A page that is open does not: a retry gets one of its own, in any worker."""
    with site.holding("/listed", "/named", "/flaky"):
        first = crawls.start("browser", site=site.url)
        second = crawls.start("browser", site=site.url)
        second.wait_for_output(", worker ")
        site.wait_for_visits("/live")
    finish(first, second)
    told = {item["page"]: item for item in crawls.items()}
    assert set(told) == {"/listed", "/named", "/live", "/flaky"}
    for item in told.values():
        assert item["context"] == ["acc1", {"storage_state": {"cookies": []}}]
        assert item["goto"] == {"wait_until": "networkidle"}
    assert told["/listed"]["kind"] == "list"
    assert told["/listed"]["steps"] == [["wait_for_selector", ["p"], {}]]
    assert told["/named"]["kind"] == "dict"
    assert told["/named"]["steps"] == [["click", ["p"], {"n": 2}]]
    assert told["/flaky"]["with"] == "LivePage"
    assert site.visits["/flaky"] == 2
    assert total("scheduler/unserializable", [first, second]) == 1
    assert total("scheduler/enqueued/memory", [first, second]) == 1


def test_a_page_is_held_until_the_files_of_its_items_are_there(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A worker that is killed while they are fetched costs neither item nor file."""
    store = crawls.programs.directory / "files"
    settings = {"FILES_STORE": store}
    with site.holding("/file/7"):
        first = crawls.start("files", site=site.url, settings=settings)
        site.wait_for_visits("/file/7")
        wait_until(lambda: len(list(store.glob("full/*"))) > 2, 30)
        assert crawls.summary("files").in_flight == 1
        assert crawls.items() == []
        first.kill()
    second = crawls.start("files", site=site.url, settings=settings)
    finish(second)
    (item,) = crawls.items()
    assert len(item["files"]) == 20
    assert len(list(store.glob("full/*"))) == 20
    assert site.visits["/start"] == 2
    # Files are no requests of the crawl.
    assert crawls.summary("files").done == 1
    assert stats(second)["scheduler/enqueued"] == 0
    assert stats(second)["redis_state/redelivered"] == 1


def test_a_worker_that_is_held_up_leaves_the_rest_to_others(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """It does not take again at once what it had fetched ahead and handed back."""
    settings = {"CONCURRENT_REQUESTS": 1}
    held = ["/shared/0", "/shared/1"]
    with site.holding(*held):
        workers = [
            crawls.start("many", site=site.url, shared=6, settings=settings)
            for _ in range(2)
        ]
        for path in held:
            site.wait_for_visits(path)
    finish(*workers)
    assert set(site.visits.values()) == {1}
    for worker in workers:
        assert set(paths(crawls, worker)) & set(held)
