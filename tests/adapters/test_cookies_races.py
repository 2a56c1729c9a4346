"""Workers that change one session at the same time, in any order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from scrapy import Request

from scrapy_redis_state.worker.sessions import cache
from tests.adapters.cookie_pair import Ours
from tests.adapters.test_cookies import HOME, Workers, workers_on

pytestmark = pytest.mark.one_server

ROUNDS = 5
COOKIES = [
    f"{name}={value}; Path={path}"
    for name in "ab"
    for path in ("/", "/x")
    for value in ("1", "2", "; Max-Age=0")
]


class Racer:
    """One worker; it does what chance wants."""

    def __init__(self, worker: Ours, chance: random.Random) -> None:
        self.worker, self.chance = worker, chance
        self.in_air: list[Request] = []

    async def act(self) -> None:
        chance = self.chance
        if self.in_air and chance.random() < 0.6:
            request = self.in_air.pop(chance.randrange(len(self.in_air)))
            await self.worker.receive(request, *chance.sample(COOKIES, 2))
        elif chance.random() < 0.1:
            self.worker.expire()
        else:
            request = Request(f"{HOME}x/")
            await self.worker.send(request)
            self.in_air.append(request)
        await asyncio.sleep(chance.random() / 200)

    async def run(self) -> None:
        for _ in range(25):
            await self.act()


async def publish(workers: Workers, chance: random.Random) -> None:
    """A program beside them, now and then."""
    await asyncio.sleep(chance.random() / 20)
    if chance.random() < 0.5:
        workers.sessions.save(HOME, {"a": "published"})
    elif chance.random() < 0.5:
        workers.sessions.invalidate(HOME)
    else:
        workers.sessions.update(HOME, {"b": "updated"})


@pytest.mark.parametrize("seed", [1, 2])
async def test_in_the_end_all_send_what_is_stored(
    server, crawl_name, monkeypatch: Any, seed: int
):
    """No jar keeps what was lost, and no change stays behind in one process."""
    monkeypatch.setattr(cache, "REFRESH_SECS", 0.02)
    chance = random.Random(seed)
    async with workers_on(server, crawl_name) as workers:
        racers = [Racer(workers.start(), chance) for _ in range(3)]
        for _ in range(ROUNDS):
            await asyncio.gather(
                *(racer.run() for racer in racers), publish(workers, chance)
            )
            for racer in racers:
                await racer.worker.saved(workers.key)
            for racer in racers:
                racer.worker.expire()
            headers = [await racer.worker.get(f"{HOME}x/") for racer in racers]
            fresh = await workers.start().get(f"{HOME}x/")
            assert [sorted_pairs(one) for one in headers] == [sorted_pairs(fresh)] * 3


def sorted_pairs(header: bytes | None) -> list[bytes]:
    return sorted((header or b"").split(b"; "))
