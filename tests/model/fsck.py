"""What must hold of a crawl's state between any two calls."""

from __future__ import annotations

from tests.model.server import ModelServer
from tests.model.state import Crawl


def fsck(server: ModelServer) -> list[str]:
    """What is wrong with the crawl, one sentence each; empty if nothing is."""
    crawl = server.crawl
    return [] if crawl is None else [*_misplaced(crawl), *_leases(crawl)]


def _misplaced(crawl: Crawl) -> list[str]:
    waiting = [*crawl.frontier, *crawl.delayed, *crawl.suspects, *crawl.inflight]
    places = [*waiting, *crawl.dead]
    errors = [
        f"{id} is in more than one place"
        for id in dict.fromkeys(places)
        if places.count(id) > 1
    ]
    errors += [f"{id} has no payload" for id in waiting if id not in crawl.requests]
    errors += [f"{id} has no payload" for id in crawl.dead if id not in crawl.deadinfo]
    errors += [
        f"{id} has a payload and is nowhere" for id in crawl.requests.keys() - waiting
    ]
    errors += [
        f"{id} is described as dead and is not"
        for id in crawl.deadinfo.keys() - crawl.dead.keys()
    ]
    return errors


def _leases(crawl: Crawl) -> list[str]:
    errors = [
        f"{id} is in flight and has no owner"
        for id in crawl.inflight.keys() - crawl.leases.keys()
    ]
    errors += [
        f"{id} has an owner and is not in flight"
        for id in crawl.leases.keys() - crawl.inflight.keys()
    ]
    if crawl.suspect and crawl.suspect not in crawl.inflight:
        errors.append(f"{crawl.suspect} is the suspect and is not in flight")
    return errors
