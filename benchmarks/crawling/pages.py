"""The site that is crawled: its pages, as files."""

from __future__ import annotations

import random
from pathlib import Path

TEXT = "Garden hose, red, 25 m, with a brass coupling. " * 40
"""About 2 kB, so that there is something to parse."""

SEED = 7


def write_pages(root: Path, pages: int, links: int, name: str = "site") -> None:
    """Write a site of so many pages with so many links each.

    Each page links to two of a tree, so that all are reached, and else to any.

    :param links: at least 2
    :param name: of the folder of its files; the first page is ``0.html``
    """
    folder = root / name
    folder.mkdir()
    choice = random.Random(SEED)  # noqa: S311 - the same site each time
    for page in range(pages):
        targets = [(2 * page + 1) % pages, (2 * page + 2) % pages]
        targets += choice.choices(range(pages), k=links - len(targets))
        anchors = "\n".join(
            f'<li><a href="{target}.html">Product {target}</a></li>'
            for target in targets
        )
        (folder / f"{page}.html").write_text(
            f"<html><head><title>Product {page}</title></head><body><h1>Product {page}"
            f"</h1><p>{TEXT}</p><ul>{anchors}</ul></body></html>"
        )
