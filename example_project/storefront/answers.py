"""What the shop answers with, and the frame that all its pages have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from storefront.catalog import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterable

NAVIGATION = ("/", "/about", "/contact", *(f"/category/{name}" for name in CATEGORIES))
FOOTER = ("/terms", "/privacy")
ICON = '<link rel="icon" href="data:,">'
"""None; or browsers ask for one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and how long the shop takes to give it."""

    status: int
    body: str = ""
    kind: str = "html"
    """Kind of text: ``html``, ``plain`` or ``xml``."""
    location: str = ""
    """Target of a redirect."""
    delay: float = 0.0
    """Seconds."""
    cookies: tuple[str, ...] = ()
    """Values of ``Set-Cookie``."""


NOT_FOUND = Answer(404, "<h1>Not found</h1>\n")


def page(
    title: str,
    links: Iterable[str] = (),
    content: str = "",
    delay: float = 0.0,
    cookies: tuple[str, ...] = (),
) -> Answer:
    """Make a page of the shop: the links that every page repeats around its own."""
    parts = (_list("nav", NAVIGATION), content, _list("main", links))
    body = "\n".join((f"<h1>{title}</h1>", *parts, _list("footer", FOOTER)))
    text = f"<!DOCTYPE html>\n<title>{title}</title>\n{ICON}\n{body}\n"
    return Answer(200, text, delay=delay, cookies=cookies)


def _list(element: str, links: Iterable[str]) -> str:
    anchors = (f'<a href="{link}">{link}</a>' for link in links)
    return f"<{element}>{' '.join(anchors)}</{element}>"
