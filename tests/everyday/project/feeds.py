"""Functions of a project for the parameters of its feeds' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy import Spider


def for_all(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Give what Scrapy has and one more."""
    return {**params, "mine": f"all-{spider.name}"}


def for_one(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Give one's own alone."""
    return {"mine": f"one-{spider.name}"}


def in_place(params: dict[str, Any], spider: Spider) -> None:
    """Change what Scrapy has, and return nothing."""
    params["mine"] = f"place-{spider.name}"
