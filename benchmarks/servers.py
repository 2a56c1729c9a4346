"""The servers that are measured, and how much memory they use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import REDIS_VARIABLE, Server, executable
from tests.store.bloom import bloom_module

PATIENCE_SECONDS = 600
"""``MEMORY USAGE`` that looks at all of a set of many millions takes seconds."""

PER_ROUND_TRIP = 1000


def programs(kinds: Iterable[str]) -> list[Path]:
    """Programs of the servers named: valkey, redis (that of the PATH), other.

    *other* is the one in ``REDIS_SERVER``, if it is set and not the PATH's.

    :raises ServerUnavailableError: if there is none
    """
    found = []
    on_path = shutil.which("redis-server")
    for kind in kinds:
        if kind == "valkey":
            found.append(executable("valkey"))
        elif kind == "redis":
            found.append(Path(on_path) if on_path else executable("redis"))
        elif kind == "other" and os.environ.get(REDIS_VARIABLE):
            found.append(Path(os.environ[REDIS_VARIABLE]))
    return list(dict.fromkeys(found))


@contextmanager
def running(program: Path) -> Iterator[Any]:
    """A client of a fresh server with Bloom filters and without persistence."""
    with started(program) as server:
        yield server.client(socket_timeout=PATIENCE_SECONDS)


def started(program: Path) -> Server:
    """A server of this program; it starts where its ``with`` block does."""
    kind = "valkey" if program.name == "valkey-server" else "redis"
    server = Server(kind, extra_args=["--loadmodule", str(bloom_module())])
    server.program = program
    return server


def version(client: Any) -> str:
    """Name and version of a server, such as ``Redis 7.0.15``."""
    info = client.info("server")
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def allocator(client: Any) -> str:
    """Such as ``jemalloc-5.3.0``; it decides how sizes are rounded."""
    return str(client.info("memory")["mem_allocator"])


class Taken(NamedTuple):
    """Memory of a whole server, in bytes."""

    used: int
    """Allocated for everything, as the allocator rounds it."""
    resident: int
    """What the system has given; rounded parts that nothing was written to are not."""

    def since(self, before: Taken) -> Taken:
        """By how much it grew."""
        return Taken(self.used - before.used, self.resident - before.resident)


def taken(client: Any) -> Taken:
    """What a server takes now."""
    memory = client.info("memory")
    return Taken(int(memory["used_memory"]), int(memory["used_memory_rss"]))


def cpu_seconds(client: Any) -> float:
    """Processor time that a server has used."""
    cpu = client.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


def memory_of(client: Any, pattern: str) -> int:
    """Bytes of all keys like *pattern*, each looked at as a whole."""
    total, batch = 0, []
    for key in client.scan_iter(pattern, count=PER_ROUND_TRIP):
        batch.append(key)
        if len(batch) == PER_ROUND_TRIP:
            total += _usage(client, batch)
            batch = []
    return total + _usage(client, batch)


def _usage(client: Any, keys: list[bytes]) -> int:
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.memory_usage(key, samples=0)
    return sum(pipeline.execute())
