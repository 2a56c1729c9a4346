"""Servers that belong together: Redis Clusters, and masters that Sentinels watch.

Nothing is closed here: the servers are, by whoever started them.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
from redis.crc import key_slot

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.keys import CrawlKeys
from tests.conftest import skip_without
from tests.processes import Process, tied_to_this_process, wait_until
from tests.servers import Server, _free_port

if TYPE_CHECKING:
    from typing_extensions import Self

StartServer = Callable[..., Server]

SLOTS = 16384
PATIENCE_SECS = 30
MASTER = "shop.master"
"""What the Sentinels of tests call it."""
AT_ONCE = ["--repl-diskless-sync-delay", "0"]
"""Options: a replica gets its data when it asks, not five seconds later."""


@contextlib.contextmanager
def starting(kind: str) -> Iterator[StartServer]:
    """Starts servers of a kind, and ends them all; skips where the machine has none."""
    skip_without(kind)
    with contextlib.ExitStack() as servers:
        yield lambda **options: servers.enter_context(Server(kind, **options))


def crawls_on_each(cluster: Cluster, name: str) -> list[str]:
    """Ids of crawls, one on each master of a cluster."""
    found: dict[Server, str] = {}
    for number in range(1000):
        id = f"{name}{number}"
        found.setdefault(cluster.owner(CrawlKeys(id).named("crawl")), id)
        if len(found) == len(cluster.masters):
            break
    return list(found.values())


class Cluster:
    """A cluster on free ports; its first nodes share the slots, the last are replicas.

    :param start: starts a server
    :param replicas: how many of the nodes are replicas of the first
    """

    def __init__(self, start: StartServer, nodes: int = 3, replicas: int = 0) -> None:
        self.nodes = []
        for _ in range(nodes + replicas):
            bus = _free_port()
            options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
            options += ["--cluster-port", str(bus), *AT_ONCE]
            self.nodes.append((start(tcp=True, extra_args=options), bus))
        self.masters = [node for node, _ in self.nodes[:nodes]]
        self.replicas = [node for node, _ in self.nodes[nodes:]]
        self._clients = {node: node.client() for node, _ in self.nodes}
        self._form()

    @property
    def url(self) -> str:
        """What a user would put into REDIS_STATE_URL."""
        return "redis+cluster://" + ",".join(
            f"127.0.0.1:{node.port}" for node in self.masters
        )

    def client(self) -> redis.Redis:
        """A client of the package."""
        return sync_client(self.url)

    def on(self, node: Server, *command: Any) -> Any:
        """Have one node execute a command."""
        return self._clients[node].execute_command(*command)

    def owner(self, key: str) -> Server:
        """The node that has a key."""
        slot = key_slot(key.encode())
        for first, last, (_, port, *_), *_ in self.on(
            self._alive(), "CLUSTER", "SLOTS"
        ):
            if first <= slot <= last:
                return next(node for node, _ in self.nodes if node.port == port)
        raise AssertionError(f"nobody has slot {slot}")

    def flush(self) -> None:
        """Empty it."""
        for node in self.masters:
            self.on(node, "FLUSHALL")

    @contextlib.contextmanager
    def moving(self, key: str, to: Server | None = None) -> Iterator[Server]:
        """Move a key's slot in this block, and all in it at the end; to the given."""
        slot, source = key_slot(key.encode()), self.owner(key)
        target = to or next(node for node in self.masters if node is not source)
        self.on(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self._id(source))
        self.on(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self._id(target))
        yield target
        while keys := self.on(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            there = ["127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys]
            self.on(source, "MIGRATE", *there)
        for node in (target, source):
            self.on(node, "CLUSTER", "SETSLOT", slot, "NODE", self._id(target))

    def wait_until_settled(self) -> None:
        """Wait until all nodes that run agree that all is well."""
        running = [node for node, _ in self.nodes if node.running]
        wait_until(lambda: all(map(self._is_settled, running)), PATIENCE_SECS)

    def _form(self) -> None:
        share = -(-SLOTS // len(self.masters))
        for number, node in enumerate(self.masters):
            first, last = number * share, min((number + 1) * share, SLOTS) - 1
            self.on(node, "CLUSTER", "ADDSLOTSRANGE", first, last)
            self.on(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, bus in self.nodes[1:]:
            meet = ["CLUSTER", "MEET", "127.0.0.1", node.port, bus]
            self.on(self.masters[0], *meet)
        self.wait_until_settled()
        for node in self.replicas:
            self.on(node, "CLUSTER", "REPLICATE", self._id(self.masters[0]))
        wait_until(lambda: all(map(self._is_in_step, self.replicas)), PATIENCE_SECS)

    def _alive(self) -> Server:
        return next(node for node, _ in self.nodes if node.running)

    def _id(self, node: Server) -> str:
        return str(self.on(node, "CLUSTER", "MYID").decode())

    def _is_settled(self, node: Server) -> bool:
        info = self.on(node, "CLUSTER", "INFO").decode()
        known = f"cluster_known_nodes:{len(self.nodes)}\r"
        return "cluster_state:ok" in info and known in info

    def _is_in_step(self, node: Server) -> bool:
        return bool(
            self._clients[node].info("replication")["master_link_status"] == "up"
        )


class Watched:
    """A master with a replica, and three Sentinels that watch them.

    :param start: starts a server
    :param directory: for what the Sentinels write
    :param config: more lines of their configuration
    :param options: of both servers
    """

    def __init__(
        self, start: StartServer, directory: Path, config: str = "", **options: Any
    ) -> None:
        options["extra_args"] = [*AT_ONCE, *options.get("extra_args", ())]
        self.master = start(tcp=True, **options)
        self.replica = start(tcp=True, **options)
        self.servers = [self.master, self.replica]
        self._directory = directory
        self._config = config
        self._ports = [_free_port() for _ in range(3)]
        self.sentinels: list[Process] = []

    def __enter__(self) -> Self:
        self.replica.client().replicaof("127.0.0.1", self.master.port)
        wait_until(self.is_in_step, PATIENCE_SECS)
        self.sentinels = [self._watch(port) for port in self._ports]
        wait_until(lambda: all(map(self._knows_all, self._ports)), PATIENCE_SECS)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in self.sentinels:
            process.kill()

    @property
    def url(self) -> str:
        """What a user would put into REDIS_STATE_URL."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"redis+sentinel://{hosts}/{MASTER}/0"

    def client(self) -> redis.Redis:
        """A client of the package."""
        return sync_client(self.url)

    def current_port(self) -> int:
        """Of the master, as a Sentinel knows it."""
        _, port = self._ask("GET-MASTER-ADDR-BY-NAME")
        return int(port)

    def fail_over(self) -> None:
        """Have the Sentinels promote the replica, though the master is well."""
        self._ask("FAILOVER")

    def wait_until_promoted(self) -> None:
        """Wait until the replica is the master."""
        client = self.replica.client()
        wait_until(
            lambda: client.info("replication")["role"] == "master", PATIENCE_SECS
        )

    def is_in_step(self) -> bool:
        """One of the two is the replica of the other, and has what it has."""
        roles = [server.client().info("replication") for server in self.servers]
        return "up" in [role.get("master_link_status") for role in roles]

    def _ask(self, command: str) -> Any:
        with contextlib.closing(redis.Redis(port=self._ports[0], protocol=2)) as client:
            return client.execute_command("SENTINEL", command, MASTER)

    def _watch(self, port: int) -> Process:
        config = (
            f"port {port}\nbind 127.0.0.1\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {self.master.port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} 1000\n"
            f"sentinel failover-timeout {MASTER} 5000\n{self._config}"
        )
        return run_sentinel(self.master.program, self._directory / f"{port}", config)

    def _knows_all(self, port: int) -> bool:
        with contextlib.closing(redis.Redis(port=port, protocol=2)) as client:
            try:
                found: Any = client.sentinel_master(MASTER)
            except redis.RedisError:
                return False
        return bool(found["num-other-sentinels"] == 2 and found["num-slaves"] == 1)


def run_sentinel(program: Path, directory: Path, config: str) -> Process:
    """Start a Sentinel, which keeps its files in the directory."""
    directory.mkdir()
    path = directory / "sentinel.conf"
    path.write_text(f"dir {directory}\n{config}")
    with (directory / "log").open("wb") as log:
        popen = subprocess.Popen(
            tied_to_this_process([str(program), str(path), "--sentinel"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(popen)
