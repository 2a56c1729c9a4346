"""What the shop sells and where each product is linked from.

Everything follows from the number of products, so two processes that agree on it
agree on the whole shop.
"""

from __future__ import annotations

from dataclasses import dataclass

CATEGORIES = ("books", "garden", "kitchen", "music", "sports", "toys")
PER_PAGE = 12
"""Products on one list page."""
FLAKY_FAILURES = 2
"""How often a flaky product page answers 503 before it recovers."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """A shop of ``size`` products, numbered from 1."""

    size: int

    def products(self) -> list[int]:
        """Return the ids of all products: what a complete crawl delivers."""
        return list(range(1, self.size + 1))

    def flash_sales(self) -> list[int]:
        """Return the ids of the products that are on sale for a short time only."""
        return [product for product in self.products() if self.is_flash(product)]

    def is_flash(self, product: int) -> bool:
        return _is_one_in(11, product) and not self.is_clearance(product)

    def recently_changed(self) -> list[int]:
        """Return the ids of the other products that changed yesterday."""
        return [item for item in self.products() if self.is_recently_changed(item)]

    def is_recently_changed(self, product: int) -> bool:
        is_special = self.is_flash(product) or self.is_clearance(product)
        return _is_one_in(7, product) and not is_special

    def is_in_sitemap(self, product: int) -> bool:
        """Tell whether the sitemap lists it.

        It was made last night: flash sales that are younger are found by links alone.
        """
        is_too_young = self.is_flash(product) and product % 3 == 0
        return not is_too_young and not self.is_clearance(product)

    def changed_days_ago(self, product: int) -> int:
        """Tell the age of the last change of a product's page."""
        is_new = self.is_flash(product) or self.is_recently_changed(product)
        return 1 if is_new else 30 + product % 300

    def is_moved(self, product: int) -> bool:
        """Tell whether the lists still name its old URL, which redirects."""
        return _is_one_in(13, product) and not self.is_flash(product)

    def is_flaky(self, product: int) -> bool:
        """Tell whether its page answers 503 a few times before it recovers."""
        return _is_one_in(17, product)

    def is_clearance(self, product: int) -> bool:
        """Tell whether only the slow clearance page leads to it."""
        return product > self.size - max(2, self.size // 25)

    def is_outlet(self, product: int) -> bool:
        """Tell whether members find it in the outlet."""
        return _is_one_in(5, product) or self.is_clearance(product)

    def price(self, product: int) -> int:
        """Tell what everybody pays, in whole coins."""
        return product % 90 + 9

    def url(self, product: int) -> str:
        """Return the path of the product's page."""
        kind = "flash" if self.is_flash(product) else "product"
        return f"/{kind}/{product}"

    def member_url(self, product: int) -> str:
        """Return the path of the page that has the price for members."""
        return f"/{'outlet' if self.is_outlet(product) else 'members'}/{product}"

    def link(self, product: int) -> str:
        """Return the path that the lists name: the old one of a moved product."""
        return f"/old/{product}" if self.is_moved(product) else self.url(product)

    def pages(self, category: str) -> int:
        """Count the list pages of a category, at least 1."""
        return max(1, -(-len(self._members(category)) // PER_PAGE))

    def listed(self, category: str, page: int) -> list[int]:
        """Return the products on one list page; pages count from 1."""
        return self._members(category)[(page - 1) * PER_PAGE : page * PER_PAGE]

    def clearance(self) -> list[int]:
        return [product for product in self.products() if self.is_clearance(product)]

    def related(self, product: int) -> list[int]:
        """Return the products that a product's page names; none of the clearance."""
        others = ((product * factor) % self.size + 1 for factor in (3, 7, 11))
        return [other for other in others if not self.is_clearance(other)]

    def bestsellers(self) -> list[int]:
        """Return moved products that the home page links by their new URL as well."""
        return [product for product in self.products() if self.is_moved(product)][:5]

    def _members(self, category: str) -> list[int]:
        place = CATEGORIES.index(category)
        return [
            product
            for product in self.products()
            if product % len(CATEGORIES) == place and not self.is_clearance(product)
        ]


def _is_one_in(count: int, product: int) -> bool:
    return product % count == count // 2
