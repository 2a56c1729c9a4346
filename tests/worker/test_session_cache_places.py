"""Shared sessions on a Redis Cluster, and for a user with few rights."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.store.topologies import Cluster, starting
from tests.store.users import PREFIX, documented_user, url_of_user
from tests.worker.test_session_cache import LOGGER, caches_on, setting, value

pytestmark = pytest.mark.one_server


class On:
    """Has a URL, as a server does."""

    def __init__(self, url: str) -> None:
        self.url = url


async def test_sessions_are_all_over_a_cluster(server_kind, crawl_name):
    """Each on the node of its key; what is wanted together is asked for together."""
    with starting(server_kind) as start:
        cluster = Cluster(start, nodes=3)
        async with caches_on(On(cluster.url), crawl_name) as caches:
            first, link = caches.make()
            second, _ = caches.make()
            sites = [f"site{n}.example" for n in range(30)]
            await asyncio.gather(*map(first.get, map(caches.key, sites)))
            assert link.trips == [30]
            await asyncio.gather(
                *(first.save(caches.key(site), setting(site)) for site in sites),
                *(first.save(caches.key(site), setting(f"{site}2")) for site in sites),
            )
            owners = {cluster.owner(f"{crawl_name}sess:{site}").port for site in sites}
            assert len(owners) == 3
            found = await asyncio.gather(*map(second.get, map(caches.key, sites)))
            values = [
                cookie.value for session in found for cookie in session.cookies.values()
            ]
            assert values == [f"{site}2" for site in sites]


async def test_the_documented_user_has_the_rights(fresh_server):
    """As to commands and keys."""
    server = fresh_server()
    server.client().execute_command(*documented_user())
    async with caches_on(On(url_of_user(server)), PREFIX) as caches:
        cache, _ = caches.make()
        saved = await cache.save(caches.key(), setting("1"))
        assert saved
        assert value(await cache.get(caches.key())) == "1"


async def test_a_user_without_the_rights_is_told_once(fresh_server, caplog):
    """And its pages go on, with cookies of their own."""
    server = fresh_server()
    server.client().execute_command(*documented_user())
    async with caches_on(On(url_of_user(server)), "other-") as caches:
        cache, _ = caches.make()
        with caplog.at_level(logging.INFO, LOGGER):
            for n in range(10):
                await cache.get(caches.key(f"site{n}.example"))
                await cache.save(caches.key(f"site{n}.example"), setting("1"))
        assert len(caplog.messages) == 1
        assert "in its ACL" in caplog.text
