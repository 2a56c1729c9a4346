"""``scrapy redis-state``: look at crawls and steer them."""

from scrapy_redis_state.commands.command import RedisStateCommand

__all__ = ["RedisStateCommand"]
