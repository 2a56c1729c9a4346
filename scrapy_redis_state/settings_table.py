"""The table of settings: for each its name, default, check and meaning.

The documentation's table is made from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_redis_state import settings_checks as checks
from scrapy_redis_state.settings_checks import Check
from scrapy_redis_state.store.seen import DEFAULT_CAPACITY, DEFAULT_ERROR_RATE, KINDS
from scrapy_redis_state.store.url import masked

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

PREFIX = "REDIS_STATE_"
UNLIMITED_PREFETCH = 16
"""Prefetch where ``CONCURRENT_REQUESTS`` sets no limit."""
STOCK_FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"
_SHOWN_LENGTH = 200


@dataclass(frozen=True)
class Setting:
    """One row of the table of settings."""

    name: str
    default: object
    check: Check
    meaning: str
    """One line, for the documentation."""

    @property
    def attribute(self) -> str:
        """Name of the value in :class:`Config`."""
        return self.name.removeprefix(PREFIX).lower()

    def read(self, settings: BaseSettings) -> Any:
        """:raises ValueError: naming the setting, its value and the remedy."""
        if self.name not in settings:
            return self.check.read(self.default)
        value = settings[self.name]
        try:
            return self.check.read(value)
        except ValueError as error:
            raise refusal(self.name, value, str(error)) from None


def refusal(name: str, value: object, remedy: str) -> ValueError:
    """Make the error for a setting: one line, without passwords."""
    shown = repr(_without_passwords(value))
    if len(shown) > _SHOWN_LENGTH:
        shown = shown[:_SHOWN_LENGTH] + "..."
    return ValueError(f"{name} = {shown}: {remedy}")


def _without_passwords(value: object) -> object:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, (list, tuple)):
        return [masked(one) if isinstance(one, str) else one for one in value]
    if isinstance(value, dict):
        return {
            _shown(name): masked(one) if isinstance(one, str) else one
            for name, one in value.items()
        }
    return value


def _shown(name: object) -> object:
    # Somebody may have put a URL in the place of its label.
    return masked(name) if isinstance(name, str) and "@" in name else name


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "REDIS_STATE_ENABLED",
        True,
        checks.boolean(),
        "Whether the crawl is shared; False leaves Scrapy as it is.",
    ),
    Setting(
        "REDIS_STATE_URL",
        "redis://localhost:6379/0",
        checks.server_urls(),
        "The server, with user and password if it wants them (see "
        ":doc:`/howto/connections`).",
    ),
    Setting(
        "REDIS_STATE_CRAWL_ID",
        "%(bot)s:%(spider)s",
        checks.key_part("a text"),
        "What is shared: workers with equal ids work on one crawl. %(bot)s and "
        "%(spider)s stand for BOT_NAME and the spider's name.",
    ),
    Setting(
        "REDIS_STATE_KEY_PREFIX",
        "",
        checks.key_part("a text"),
        "Put before the name of every key.",
    ),
    Setting(
        "REDIS_STATE_LEASE_SECS",
        60,
        checks.seconds(1),
        "How long a silent worker keeps what it was given.",
    ),
    Setting(
        "REDIS_STATE_REAP_INTERVAL_SECS",
        5,
        checks.seconds(
            0.1, 5, "the crawl clock counts at most 5 s between two looks at it"
        ),
        "How often a worker looks for work of dead workers.",
    ),
    Setting(
        "REDIS_STATE_MAX_DELIVERIES",
        3,
        checks.whole(2),
        "How often a request is given out, each time failing or killing its worker, "
        "before it becomes a dead letter.",
    ),
    Setting(
        "REDIS_STATE_PREFETCH",
        None,
        checks.whole(1),
        "How many requests a worker keeps ready to be started. So many can be started "
        "in one round trip to the server; to have them in time it may hold up to twice "
        "as many, less one (where this is 1: one). Default: CONCURRENT_REQUESTS, or "
        f"{UNLIMITED_PREFETCH} where that is 0 (no limit).",
    ),
    Setting(
        "REDIS_STATE_ORDER",
        "fifo",
        checks.one_of("fifo", "lifo"),
        "Which of two requests with equal priority goes first: the older (fifo) or the "
        "newer (lifo).",
    ),
    Setting(
        "REDIS_STATE_PRIORITY_RULES",
        (),
        checks.priority_rules(),
        "Priority added by URL: the first pair whose regex is found in it counts.",
    ),
    Setting(
        "REDIS_STATE_SEEN",
        "exact",
        checks.one_of(*KINDS),
        "How fingerprints of seen requests are kept: see :doc:`/explanation/seen`.",
    ),
    Setting(
        "REDIS_STATE_SEEN_CAPACITY",
        DEFAULT_CAPACITY,
        checks.whole(1000),
        "How many URLs a bloom or packed seen set is made for.",
    ),
    Setting(
        "REDIS_STATE_SEEN_ERROR_RATE",
        DEFAULT_ERROR_RATE,
        checks.share(1e-9, 0.1),
        "Share of new pages that a bloom seen set may take for seen ones, so that they "
        "are never crawled: at 0.001 at most 1000 of a million.",
    ),
    Setting(
        "REDIS_STATE_REVISIT_SECS",
        0,
        checks.seconds(0),
        "After how long a page may be crawled again, in a crawl that goes on for ever; "
        "it is forgotten at the latest after half as long again. 0: never.",
    ),
    Setting(
        "REDIS_STATE_MAX_PAGES_PER_SITE",
        0,
        checks.whole(0),
        "How many pages of one site (registrable domain) the whole crawl stores, or "
        "with REDIS_STATE_REVISIT_SECS has at a time; requests that are not filtered "
        "(retries) do not count. 0: any number.",
    ),
    Setting(
        "REDIS_STATE_STRIP_QUERY_PARAMS",
        ["tracking"],
        checks.strip_rules(),
        "Query parameters that do not make another page of a URL (see "
        ':doc:`/explanation/duplicates`); "tracking" stands for the list of click and '
        'campaign ids, and "!" before an entry keeps what it fits.',
    ),
    Setting(
        "REDIS_STATE_FALLBACK_REQUEST_FINGERPRINTER_CLASS",
        STOCK_FINGERPRINTER,
        checks.fingerprinter(),
        "The fingerprinter that is handed requests with canonical URLs. The add-on "
        "sets it to the project's REQUEST_FINGERPRINTER_CLASS.",
    ),
    Setting(
        "REDIS_STATE_FINISHED_TTL_SECS",
        604_800,
        checks.seconds(0),
        "How long the keys of a finished crawl stay; 0: until they are deleted.",
    ),
    Setting(
        "REDIS_STATE_START",
        "once",
        checks.one_of("once", "every_worker"),
        "Whether start() runs once per crawl, or in every worker as without this "
        "package.",
    ),
    Setting(
        "REDIS_STATE_START_HIGH_WATER",
        100_000,
        checks.whole(1),
        "Number of queued requests above which start(), and start keys, are not read "
        "further.",
    ),
    Setting(
        "REDIS_STATE_START_KEYS",
        (),
        checks.key_templates(),
        "Lists, sets and sorted sets that other programs fill with URLs, or with "
        "requests as JSON (see :doc:`/howto/start-keys`). %(name)s stands for the "
        "spider's name, %(bot)s for BOT_NAME.",
    ),
    Setting(
        "REDIS_STATE_START_KEYS_BATCH_SIZE",
        100,
        checks.whole(1, 500),
        "How many messages of start keys a worker takes at a time.",
    ),
    Setting(
        "REDIS_STATE_KEEP_ALIVE",
        False,
        checks.boolean(),
        "Whether a worker stays when all is done, for requests that are pushed; the "
        "crawl is not finished then (see :doc:`/howto/push`).",
    ),
    Setting(
        "REDIS_STATE_IDLE_TIMEOUT_SECS",
        0,
        checks.seconds(0),
        "With REDIS_STATE_KEEP_ALIVE: after how long without any work in the whole "
        "crawl a worker closes, and the last one finishes the crawl; 0: never.",
    ),
    Setting(
        "REDIS_STATE_SHUTDOWN_GRACE_SECS",
        25,
        checks.seconds(0),
        "How long running pages may take after SIGTERM or Ctrl-C before they are "
        "handed back to others. Keep it below the time after which SIGKILL comes: 30 s "
        "in Kubernetes; take 8 under Docker's 10 s.",
    ),
    Setting(
        "REDIS_STATE_WAIT_REPLICAS",
        0,
        checks.whole(0),
        "How many replicas must have what a worker stored before it counts as stored.",
    ),
    Setting(
        "REDIS_STATE_OUTAGE_SECS",
        600,
        checks.seconds(1),
        "How long a crawl waits for a server that went away.",
    ),
    Setting(
        "REDIS_STATE_SESSIONS_ENABLED",
        True,
        checks.boolean(),
        "Whether cookies, and what they are bound to, are shared; False leaves each "
        "process its own.",
    ),
    Setting(
        "REDIS_STATE_SESSION_TTL_SECS",
        1800,
        checks.seconds(0),
        "How long a session lives that nobody uses, whatever its cookies say; 0: as "
        "long as its cookies.",
    ),
    Setting(
        "REDIS_STATE_SESSION_PROXIES",
        {},
        checks.proxies(),
        "The URL of each proxy that sessions name by a label.",
    ),
    Setting(
        "REDIS_STATE_SESSION_PROVIDER",
        None,
        checks.session_provider(),
        "Knows when a session is no good, and how to make another (see "
        ":doc:`/howto/sessions`).",
    ),
    Setting(
        "REDIS_STATE_METRICS_PORT",
        None,
        checks.port(),
        "Where each worker serves its metrics to Prometheus: this port, or the next "
        "that is free if another worker has it; 0: any. Default: nowhere (see "
        ":doc:`metrics`).",
    ),
    Setting(
        "REDIS_STATE_METRICS_ADDRESS",
        "127.0.0.1",
        checks.address(),
        "The address of this machine for that; 0.0.0.0: all that it has.",
    ),
)
