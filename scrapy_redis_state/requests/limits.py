"""How often and how much of a site is crawled, as far as a request decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.settings_checks import TEN_YEARS_SECS

if TYPE_CHECKING:
    from scrapy import Request

REVISIT_META = "redis_state_revisit_secs"
"""Key in ``Request.meta``: for how many seconds equal requests are duplicates."""


def revisit_ms(request: Request) -> int:
    """How long equal requests are duplicates of this one; 0: as the crawl has it.

    :raises ValueError: for what is no number of seconds
    """
    value: object = request.meta.get(REVISIT_META)
    if value is None:
        return 0
    # True is a number of Python, and a mistake here.
    seconds = value if type(value) in (int, float) else 0
    if isinstance(seconds, int | float) and 0 < seconds <= TEN_YEARS_SECS:
        return max(1, round(seconds * 1000))
    raise ValueError(
        f"meta[{REVISIT_META!r}] of {request} is {value!r}: give a number of seconds"
        " above 0 and below ten years, or leave it out"
    )
