"""What a campaign found, as JSON and as a row of the documentation's table."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
import scrapy

if TYPE_CHECKING:
    from tests.faults.campaign import Campaign
    from tests.servers import Server

DIRECTORY = "FAULTS_REPORT"
"""Environment variable: where reports go, besides to the output of the run."""


def version(server: Server) -> str:
    """Such as ``Valkey 9.0.0``."""
    info: Any = server.client().info("server")
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def figures(campaign: Campaign, server: Server) -> dict[str, Any]:
    """All that a reader of the table wants to know; ``server`` is one of its kind."""
    toll, losses = campaign.toll(), campaign.losses
    return {
        "server": version(server),
        "scrapy": scrapy.__version__,
        "redis_py": redis.__version__,
        "python": platform.python_version(),
        "urls": len(campaign.site.paths),
        "workers": campaign.plan.workers,
        "lease_secs": campaign.plan.lease_secs,
        "worker_kills": len(losses.held),
        "server_kills": len(campaign.outages),
        "stops": len(campaign.stopped),
        "attempted": toll.attempted,
        "completed": toll.completed,
        "lost": len(toll.lost),
        "dead": len(toll.dead),
        "held_at_kills": losses.requests,
        "repeated": toll.repeats,
        "redelivered_to_survivors": campaign.redelivered,
        "rejoins": campaign.rejoins,
        "longest_recovery_secs": round(max(losses.recoveries, default=0.0), 2),
        "not_recovered": len(losses.waiting),
        "fsck": len(toll.problems),
        "seconds": round(campaign.seconds),
    }


COLUMNS = (
    "server",
    "urls",
    "worker_kills",
    "server_kills",
    "stops",
    "lost",
    "dead",
    "held_at_kills",
    "repeated",
    "longest_recovery_secs",
)


def publish(found: dict[str, Any], name: str) -> None:
    """Print the figures; write ``<name>.json`` and ``<name>.rst`` where wanted."""
    row = "\n".join(
        f"{'   * -' if column == COLUMNS[0] else '     -'} {found[column]}"
        for column in COLUMNS
    )
    print(json.dumps(found, indent=2), row, sep="\n")  # noqa: T201
    if directory := os.environ.get(DIRECTORY):
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
        (path / f"{name}.rst").write_text(row + "\n")
