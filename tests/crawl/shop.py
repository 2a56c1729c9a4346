"""A site whose list pages lead to products, with many links to the same page."""

from __future__ import annotations

from tests.site import Site

PER_LIST = 10


class Shop(Site):
    """List pages 0, 1, 2... of ten products each; each page links back and ahead.

    ``delay`` is how long a product page takes, in seconds.
    """

    def __init__(self, products: int, *, delay: float = 0.02) -> None:
        super().__init__()
        self.products = frozenset(range(products))
        self.lists = -(-products // PER_LIST)
        self.delay = delay

    def body(self, path: str) -> str:
        kind, _, number = path.lstrip("/").partition("/")
        if kind == "product":
            heading, links = self._product(int(number))
        elif kind == "list":
            heading, links = self._list(int(number))
        else:
            return super().body(path)
        navigation = ["/list/0", f"/list/{self.lists - 1}"]
        anchors = [f'<a href="{link}">.</a>' for link in [*navigation, *links]]
        return f"<html><body>{heading}{''.join(anchors)}</body></html>"

    def _product(self, number: int) -> tuple[str, list[str]]:
        others = [(number + 1) % len(self.products), (number * 7) % len(self.products)]
        heading = f'<article data-id="{number}"></article>'
        return heading, [self._link(other) for other in others]

    def _list(self, number: int) -> tuple[str, list[str]]:
        first = number * PER_LIST
        shown = [p for p in range(first, first + PER_LIST) if p in self.products]
        following = (number + 1) % self.lists
        return "", [f"/list/{following}", *map(self._link, shown)]

    def _link(self, product: int) -> str:
        return f"/product/{product}?delay={self.delay}"
