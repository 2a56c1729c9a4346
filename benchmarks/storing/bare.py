"""The least that a shared crawl can cost a server: the commands, and no promise.

One script that adds each new link to a set, a hash and a sorted set, and moves pages
from one place to another. Nobody owns what it hands out, a lost reply loses pages, no
crawl ever ends. It shows what the machine makes of such commands, so that figures of
different machines can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.sample import fingerprint
from benchmarks.storing.worker import PAYLOAD
from scrapy_redis_state.store.call import pack

KEYS = ("seen", "requests", "frontier", "inflight", "numbers")

SCRIPT = """
local links, ends, want = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]), ARGV[3]
for i = 1, #links, 2 do
  if redis.call('SADD', KEYS[1], links[i]) == 1 then
    local id = redis.call('INCR', KEYS[5])
    redis.call('HSET', KEYS[2], id, links[i + 1])
    redis.call('ZADD', KEYS[3], 0, id)
  end
end
for _, id in ipairs(ends) do
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[4], id)
end
local ids, pages = redis.call('ZPOPMAX', KEYS[3], want), {}
for i = 1, #ids, 2 do
  redis.call('ZADD', KEYS[4], 0, ids[i])
  pages[i], pages[i + 1] = ids[i], redis.call('HGET', KEYS[2], ids[i])
end
return pages
"""


class BareWorker:
    """Claims and ends pages by the script alone."""

    def __init__(self, client: Any) -> None:
        self._run = client.register_script(SCRIPT)
        self._made = 0

    def new(self, count: int) -> list[bytes]:
        """Links that were never made: fingerprint, payload, and so on."""
        first, self._made = self._made, self._made + count
        return self._links(range(first, self._made))

    def old(self, count: int, start: int) -> list[bytes]:
        """Links that were made, others for each *start*."""
        return self._links((start * count + n) % self._made for n in range(count))

    def exchange(
        self, links: Sequence[bytes], ended: Sequence[bytes], want: int
    ) -> list[bytes]:
        """One round trip; the ids of the pages that came."""
        pages: list[bytes] = self._run(KEYS, [pack(links), pack(ended), want])
        return pages[::2]

    @staticmethod
    def _links(numbers: Any) -> list[bytes]:
        return [part for n in numbers for part in (fingerprint(n), PAYLOAD)]
