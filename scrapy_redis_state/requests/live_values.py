"""Values in meta that live in a spider's process, and can be found again in another.

The spider and its methods; items; the page methods of scrapy-playwright.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from scrapy import Item, Spider

from scrapy_redis_state.codec import NotEncodable, UnknownCode
from scrapy_redis_state.codec.kinds import (
    ITEM,
    PAGE_METHOD,
    SPIDER,
    SPIDER_METHOD,
    Kind,
)
from scrapy_redis_state.requests.references import (
    SpiderMethods,
    class_path,
    loaded_class,
)

_PLAYWRIGHT = "scrapy_playwright.page"


def spider_kinds(spider: Spider, methods: SpiderMethods) -> Iterator[Kind]:
    """Return the kinds of such values for one spider."""

    def method_parts(method: Any) -> tuple[str]:
        return (methods.name(method),)

    def method_build(parts: list[Any]) -> Any:
        (name,) = parts
        return methods.get(name)

    def spider_parts(value: Spider) -> tuple[()]:
        if value is not spider:
            raise NotEncodable("is another spider than the one running")
        return ()

    for cls in (MethodType, FunctionType):
        yield Kind(SPIDER_METHOD, cls, method_parts, method_build)
    yield Kind(SPIDER, type(spider), spider_parts, lambda _: spider)
    yield Kind(ITEM, Item, _item_parts, _item_build)
    yield Kind(PAGE_METHOD, _PageMethod, _page_method_parts, _page_method_build)


def kind_for(cls: type) -> Kind | None:
    """Return the kind of values of a type that only some spiders use."""
    if Item in cls.__mro__:
        return Kind(ITEM, cls, _item_parts, _item_build)
    if cls.__module__ == _PLAYWRIGHT and cls is _page_method():
        return Kind(PAGE_METHOD, cls, _page_method_parts, _page_method_build)
    return None


def _item_parts(item: Item) -> tuple[str, dict[str, Any]]:
    path = class_path(type(item))
    try:
        found = loaded_class(path, Item)
    except ValueError:
        found = None
    if found is not type(item) or vars(item).keys() != {"_values"}:
        raise NotEncodable(
            f"is an item of class {path}, which other workers cannot build from its "
            "fields; define it at the top level of a module, without other state"
        )
    return path, dict(item)


def _item_build(parts: list[Any]) -> Item:
    path, values = parts
    return loaded_class(path, Item)(values)


class _PageMethod:
    """Stands for scrapy-playwright's class, which must not be imported for reading."""


def _page_method() -> Any:
    """Return the type of scrapy-playwright's page methods, if that is in use."""
    module = sys.modules.get(_PLAYWRIGHT)
    return None if module is None else vars(module).get("PageMethod")


def _page_method_parts(step: Any) -> tuple[Any, ...]:
    # Not its result: that is what the download fills in, often a live element.
    return step.method, step.args, step.kwargs


def _page_method_build(parts: list[Any]) -> Any:
    method, args, kwargs = parts
    page_method = _page_method()
    if page_method is None:
        raise UnknownCode(
            "holds page methods, and scrapy-playwright is not in use here"
        )
    return page_method(method, *args, **kwargs)
