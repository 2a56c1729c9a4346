"""As the tests of crawls have it, with a spider that does harm where it is told to."""

from tests.crawl.project.settings import *  # noqa: F403 - that is what settings are

SPIDER_MODULES = ["tests.faults.spiders"]
ITEM_PIPELINES = {
    "tests.faults.spiders.Keeper": 100,
    "tests.crawl.project.pipelines.Recorder": 300,
}
RETRY_TIMES = 2

EXIT_AT = ""
"""Path of the page whose callback ends its process as a crash does."""
BLOCK_AT, BLOCK_SECS = "", 0
"""Path of the page whose callback blocks the event loop when it is first called, and
for how long."""
KEEP_AT = ""
"""Path of the page whose item never leaves the pipelines."""
SIGN_AT = ""
"""Path of the page from which each worker follows a link of its own."""
FAT_BYTES = 0
"""Size of what each request carries in its ``meta``."""
SEEDS, STALL_AFTER = 1, 0
"""How many pages ``start()`` asks for, and after how many the first worker to run it
waits for :meth:`.Trial.let_start_go_on`."""
MARKS = "."
"""Directory of files by which processes and test tell each other something."""
