"""Crawls that are copied, and what of them must be the same afterwards."""

from __future__ import annotations

import re
from typing import Any

import msgpack

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Bury, Fail, HandBack, Seeding, Store
from scrapy_redis_state.store.move.form import LEFT_BEHIND
from scrapy_redis_state.store.seen import EARLIER_EPOCHS, SeenSet
from tests.store.crawls import MAX_DELIVERIES, TUNABLE, Crawl, page, unfiltered

BYTES = bytes(range(256))
MINUTE_MS = 60_000

PLACES = ("frontier", "delayed", "suspects", "dead")


def crawl_with(client: Any, name: str, seen_set: SeenSet) -> Crawl:
    """A crawl with another seen set than the usual one."""
    crawl = Crawl(client, name)
    crawl.keys = CrawlKeys(name, "", seen_set)
    return crawl


def copy_of(crawl: Crawl, client: Any, name: str, prefix: str = "") -> Crawl:
    """Where a crawl is to be, on another server or under other names."""
    copy = Crawl(client, name)
    copy.keys = CrawlKeys(name, prefix, crawl.keys.seen_set)
    return copy


def state_of(crawl: Crawl) -> CrawlState:
    """For programs; its client is closed by whoever made it."""
    return CrawlState(crawl.client, crawl.keys)


def fill(crawl: Crawl, order: str = "fifo", **identity: str) -> None:
    """Have something of every kind, and no live worker."""
    agreed = {"order": order, "schema": "1", "spider": "offers", **identity}
    if not identity:
        agreed["seen"] = crawl.keys.seen_set.spec
    tunable = TUNABLE | {"max_per_site": "9", "revisit_ms": str(100 * MINUTE_MS)}

    def member(name: str) -> Any:
        fields: dict[str, Any] = {"identity": agreed, "tunable": tunable}
        return crawl.member(name, seeding=Seeding.OPEN, **fields)

    member("other")  # which may be able to run what the first hands back
    first = member("first")
    token = first.exchange(seeder=True).summary.seed_token
    first.exchange(
        Store(b"start", fingerprint=b"s", seed=b"\xff1", seed_token=token),
        *(page(name, priority=9) for name in ("given up", "failed", "handed back")),
    )
    up, failed, back = first.take(3)
    first.exchange(
        Bury(up.id, up.batch, "gone: \udce9"),
        Fail(failed.id, failed.batch, 60 * MINUTE_MS, "oops"),
        HandBack(back.id, back.batch, 50 * MINUTE_MS, "unknown callback"),
    )
    first.exchange(page("kills", priority=8))
    for number in range(MAX_DELIVERIES - 1):
        member(f"killed{number}").take(1)
        crawl.later()
        crawl.reap()
    last = member("last")
    last.exchange(
        *(unfiltered(f"tie {n}", priority=n % 2) for n in range(20)),
        Store(BYTES, -3, b"\x00\xfe"),
        Store("Zoë; 1;2;3;".encode(), 2**53, b"text"),
        page("limited", site="a.example"),
        page("again", revisit_ms=70 * MINUTE_MS),
    )
    last.take(1, idle=True)  # the suspect
    crawl.ago("last_time")


def raw(crawl: Crawl) -> dict[str, Any]:
    """All that a copy must have, under names that do not tell where it is."""
    client: Any = crawl.client
    found: dict[str, Any] = {}
    held = {id: crawl.place("inflight")[id] for id in crawl.place("inflight")}
    suspect = crawl.field("suspect")
    for name in PLACES:
        pairs = client.zrange(crawl.key(name), 0, -1, withscores=True)
        found[name] = {id.decode(): score for id, score in pairs}
    for id in held:
        entry = client.hget(crawl.key("requests"), id)
        place = "suspects" if id == suspect else "frontier"
        found[place][id] = float(entry.partition(b";")[0])
    entries = client.hgetall(crawl.key("requests"))
    found["requests"] = {id.decode(): _without_workers(e) for id, e in entries.items()}
    letters = client.hgetall(crawl.key("deadinfo"))
    found["deadinfo"] = {id: _letter(info) for id, info in letters.items()}
    found["seeds"] = client.smembers(crawl.key("seeds"))
    found["sites"] = {
        site: [
            (int(epoch) and crawl.epoch - int(epoch), int(count))
            for epoch, count in re.findall(rb"(\d+):(\d+)", counts)
        ]
        for site, counts in client.hgetall(crawl.key("sites")).items()
    }
    found["revisits"] = client.zrange(crawl.key("revisits"), 0, -1, withscores=True)
    found["seen"] = seen_of(crawl)
    fields = {n.decode(): v for n, v in client.hgetall(crawl.key("crawl")).items()}
    own = LEFT_BEHIND | {"seen_version"}  # raised by an import
    found["fields"] = {n: v for n, v in fields.items() if n not in own}
    found["status"] = fields.get("status")
    return found


def _letter(info: bytes) -> Any:
    try:
        return msgpack.unpackb(info, raw=True)
    except ValueError:
        return info


def _without_workers(entry: bytes) -> bytes:
    """A worker that handed it back is no more; that one did still counts."""
    head = entry.split(b";", 3)
    if len(head) < 4:
        return entry
    return b";".join([*head[:2], b"-" if head[2] else b"", head[3]])


def seen_of(crawl: Crawl) -> list[dict[str, set[bytes]]]:
    """Members by shard, of the epoch and of those before that count."""
    seen_set = SeenSet.parse(crawl.field("agreed:seen") or "exact")
    if seen_set.kind == "bloom":
        return []
    ages = range(1 + EARLIER_EPOCHS * seen_set.revisits)
    return [
        {
            key.decode().partition(f":{epoch}")[2]: crawl.client.smembers(key)
            for key in crawl.client.scan_iter(f"*{{{crawl.keys.crawl}}}:{epoch}*")
        }
        for epoch in (crawl.epoch - age for age in ages)
    ]
