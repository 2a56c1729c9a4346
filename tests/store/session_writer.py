"""A program that changes one session, while others do.

``python session_writer.py URL PREFIX NAME COUNT`` sets COUNT cookies and tokens of its
own, one call each, deletes every second of them, and says so.
"""

from __future__ import annotations

import sys

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.sessions.sessions import Sessions

SITE = "shop.example"


def main(url: str, prefix: str, name: str, count: int) -> None:
    """Wait for a line, then write."""
    sessions = Sessions(sync_client(url), prefix)
    sessions.load(SITE)
    print("ready", flush=True)  # noqa: T201 - tests wait for it
    while sessions.load(SITE).get("go") is None:
        pass
    for number in range(count):
        label = f"{name}-{number}"
        sessions.update(SITE, {label: label}, tokens={label: label})
        if number % 2:
            sessions.update(SITE, {label: None}, tokens={label: None})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
