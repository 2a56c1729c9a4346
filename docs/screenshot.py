"""Draws the picture of ``watch`` in the reference: ``python docs/screenshot.py``."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from scrapy_redis_state.commands.screen import screen
from tests.commands.sights import sight_of, worker_of

PICTURE = Path(__file__).parent / "images" / "watch.svg"
WIDTH, HEIGHT = 100, 18
GROWTH = (
    "the frontier grows by 4.1 requests/s, while 26.4 pages/s are done: more workers,"
    " or fewer links, will end it; a bigger server only puts it off"
)


def picture() -> str:
    """The screen of a crawl with three workers, one of which died, as SVG."""
    silent = {"live": False, "held": None, "rate": None, "oldest_lease_secs": None}
    dead = worker_of(3, beat_age_secs=71.0, **silent)
    sight = sight_of(
        warnings=[GROWTH],
        worker_list=[*(worker_of(number) for number in range(3)), dead],
        stored_rate=30.5,
        eta_secs=None,
    )
    console = Console(
        file=io.StringIO(),
        width=WIDTH,
        height=HEIGHT,
        record=True,
        force_terminal=True,
        highlight=False,
        markup=False,
    )
    console.print(screen(sight, console))
    svg = console.export_svg(title="scrapy redis-state watch", theme=MONOKAI)
    # What looks at the page should fetch nothing from elsewhere: any such font does.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture())
