"""Stored requests as bytes, for readers and writers that know no Scrapy."""

from scrapy_redis_state.codec.describe import describe_payload
from scrapy_redis_state.codec.errors import NotDecodable, NotEncodable, UnknownCode
from scrapy_redis_state.codec.message import encode_message
from scrapy_redis_state.codec.payload import MAX_BYTES
from scrapy_redis_state.codec.values import Codec

__all__ = [
    "MAX_BYTES",
    "Codec",
    "NotDecodable",
    "NotEncodable",
    "UnknownCode",
    "describe_payload",
    "encode_message",
]
