from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.http import Request, Response


class SameRequestAgain:
    """Has a request repeated by returning it, as account pools do when one is blocked.

    The body of a page says how often it was asked for.
    """

    def process_response(
        self, request: Request, response: Response
    ) -> Request | Response:
        if "/again" in request.url and response.body == b"visit 1":
            return request
        return response
