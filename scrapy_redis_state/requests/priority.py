"""The score of a request in the frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from scrapy import Request, Spider

EXACT = 2**53
"""Scores are doubles: whole numbers beyond this would merge."""


def score_function(
    spider: Spider, rules: Sequence[tuple[re.Pattern[str], int]]
) -> Callable[[Request], int]:
    """How *spider* wants its requests scored.

    A method ``redis_state_priority(request)`` of the spider decides alone; otherwise
    the first rule whose expression is found in the URL adds to ``request.priority``.
    The request itself is left as it is, or the addition would grow at every retry.
    """
    own: Callable[[Request], int] | None = getattr(spider, "redis_state_priority", None)

    def score(request: Request) -> int:
        if own is not None:
            return _bounded(int(own(request)))
        for expression, added in rules:
            if expression.search(request.url):
                return _bounded(request.priority + added)
        return _bounded(request.priority)

    return score


def _bounded(score: int) -> int:
    # int() also makes a number of a bool, which is none to the server.
    return int(max(-EXACT, min(score, EXACT)))
