"""A refusal at start is told in one line.

Scrapy lets the error end its task and leaves it to asyncio to report that, with the
traceback. Of an error whose text says what to do, that is forty lines too many.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_redis_state.store.errors import RedisStateError

if TYPE_CHECKING:
    from types import TracebackType

_PACKAGE = __name__.partition(".")[0]


def tell_in_one_line() -> None:
    """From now on; may be called again."""
    logging.getLogger("asyncio").addFilter(_shortened)


def _shortened(record: logging.LogRecord) -> bool:
    """(Filter) Change a record of a refusal, whose process is about to end."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, ValueError | RedisStateError) and _is_ours(error):
        record.name, record.exc_info, record.exc_text = __name__, None, None
        record.msg, record.args = "%s", (str(error),)
    return True


def _is_ours(error: BaseException) -> bool:
    """Whether this package raised it, not what it called."""
    trace: TracebackType | None = error.__traceback__
    module = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return module.partition(".")[0] == _PACKAGE
