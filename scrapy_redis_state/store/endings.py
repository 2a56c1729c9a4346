"""How a program ends its leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy_redis_state.store.messages import Ack, Bury, Fail, Release

if TYPE_CHECKING:
    from scrapy_redis_state.store.requests import LeasedRequest


def ack(leased: LeasedRequest) -> Ack:
    """It is done."""
    return Ack(leased.id, leased.batch)


def release(leased: LeasedRequest) -> Release:
    """It goes back as it was."""
    return Release(leased.id, leased.batch)


def failure(reason: str, delay_secs: float) -> Callable[[LeasedRequest], Fail]:
    """It went wrong."""
    delay_ms = round(delay_secs * 1000)
    return lambda leased: Fail(leased.id, leased.batch, delay_ms, reason)


def burial(reason: str) -> Callable[[LeasedRequest], Bury]:
    """It is given up."""
    return lambda leased: Bury(leased.id, leased.batch, reason)
