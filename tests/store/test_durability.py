"""What a server's settings mean for a crawl, in one line each."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.durability import durability
from scrapy_redis_state.store.server_facts import Finding
from tests.processes import wait_until
from tests.servers import Server
from tests.store.clients import StartServer


def findings(url: str) -> list[Finding]:
    with contextlib.closing(sync_client(url)) as client:
        found = durability(client)
    assert not [finding for finding in found if "\n" in finding.text or finding.fatal]
    return found


def configured(server: Server, **config: str) -> Finding:
    """The only finding about a server with these settings."""
    client = server.client()
    for name, value in config.items():
        client.config_set(name, value)
    (found,) = findings(server.url)
    return found


class TestDisk:
    def test_nothing_is_kept(self, fresh_server: StartServer):
        """A server without AOF and snapshots has the crawl in its memory only."""
        found = configured(fresh_server())
        assert found.level == logging.WARNING
        assert "when it ends, the crawl is lost" in found.text
        assert "CONFIG SET appendonly yes" in found.text

    def test_snapshots_only(self, fresh_server: StartServer):
        """The crawl goes back to the last one."""
        found = configured(fresh_server(), save="3600 1 300 100")
        assert found.level == logging.WARNING
        assert "(appendonly no, save '3600 1 300 100')" in found.text
        assert "the crawl goes back to the last one" in found.text
        assert "CONFIG SET appendonly yes" in found.text

    @pytest.mark.parametrize(
        ("fsync", "level", "meaning"),
        [
            ("always", logging.INFO, "a crash loses nothing"),
            ("everysec", logging.INFO, "loses about the last second"),
            ("no", logging.WARNING, "CONFIG SET appendfsync everysec"),
        ],
    )
    def test_a_file_of_all_changes(
        self, fresh_server: StartServer, fsync: str, level: int, meaning: str
    ):
        """What a crash loses depends on how often the file is written to disk."""
        found = configured(fresh_server(), appendonly="yes", appendfsync=fsync)
        assert found.level == level
        assert f"appendfsync {fsync}" in found.text
        assert meaning in found.text

    def test_a_snapshot_that_failed(self, fresh_server: StartServer, tmp_path: Path):
        """The server has an old state on disk, and may refuse writes."""
        gone = tmp_path / "gone"
        gone.mkdir()
        server = fresh_server(directory=gone)
        client = server.client()
        client.set("key", 1)
        gone.rmdir()
        client.bgsave()
        wait_until(
            lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err"
        )
        failed, _ = findings(server.url)
        assert failed.level == logging.WARNING
        assert "its last snapshot failed" in failed.text
        gone.mkdir()


class TestReplicas:
    def test_what_replicas_lack_is_lost_at_a_failover(self, fresh_server: StartServer):
        """One line about it, with what to do."""
        server, replica = fresh_server(tcp=True), fresh_server(tcp=True)
        replica.client().replicaof("127.0.0.1", server.port)
        client = server.client()
        wait_until(lambda: client.info("replication")["connected_slaves"] == 1)
        _, found = findings(server.url)
        assert found.level == logging.INFO
        assert "the server has 1 replica, which may be behind" in found.text
        assert "REDIS_STATE_WAIT_REPLICAS" in found.text
        assert "min-replicas-to-write" in found.text
        client.config_set("min-replicas-to-write", 1)
        _, found = findings(server.url)
        assert "min-replicas-to-write" not in found.text

    def test_a_replica_takes_no_writes(self, fresh_server: StartServer):
        """It is not what a crawl should name."""
        server, replica = fresh_server(tcp=True), fresh_server(tcp=True)
        replica.client().replicaof("127.0.0.1", server.port)
        _, found = findings(replica.url)
        assert found.level == logging.WARNING
        assert "name its master" in found.text


class TestRights:
    @pytest.mark.parametrize(
        ("rights", "count"),
        [([], 0), (["+config|get"], 0), (["+info"], 1), (["+info", "+config|get"], 1)],
    )
    def test_what_may_not_be_read_is_left_out(
        self, fresh_server: StartServer, rights: list[str], count: int
    ):
        """INFO alone says much; without it nothing is said here."""
        server = fresh_server(appendonly=True)
        server.client().execute_command(
            "ACL", "SETUSER", "ann", "on", ">secret", "~*", *rights
        )
        found = findings(server.url.replace("://", "://ann:secret@"))
        assert len(found) == count
        if rights == ["+info"]:
            assert "how often it is written to disk cannot be read" in found[0].text

    def test_a_server_that_does_not_answer(self, fresh_server: StartServer):
        """Nothing is said about it here either."""
        server = fresh_server()
        server.kill()
        assert findings(server.url) == []
