"""The answer of the shop to each path."""

from __future__ import annotations

import re
import threading
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from storefront.answers import NOT_FOUND, Answer, page
from storefront.catalog import CATEGORIES, FLAKY_FAILURES, Catalog

if TYPE_CHECKING:
    from collections import Counter

SITEMAP_NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"
TEXTS = ("/about", "/contact", "/terms", "/privacy")


class Shop:
    """Answers requests; remembers only how often each flaky page was asked for.

    :param failed: how often each path has been answered with 503 before
    """

    def __init__(
        self, catalog: Catalog, slow_secs: float, failed: Counter[str]
    ) -> None:
        self.catalog = catalog
        self.slow_secs = slow_secs
        self._lock = threading.Lock()
        self._failed = failed

    def answer(self, path: str, site: str) -> Answer:
        """Return the answer to a GET of ``path`` (with its query string).

        :param site: URL of the home page
        """
        if path == "/robots.txt":
            return Answer(200, "User-agent: *\nDisallow:\n", "plain")
        if path == "/sitemap.xml":
            return Answer(200, sitemap(self.catalog, site), "xml")
        if path == "/":
            links = (self.catalog.url(item) for item in self.catalog.bestsellers())
            return page("Bestsellers", links)
        if path in TEXTS:
            return page(path.strip("/").capitalize())
        if path == "/clearance":
            links = (self.catalog.link(item) for item in self.catalog.clearance())
            return page("Clearance", links, delay=self.slow_secs)
        if match := re.fullmatch(r"/category/([a-z]+)(?:\?page=(\d+))?", path):
            return self._category(match[1], int(match[2] or 1))
        if match := re.fullmatch(r"/(product|flash|old)/(\d+)", path):
            return self._product(path, match[1], int(match[2]))
        return NOT_FOUND

    def _category(self, name: str, number: int) -> Answer:
        if name not in CATEGORIES or not 1 <= number <= self.catalog.pages(name):
            return NOT_FOUND
        links = [self.catalog.link(item) for item in self.catalog.listed(name, number)]
        links.append(f"/product/sold-out-{name}-{number}")  # a dead link: 404
        links += [
            f"/category/{name}?page={other}"
            for other in range(2, self.catalog.pages(name) + 1)
        ]
        return page(f"{name.capitalize()}, page {number}", links)

    def _product(self, path: str, kind: str, product: int) -> Answer:
        if not 1 <= product <= self.catalog.size:
            return NOT_FOUND
        if kind == "old" and self.catalog.is_moved(product):
            return Answer(301, location=self.catalog.url(product))
        if path != self.catalog.url(product):
            return NOT_FOUND
        if self.catalog.is_flaky(product) and self._still_failing(path):
            return Answer(503, "Back in a moment.\n", "plain")
        links = [self.catalog.link(item) for item in self.catalog.related(product)]
        links.append("/clearance")
        article = (
            f'<article data-id="{product}">'
            f'<p class="price">{self.catalog.price(product)}.90</p></article>'
        )
        return page(f"Product {product}", links, article)

    def _still_failing(self, path: str) -> bool:
        with self._lock:
            self._failed[path] += 1
            return self._failed[path] <= FLAKY_FAILURES


def sitemap(catalog: Catalog, site: str) -> str:
    """Make the sitemap: products, each with the day of its last change."""
    today = datetime.now(timezone.utc).date()

    def changed(product: int) -> date:
        return today - timedelta(days=catalog.changed_days_ago(product))

    entries = (
        f"<url><loc>{urljoin(site, catalog.url(product))}</loc>"
        f"<lastmod>{changed(product)}</lastmod></url>"
        for product in catalog.products()
        if catalog.is_in_sitemap(product)
    )
    return (
        f'<urlset xmlns="{SITEMAP_NAMESPACE}">\n' + "\n".join(entries) + "\n</urlset>\n"
    )
