"""All that whole crawls need: sites, a web server, a Redis, and who runs them."""

from __future__ import annotations

import compileall
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.crawling import web
from benchmarks.crawling.pages import write_pages
from benchmarks.crawling.trial import Trials
from benchmarks.servers import version
from tests.processes import REPOSITORY, Programs
from tests.servers import Server
from tests.store.bloom import bloom_module

LINKS = 14
"""Of each page, where nothing else is said."""
LINK_PAGES = 600
"""Pages of a site with another number of links."""


@contextmanager
def stage(
    pages: int, link_counts: Sequence[int] = ()
) -> Iterator[tuple[Trials, dict[str, Any]]]:
    """Set up, and say what is there.

    :param pages: of the site
    :param link_counts: links per page of other sites, called ``links-<number>``
    """
    # As it is where it is installed, also if Python is told to write none.
    compileall.compile_dir(REPOSITORY / "scrapy_redis_state", quiet=1)
    bloom = ["--loadmodule", str(bloom_module())]
    with (
        tempfile.TemporaryDirectory() as name,
        Server("redis", tcp=True, extra_args=bloom) as server,
        Programs(Path(name)) as programs,
    ):
        scratch = Path(name)
        root = scratch / "site"
        root.mkdir()
        # The web server may give up the rights of who started it.
        for folder in (scratch, root):
            folder.chmod(0o755)
        write_pages(root, pages, LINKS)
        for links in link_counts:
            write_pages(root, LINK_PAGES, links, f"links-{links}")
        with web.serving(root, scratch, programs) as url:
            yield (
                Trials(programs, server, url),
                {
                    "server": version(server.client()),
                    "web": web.describe(),
                    "site": {"pages": pages, "links": LINKS},
                },
            )
