"""How often this process has had pages forgotten.

The workers of a process know which pages are seen, and learn with their next exchange
that somebody had one forgotten. That is too late for a spider that has a page forgotten
itself, and asks for it in the next line.
"""

from __future__ import annotations


class Forgetting:
    """Counts what the programs of this process have done to any crawl."""

    def __init__(self) -> None:
        self.times = 0

    def note(self) -> None:
        """Pages were forgotten, as the server has answered."""
        self.times += 1


FORGETTING = Forgetting()
"""The one of this process."""
