"""Writes the parts of the reference that are made from the code.

``python docs/tables.py`` rewrites them; ``--check`` only says whether they are as the
code has them (exit status 1 if not).
"""

from __future__ import annotations

import sys
from pathlib import Path

from scrapy_redis_state.settings import SETTINGS
from scrapy_redis_state.store.canonical import TRACKING

REFERENCE = Path(__file__).parent / "reference"

HEAD = """\
Settings
========

.. Made by docs/tables.py from scrapy_redis_state/settings_table.py.

All can be set in ``settings.py``, on the command line with ``-s``, and per spider in
``custom_settings``. They are checked before the crawl starts; a value that cannot be
used, and a name that is none of these, is refused with the remedy.

Workers of one crawl must agree on ``REDIS_STATE_ORDER``, ``REDIS_STATE_SEEN`` with what
it was made for, whether there is ``REDIS_STATE_REVISIT_SECS`` at all,
``REDIS_STATE_STRIP_QUERY_PARAMS``, the spider and its arguments, the project's request
fingerprinter, and the rules for URLs; while others live also on
``REDIS_STATE_LEASE_SECS``, ``REDIS_STATE_MAX_DELIVERIES``,
``REDIS_STATE_FINISHED_TTL_SECS``, ``REDIS_STATE_REVISIT_SECS`` and
``REDIS_STATE_MAX_PAGES_PER_SITE``. One that does not is refused before it crawls.
(Other arguments under a crawl id that you chose are only warned about.)

"""


def settings_page() -> str:
    """The page of settings."""
    entries = []
    for setting in SETTINGS:
        default = (
            "" if setting.default is None else f"Default: ``{setting.default!r}``. "
        )
        entries.append(
            f"``{setting.name}``\n"
            f"    {setting.meaning}\n"
            f"    {default}Takes {setting.check.takes}.\n"
        )
    return HEAD + "\n".join(entries)


TRACKING_HEAD = """\
Tracking parameters
===================

.. Made by docs/tables.py from scrapy_redis_state/store/canonical/tracking.py.

What ``"tracking"`` stands for in ``REDIS_STATE_STRIP_QUERY_PARAMS`` (see
:doc:`/explanation/duplicates`). Upper and lower case differ.

.. list-table::
   :header-rows: 1

   * - Parameters
     - Added by
     - Source
"""


def tracking_page() -> str:
    """The page of tracking parameters, each with its source."""
    rows = [
        f"   * - {', '.join(f'``{name}``' for name in tracking.names)}\n"
        f"     - {tracking.origin}\n"
        f"     - {tracking.source}\n"
        for tracking in TRACKING
    ]
    return TRACKING_HEAD + "".join(rows)


def main() -> int:
    """Write or check the pages; returns the exit status."""
    pages = {"settings.rst": settings_page(), "tracking.rst": tracking_page()}
    if "--check" in sys.argv:
        found = {name: (REFERENCE / name).read_text() for name in pages}
        return int(found != pages)
    for name, page in pages.items():
        (REFERENCE / name).write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
