"""The measurement of many workers, in small: they do what they say."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import servers
from benchmarks.scaling import fleet, pace
from tests.processes import Programs


@pytest.mark.one_server
def test_a_fleet_works_and_what_silent_workers_held_comes_back(
    programs: Programs, monkeypatch
):
    """Counts add up: pages, exchanges, and who fell silent."""
    for module, name, value in (
        (fleet, "WARM_UP_SECONDS", 0.2),
        # Longer than a busy machine lets a process wait.
        (fleet, "LEASE_SECONDS", 3.0),
        (fleet, "PACE_SECONDS", 0.5),
        (fleet, "QUEUED", 2000),
        (pace, "WARM_UP_SECONDS", 0.5),
    ):
        monkeypatch.setattr(module, name, value)
    (program,) = servers.programs(["valkey"])
    with servers.started(program) as server:
        some = fleet.Fleet(server, programs, rate=20, seconds=0.5)
        every = asyncio.run(some.pace())
        row = some.run(5, 0.1)
    # At least one exchange a second, and not many for one page.
    assert 1 / (20 * 10) < every < 1.5
    assert row.workers == 5
    assert row.asked_pages_per_second == 100
    assert 0 < row.pages_per_second < 200
    assert 0 < row.exchanges_per_second < 2 * 5 / 0.1
    assert 0 < row.p50_ms <= row.p99_ms
    assert row.busy > 0
    assert row.silent == 2
    # What they held is theirs for nearly a lease at least.
    assert row.recovery_seconds > 1
