"""Spiders whose requests hold what cannot be stored."""

# ruff: noqa: ARG002 - Scrapy passes responses, wanted or not

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from itemloaders import ItemLoader
from scrapy.linkextractors import LinkExtractor

from tests.everyday.project.spiders.base import (
    Output,
    SiteSpider,
    by_closure,
    path_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.http import Response


def collect(response: Response, **_: Any) -> Iterator[Output]:
    """Report a page from outside of the spider."""
    yield {"page": path_of(response)}


def counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapper(self: Any, response: Response) -> Any:
        return method(self, response)

    return wrapper


class Helper:
    def collect(self, response: Response) -> Iterator[Output]:
        return collect(response)


class Mixin:
    def mixed_in(self, response: Response) -> Iterator[Output]:
        return collect(response)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class KindsSpider(Mixin, SiteSpider):
    """A request of each kind that can, and that cannot, be stored."""

    name = "kinds"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alias = Helper().collect

    def parse(self, response: Response) -> Iterator[Output]:
        for name, fields in self.unstorable(response).items():
            query = "?status=404" if "errback" in fields else ""
            yield self.page(
                f"/local/{name}{query}", **({"callback": self.report} | fields)
            )
        for name, callback in self.storable().items():
            yield self.page(f"/shared/{name}", callback)

    def unstorable(self, response: Response) -> dict[str, dict[str, Any]]:
        def inner(response: Response) -> Iterator[Output]:
            return self.report(response)

        return {
            "lambda": {"callback": lambda page: self.report(page, given=1)},
            "partial": {"callback": functools.partial(collect, given="something")},
            "function": {"callback": collect},
            "foreign": {"callback": Helper().collect},
            "inner": {"callback": inner},
            "errback": {"errback": lambda _: iter([{"page": "/local/errback"}])},
            "response": {"meta": {"response": response}},
            "selector": {"meta": {"in": {"a": [response.css("p")[0]]}}},
            "loader": {"meta": {"loader": ItemLoader(item={})}},
            "generator": {"cb_kwargs": {"numbers": (n for n in range(3))}},
            "lock": {"meta": {"lock": threading.Lock()}},
            "extractor": {"meta": {"links": LinkExtractor()}},
            "deep": {"meta": {"deep": nested(2000)}},
            "large": {"meta": {"large": "x" * 17 * 2**20}},
        }

    def storable(self) -> dict[str, Callable[..., Any]]:
        return {
            "alias": self.alias,
            "mixin": self.mixed_in,
            "private": self.__private,
            "async": self.in_coroutine,
            "decorated": self.decorated,
        }

    def __private(self, response: Response) -> Iterator[Output]:
        return self.report(response)

    async def in_coroutine(self, response: Response) -> list[Output]:
        return list(self.report(response))

    @counted
    def decorated(self, response: Response) -> Iterator[Output]:
        return self.report(response)


class ManySpider(SiteSpider):
    """One page that leads to many, some of which are local."""

    name = "many"

    def __init__(self, local: str = "0", shared: str = "0", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.local, self.shared = int(local), int(shared)

    def parse(self, response: Response) -> Iterator[Output]:
        for number in range(self.shared):
            yield self.page(f"/shared/{number}", self.report)
        for number in range(self.local):
            yield self.page(f"/local/{number}", by_closure(self.report))


class OrderSpider(SiteSpider):
    """Local and shared requests of different priorities, all from one page."""

    name = "order"
    custom_settings = {"CONCURRENT_REQUESTS": 1}  # noqa: RUF012

    def parse(self, response: Response) -> Iterator[Output]:
        for priority in (0, 200, 50):
            yield self.page(
                f"/local/{priority}",
                by_closure(self.report),
                priority=priority,
                dont_filter=priority == 0,  # it has nothing to wait for but its turn
            )
        for priority in (-5, 100, 101, 102):
            yield self.page(f"/shared/{priority}", self.report, priority=priority)


class FilteredSpider(SiteSpider):
    """Asks for one page twice, and again when it was done."""

    name = "filtered"

    def parse(self, response: Response) -> Iterator[Output]:
        for _ in range(2):
            yield self.page("/wanted", by_closure(self.parse_wanted))

    def parse_wanted(self, response: Response) -> Iterator[Output]:
        yield {"page": path_of(response)}
        yield self.page("/then", self.parse_then)

    def parse_then(self, response: Response) -> Iterator[Output]:
        yield {"page": path_of(response)}
        yield self.page("/wanted", self.report)
        yield self.page("/wanted", by_closure(self.report))
        yield self.page("/start", by_closure(self.report))


class ChainSpider(SiteSpider):
    """A page, three local ones that follow from each other, and leaves of each."""

    name = "chain"

    def parse(self, response: Response) -> Iterator[Output]:
        yield {"page": "/start"}
        yield self.link(1)

    def link(self, number: int) -> Output:
        callback = functools.partial(self.parse_link, number=number)
        return self.page(f"/link/{number}", by_closure(callback))

    def parse_link(self, response: Response, number: int) -> Iterator[Output]:
        yield {"page": path_of(response)}
        yield self.page(f"/leaf/{number}", self.report)
        if number < 3:
            yield self.link(number + 1)


class LocalStartSpider(SiteSpider):
    """``start()`` makes a local request, and raises in its first ``failures`` runs."""

    name = "local-start"

    def __init__(self, failures: str = "0", count: str = "1", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.failures, self.count = int(failures), int(count)
        self.runs = 0

    async def start(self) -> AsyncIterator[Output]:
        self.runs += 1
        yield self.page("/shared", self.report)
        for number in range(self.count):
            yield self.page(f"/local/{number}", by_closure(self.report))
        if self.runs <= self.failures:
            raise RuntimeError("start() has had enough")
