"""``python -m runner.worker_process``: ``scrapy``, but it ends with the runner.

Standard input is the life line, as for the site: a worker whose runner was killed would
ask a site that is gone, and give its pages up. It ends at once, as if killed as well,
and the next run does what it had in hand.
"""

from __future__ import annotations

import os
import sys
import threading

from scrapy.cmdline import execute


def _end_with_runner() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_runner, daemon=True).start()
    execute(["scrapy", *sys.argv[1:]])
