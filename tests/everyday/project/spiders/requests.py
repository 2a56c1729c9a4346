"""Requests of all classes, and with all fields."""

# ruff: noqa: ARG002 - Scrapy passes responses, wanted or not

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request
from scrapy.http import JsonRequest, TextResponse, XmlRpcRequest

from tests.everyday.project.spiders.base import Output, SiteSpider, path_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.http import Response

FORM = """
<form action="/form/sent" method="post">
  <input type="hidden" name="token" value="t-1"><input name="user">
  <input type="submit" name="go" value="Go">
</form>
"""
META = {
    "download_slot": "slow",
    "download_timeout": 11.0,
    "dont_retry": True,
    "handle_httpstatus_list": [404],
    "bindaddress": ("127.0.0.1", 0),
    "own": {"nested": [1, (2, b"\xff"), {"three"}]},
}


class TaggedRequest(Request):
    """A project's own class, with an argument more."""

    attributes = (*Request.attributes, "tag")

    def __init__(self, *args: Any, tag: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tag = tag


def one_of_each(response: TextResponse, callback: Any) -> list[Request]:
    """Requests that follow from a page with ``FORM``."""
    url = response.urljoin
    return [
        FormRequest.from_response(response, formdata={"user": "me"}, callback=callback),
        JsonRequest(url("/json"), data={"b": [1, None]}, callback=callback),
        XmlRpcRequest(
            url("/rpc"), methodname="do", params=(1, "two"), callback=callback
        ),
        TaggedRequest(url("/tagged"), callback, tag="mine", flags=["a", "b"]),
        Request(
            url("/fields?q=%E9"),
            callback,
            method="PUT",
            body=b"\x00\xff",
            headers={"X-Two": ["a", "b"], "X-Latin": "\xe9"},
            cookies=[{"name": "c", "value": "1", "path": "/"}],
            encoding="latin-1",
            priority=-7,
            dont_filter=True,
            meta=META,
            cb_kwargs={"extra": {"a": (1, 2)}},
        ),
    ]


def facts(request: Request) -> dict[str, str]:
    """All that distinguishes a request, as text; of META what is in it."""
    headers = {k: v for k, v in request.headers.items() if k != b"Referer"}
    values = {name: getattr(request, name) for name in request.attributes}
    values |= {
        "class": type(request).__name__,
        "headers": headers,
        "meta": {k: v for k, v in request.meta.items() if k in META},
    }
    for name in ("callback", "errback"):
        del values[name]
    return {name: repr(value) for name, value in values.items()}


class ClassesSpider(SiteSpider):
    """Sends one request of each class, and reports how it came back."""

    name = "classes"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "DOWNLOADER_MIDDLEWARES": {
            "tests.everyday.project.middlewares.NoteFacts": -1000
        }
    }

    def parse(self, response: Response) -> Iterator[Output]:
        assert isinstance(response, TextResponse)
        yield from one_of_each(response, self.tell)

    def tell(self, response: Response, **_: Any) -> Iterator[Output]:
        yield {"facts": response.meta["facts"]}


class BrowserSpider(SiteSpider):
    """Requests as scrapy-playwright wants them; here nothing opens a browser."""

    name = "browser"
    custom_settings = {  # noqa: RUF012 - the name and form that Scrapy reads
        "DOWNLOADER_MIDDLEWARES": {"tests.everyday.project.middlewares.Browser": 990}
    }

    async def start(self) -> AsyncIterator[Output]:
        yield self.page("/start")

    def parse(self, response: Response) -> Iterator[Output]:
        page_method = self.page_method()
        static = {
            "playwright": True,
            "playwright_context": "acc1",
            "playwright_context_kwargs": {"storage_state": {"cookies": []}},
            "playwright_page_goto_kwargs": {"wait_until": "networkidle"},
        }
        listed = {"playwright_page_methods": [page_method("wait_for_selector", "p")]}
        named = {"playwright_page_methods": {"shot": page_method("click", "p", n=2)}}
        live = {"playwright_page_methods": [page_method(lambda page: page)]}
        yield self.page("/listed", self.tell, meta=static | listed)
        yield self.page("/named", self.tell, meta=static | named)
        yield self.page("/live", self.tell, meta=static | live)
        yield self.page(
            "/flaky?status=503&times=1",
            self.tell,
            meta=static | {"playwright_include_page": True},
        )

    def page_method(self) -> Callable[..., Any]:
        # Not at the top: it takes a second, and the other spiders do without.
        from scrapy_playwright.page import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
            PageMethod,
        )

        return PageMethod  # type: ignore[no-any-return,unused-ignore]

    def tell(self, response: Response) -> Iterator[Output]:
        meta = response.meta
        methods = meta.get("playwright_page_methods", [])
        steps = methods.values() if isinstance(methods, dict) else methods
        yield {
            "page": path_of(response),
            "context": [meta["playwright_context"], meta["playwright_context_kwargs"]],
            "goto": meta["playwright_page_goto_kwargs"],
            "kind": type(methods).__name__,
            "steps": [[str(s.method), list(s.args), s.kwargs] for s in steps],
            "with": type(meta.get("playwright_page")).__name__,
        }
