"""As the project of ``tests/crawl``, with other spiders."""

from tests.crawl.project.settings import *  # noqa: F403 - that is what settings are

SPIDER_MODULES = ["tests.everyday.project.spiders"]
