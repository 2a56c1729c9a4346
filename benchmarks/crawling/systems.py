"""What is compared: Scrapy as it comes, this package, and scrapy-redis."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

COMMON: Mapping[str, Any] = {
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}
"""As fast as one process goes."""

SCRAPY_REDIS = "scrapy-redis"
SCRAPY_REDIS_VERSION = "0.9.1"
OWN_PLACE = Path(__file__).parent.parent / ".scrapy-redis"
"""The virtual environment that is made for scrapy-redis; kept for the next time."""
PYTHON = OWN_PLACE / "bin" / "python"


@dataclass(frozen=True, slots=True)
class System:
    """One way to crawl.

    :param url_setting: the setting that names the server; empty: there is none
    :param cookies: whether the site sends cookies
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    url_setting: str = ""
    cookies: bool = False
    python: str = sys.executable


STOCK = System("stock")
STOCK_COOKIES = System("stock, cookies", cookies=True)
OURS = System(
    "ours",
    {"ADDONS": {"scrapy_redis_state.Addon": 500}},
    "REDIS_STATE_URL",
)
OURS_FULL = System(
    "ours, sessions and Bloom",
    {**OURS.settings, "REDIS_STATE_SEEN": "bloom"},
    "REDIS_STATE_URL",
    cookies=True,
)


def scrapy_redis(python: str) -> System:
    """That package, in the environment of an interpreter."""
    settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }
    return System(SCRAPY_REDIS, settings, "REDIS_URL", python=python)


def find_scrapy_redis(choice: str) -> System | None:
    """The interpreter that is to run scrapy-redis.

    :param choice: its path; ``make`` for an environment of its own; ``auto`` for this
        one, if scrapy-redis is in it, or the one that was made earlier; or ``none``
    :return: None if there is none, after saying so
    """
    python: str | None = choice
    if choice == "make":
        python = _made()
    elif choice == "auto":
        here = sys.executable if importlib.util.find_spec("scrapy_redis") else None
        python = here or (str(PYTHON) if _is_made() else None)
    elif choice == "none":
        python = None
    if python is None:
        print(f"{SCRAPY_REDIS} is left out: see --scrapy-redis", flush=True)
        return None
    return scrapy_redis(python)


def version_in(system: System) -> str:
    """Which scrapy-redis a system has."""
    code = f"from importlib.metadata import version; print(version('{SCRAPY_REDIS}'))"
    done = subprocess.run(  # noqa: S603 - an interpreter that was named
        [system.python, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def _made() -> str | None:
    if not _is_made():
        venv.create(OWN_PLACE, with_pip=True, clear=True)
        # The same Scrapy, and the same client, as here.
        wanted = [f"{name}=={version(name)}" for name in ("Scrapy", "redis", "hiredis")]
        wanted.append(f"{SCRAPY_REDIS}=={SCRAPY_REDIS_VERSION}")
        subprocess.run(  # noqa: S603 - the program is the environment's own
            [PYTHON, "-m", "pip", "install", "--quiet", *wanted], check=False
        )
    return str(PYTHON) if _is_made() else None


def _is_made() -> bool:
    return any(OWN_PLACE.glob("lib/python*/site-packages/scrapy_redis"))
