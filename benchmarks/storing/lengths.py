"""What a pop and a push cost the server, by how many requests are queued."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.servers import cpu_seconds
from benchmarks.storing.worker import PAYLOAD, Links, SyncWorker
from scrapy_redis_state.store.keys import CrawlKeys

BATCH = 16
CHUNK = 512
"""Pushes, and then pops, between two looks at the server's processor time; fewer than
the shortest queue is long."""
AT_ONCE = 50_000
PRIORITIES = 21

# What scripts would store, with ids and entries as include/entry.lua makes them, in
# much less time.
FILL = """
local payload, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local priorities, at_once = tonumber(ARGV[4]), 500
for start = first, last, at_once do
  local places, entries = {}, {}
  for n = start, math.min(start + at_once - 1, last) do
    local id, priority = string.format('%014.0f', 99999999999999 - n), n % priorities
    places[#places + 1], places[#places + 2] = priority, id
    entries[#entries + 1], entries[#entries + 2] = id, priority .. ';0;;' .. payload
  end
  redis.call('ZADD', KEYS[1], unpack(places))
  redis.call('HSET', KEYS[2], unpack(entries))
end
redis.call('HSET', KEYS[3], 'sequence', string.format('%.0f', last))
"""


@dataclass(frozen=True, slots=True)
class LengthRow:
    """One length of a queue on one server; times are the server's, in µs."""

    server: str
    queued: int
    push_us: float
    """To test, mark and store one request."""
    pop_us: float
    """To hand out one request, and to end its page."""


def measure(
    client: Any, server: str, lengths: Sequence[int], operations: int
) -> Iterator[LengthRow]:
    """Push to and pop from queues of each length in turn, which stay as long as that.

    :param lengths: each at least 1000
    :param operations: of each kind, for each length
    """
    client.flushall()
    queues = [Queue(client, length) for length in lengths]
    costs: list[tuple[list[float], list[float]]] = [([], []) for _ in queues]
    # Round by round, so that all share the machine's moods; the first one warms up.
    for _ in range(operations // CHUNK + 2):
        for queue, (push_us, pop_us) in zip(queues, costs, strict=True):
            push_us.append(queue.push())
            pop_us.append(queue.pop())
    for queue, (push_us, pop_us) in zip(queues, costs, strict=True):
        assert client.zcard(queue.keys.named("frontier")) == queue.length
        push, pop = statistics.median(push_us[1:]), statistics.median(pop_us[1:])
        yield LengthRow(server, queue.length, push, pop)


class Queue:
    """One crawl, with so many requests queued."""

    def __init__(self, client: Any, length: int) -> None:
        self.length = length
        self.keys = CrawlKeys(f"shop:{length}")
        self._client = client
        self._worker = SyncWorker(client, self.keys)
        self._links = Links()
        fill(client, self.keys, length)

    def push(self) -> float:
        """Make it longer by a chunk; µs of the server for each."""
        before = cpu_seconds(self._client)
        for _ in range(0, CHUNK, BATCH):
            some = self._links.new(BATCH)
            self._worker.exchange(
                [one._replace(priority=n % PRIORITIES) for n, one in enumerate(some)]
            )
        return (cpu_seconds(self._client) - before) * 1e6 / CHUNK

    def pop(self) -> float:
        """Make it as long as it was; µs of the server for each, and for its ack.

        Pages end with the exchange after the one that brought them.
        """
        worker = self._worker
        popped = worker.exchange([], BATCH)
        before = cpu_seconds(self._client)
        for _ in range(1, CHUNK // BATCH):
            popped = worker.exchange(worker.talk.acks(popped), BATCH)
        taken = cpu_seconds(self._client) - before
        worker.exchange(worker.talk.acks(popped))
        return taken * 1e6 / (CHUNK - BATCH)


def fill(client: Any, keys: CrawlKeys, length: int) -> None:
    """Queue so many requests in a crawl that has made none yet."""
    names = [keys.named(name) for name in ("frontier", "requests", "crawl")]
    for start in range(0, length, AT_ONCE):
        end = min(start + AT_ONCE, length)
        arguments = (PAYLOAD, start + 1, end, PRIORITIES)
        client.eval(FILL, len(names), *names, *arguments)
    settle(client, keys, length)


def settle(client: Any, keys: CrawlKeys, length: int) -> None:
    """Have the server end the growing of its tables.

    What is in a table that was doubled it moves bit by bit, with each command that
    looks into it, which then takes longer. To draw a member moves more than a dozen.
    """
    draws = length // 10
    for start in range(0, draws, AT_ONCE):
        some = min(AT_ONCE, draws - start)
        client.hrandfield(keys.named("requests"), -some)
        client.zrandmember(keys.named("frontier"), -some)
