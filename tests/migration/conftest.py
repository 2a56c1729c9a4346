from __future__ import annotations

from tests.commands.conftest import commands, installed

__all__ = ["commands", "installed"]
