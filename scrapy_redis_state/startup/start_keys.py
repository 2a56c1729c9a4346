"""Which start keys a spider has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy import Spider

    from scrapy_redis_state.settings import Config


class StartKeys(NamedTuple):
    """Keys whose messages are requests to come; see :mod:`.store.start_keys`."""

    keys: tuple[str, ...]
    batch_size: int


def start_keys_of(spider: Spider, config: Config) -> StartKeys:
    """Those of the settings, unless the spider has its own.

    A spider's own are ``redis_state_start_keys``, a tuple, and
    ``redis_state_start_keys_batch_size``.
    """
    own = getattr(spider, "redis_state_start_keys", None)
    size = getattr(spider, "redis_state_start_keys_batch_size", None)
    return StartKeys(
        config.start_keys if own is None else tuple(own),
        config.start_keys_batch_size if size is None else size,
    )
