"""Fingerprints as scrapy-redis makes them, so that an old crawl's filter counts."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from scrapy import Request


class ScrapyRedisFingerprinter:
    """For crawls that go on with the ``dupefilter`` set of scrapy-redis.

    Which pages are equal is decided as it was there: by method, URL (with its
    parameters in order, without its fragment) and body. No tracking parameters are left
    out, as the old crawl did not leave them out either.
    """

    stands_alone = True
    """The add-on does not put another fingerprinter before it."""

    def fingerprint(self, request: Request) -> bytes:
        """The SHA-1 that the set has in hexadecimal digits."""
        # The text that is hashed: keys in order, Python's separators, hexadecimal body.
        text = json.dumps(
            {
                "body": request.body.hex(),
                "method": request.method,
                "url": canonicalize_url(request.url),
            }
        )
        return hashlib.sha1(text.encode(), usedforsecurity=False).digest()
