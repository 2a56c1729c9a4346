"""Base classes for spiders that were written for scrapy-redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request
from scrapy.spiders import CrawlSpider, Spider

from scrapy_redis_state.settings import refusal, setting_value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.settings import BaseSettings

DEFAULT_KEY = "%(name)s:start_urls"
MOST_AT_A_TIME = 500
"""Messages that are taken in one call, whatever ``redis_batch_size`` says."""


def is_kept_alive(settings: BaseSettings) -> bool:
    """Whether workers stay when all is done."""
    return bool(setting_value(settings, "REDIS_STATE_KEEP_ALIVE"))


class RedisMixin:
    """Start requests come from messages under a key in Redis.

    Attributes and ``make_request_from_data`` are those that spiders of scrapy-redis
    have. There is no ``server``: reading, and what happens when the spider is idle, is
    the crawl's business.
    """

    name: str
    settings: BaseSettings

    redis_key: str | None = None
    """Name of the key, with ``%(name)s`` for the spider's. Else it is that of the
    setting ``REDIS_START_URLS_KEY``, or ``<name>:start_urls``."""
    redis_batch_size: int | str | None = None
    """How many messages are taken at a time. Else it is
    ``REDIS_STATE_START_KEYS_BATCH_SIZE``."""
    max_idle_time: int | None = None
    """After how many seconds without work the spider closes. Else it is
    ``MAX_IDLE_TIME_BEFORE_CLOSE``, or never."""
    redis_encoding: str | None = None
    """Of messages. Else it is ``REDIS_ENCODING``, or UTF-8."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Have workers stay for messages, unless the project says otherwise."""
        super().update_settings(settings)  # type: ignore[misc]
        settings.set("REDIS_STATE_KEEP_ALIVE", True, priority="addon")
        idle_secs = cls.max_idle_time
        if idle_secs is None:
            idle_secs = settings.get("MAX_IDLE_TIME_BEFORE_CLOSE")
        if idle_secs and is_kept_alive(settings):
            settings.set("REDIS_STATE_IDLE_TIMEOUT_SECS", idle_secs, priority="addon")

    @property
    def redis_state_start_keys(self) -> tuple[str, ...] | None:
        """The spider's own start keys; None: those of ``REDIS_STATE_START_KEYS``."""
        if self.redis_key is None and self.settings.get("REDIS_STATE_START_KEYS"):
            return None
        template = self.redis_key
        if template is None:
            template = self.settings.get("REDIS_START_URLS_KEY", DEFAULT_KEY)
        key = str(template) % {"name": self.name}
        if not key.strip():
            raise refusal("redis_key", template, "is empty: name a key")
        return (key,)

    @property
    def redis_state_start_keys_batch_size(self) -> int | None:
        """Within what one call carries; None: as the setting says."""
        given = self.redis_batch_size
        if given is None:
            return None
        try:
            size = int(given)
        except (TypeError, ValueError):
            size = 0
        if size < 1:
            raise refusal("redis_batch_size", given, "must be a whole number above 0")
        return min(size, MOST_AT_A_TIME)

    async def start(self) -> AsyncIterator[Any]:
        """Nothing: all begins with messages."""
        return
        yield

    def make_request_from_data(self, data: bytes) -> Request | Iterable[Request] | None:
        """The request, or requests, of a message.

        A message is a URL, or a JSON object with ``url`` and, as wanted, ``method`` and
        ``meta``; what else it has is sent as the fields of a form. Such requests are
        not filtered.

        :raises ValueError: for one that names no URL
        """
        encoding = self.redis_encoding or self.settings.get("REDIS_ENCODING") or "utf-8"
        text = data.decode(encoding)
        fields = _fields(text)
        if fields is None:
            make = getattr(self, "make_requests_from_url", None)
            return make(text) if callable(make) else Request(text, dont_filter=True)
        url = fields.pop("url", None)
        if not url:
            raise ValueError("names no url")
        method = str(fields.pop("method", "GET")).upper()
        meta = fields.pop("meta", {})
        return FormRequest(
            url, method=method, meta=meta, formdata=fields, dont_filter=True
        )


def _fields(text: str) -> dict[str, Any] | None:
    """Of a JSON object; None: it is a URL."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        raise ValueError("is neither a URL nor an object")  # noqa: TRY004 - of a value
    return found


class RedisSpider(RedisMixin, Spider):
    """A spider that is fed by messages."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A spider with rules that is fed by messages."""
