"""Why a request cannot be written or read.

::

    ValueError
    +-- NotEncodable   this worker cannot write the request
    +-- NotDecodable   nobody can read the payload
    +-- UnknownCode    a worker with other code may be able to read it
"""

from __future__ import annotations


class NotEncodable(ValueError):
    """A request that would not come back equal; the text names it, value and remedy."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.path = path
        """Where the value is, such as ``meta['x'][0]``."""

    def __str__(self) -> str:
        return f"{self.path} {self.args[0]}" if self.path else str(self.args[0])


class NotDecodable(ValueError):
    """A payload that no version of any spider's code wrote: damaged or forged."""


class UnknownCode(ValueError):
    """A payload that names what this worker's code lacks.

    A callback, a request class, a time zone, or a newer version of the format.
    """
