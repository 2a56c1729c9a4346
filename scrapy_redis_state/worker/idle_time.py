"""For how long the crawl is known to have had no work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_redis_state.store.messages import Summary


class IdleTime:
    """Looks at each answer of the server.

    Between two of them other workers may have had work and done it, and how many pages
    are done tells. Time without an answer, as in an outage, tells nothing.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._ended = (0, 0)
        self.secs = 0.0
        """As of the last answer; 0 while there is work."""

    def look(self, summary: Summary, asked_at: float) -> None:
        """An answer has come.

        :param asked_at: when it was asked for, by the worker's clock
        """
        ended = (summary.done, summary.dead)
        if not summary.drained:
            self._since = None
        elif self._since is None or ended != self._ended:
            self._since = asked_at
        self._ended = ended
        self.secs = 0.0 if self._since is None else asked_at - self._since
