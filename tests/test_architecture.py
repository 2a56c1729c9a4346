"""The layers of the package, and what every Lua script tells its reader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import REPOSITORY

NAME = "scrapy_redis_state"
PACKAGE = REPOSITORY / NAME
LUA = PACKAGE / "store" / "lua"

ADAPTERS = {
    "addon",
    "cookies",
    "dupefilter",
    "fingerprinter",
    "metrics",
    "reaper",
    "scheduler",
    "seeding",
}
"""What users name in their settings: each translates between Scrapy and the layers
below, and none knows another."""

STORE = {"store", "codec"}
WORKER = {"worker", *STORE}

MAY_IMPORT: dict[str, set[str]] = {
    # Values to bytes and back. No Scrapy and no Twisted.
    "codec": set(),
    # Redis, keys, Lua. No Scrapy and no Twisted.
    "store": {"codec"},
    # Outbox, buffer and exchange loop on asyncio. No Scrapy and no Twisted.
    "worker": STORE,
    # Scrapy's side of the worker; "shared" is every part that has no line here:
    # settings, serialize, engine and whatever else adapters have in common.
    "shared": WORKER | {"shared"},
    **dict.fromkeys(ADAPTERS, WORKER | {"shared"}),
    # It switches the others on.
    "addon": WORKER | {"shared"} | ADAPTERS,
    # scrapy redis-state: settings in, store calls out.
    "commands": STORE | {"shared"},
    # The public names.
    "__init__": STORE | ADAPTERS | {"shared"},
}
"""Part of the package and the other parts it may import.

A part is a subpackage or a top-level module."""

FRAMEWORK_FREE = {"codec", "store", "worker"}
FRAMEWORKS = {"scrapy", "twisted"}


def part_of(path: Path) -> str:
    """Return the part that a source file belongs to."""
    return part_named(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def part_named(module: str) -> str:
    """Return the part that a top-level module or subpackage is."""
    return module if module in MAY_IMPORT else "shared"


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Absolute dotted names of all that a file imports, wherever in the file."""
    package = [NAME, *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *filter(None, [node.module])]
            yield from (".".join([*module, alias.name]) for alias in node.names)


def imported_parts(path: Path) -> set[str]:
    dotted = [name.split(".") for name in imports(path)]
    return {part_named(name[1]) for name in dotted if name[0] == NAME and name[1:]}


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    """A part imports itself and the parts below it."""
    part = part_of(path)
    above = imported_parts(path) - MAY_IMPORT[part] - {part}
    assert not above, f"{path.name} ({part}) may not import {sorted(above)}"


@pytest.mark.parametrize("part", sorted(FRAMEWORK_FREE))
def test_the_core_knows_no_framework(part):
    """Codec, store and worker serve programs that are not Scrapy."""
    files = sorted((PACKAGE / part).rglob("*.py"))
    assert files
    for path in files:
        roots = {name.partition(".")[0] for name in imports(path)}
        assert not roots & FRAMEWORKS, f"{path.name} imports {roots & FRAMEWORKS}"


def test_the_check_sees_imports_of_every_form(tmp_path, monkeypatch):
    """Relative, nested and aliased imports are found."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "store" / "sample.py"
    path.parent.mkdir()
    path.write_text(
        "import scrapy_redis_state.worker as w\n"
        "from .. import scheduler\n"
        "from ..settings_table import TABLE\n"
        "from . import keys\n"
        "def f():\n    from scrapy_redis_state.engine import x\n"
    )
    assert imported_parts(path) == {"worker", "scheduler", "shared", "store"}


def header(path: Path) -> list[str]:
    """Return the comment lines that a Lua file starts with."""
    lines = path.read_text().splitlines()
    end = next((n for n, line in enumerate(lines) if line[:2] != "--"), len(lines))
    return lines[:end]


def lua_files() -> list[Path]:
    return sorted(LUA.rglob("*.lua"))


def test_there_are_scripts():
    """The checks of the scripts have something to check."""
    assert [path for path in lua_files() if path.parent == LUA]


@pytest.mark.parametrize("path", lua_files(), ids=lambda p: str(p.relative_to(LUA)))
def test_a_script_says_what_it_takes_and_returns(path):
    """Scripts list KEYS, ARGV and the reply; includes say what they are for."""
    comment = header(path)
    assert comment, "starts with a comment"
    if path.parent == LUA / "include":
        assert comment[0].removeprefix("--").strip(), "says its purpose"
        return
    for word in ("KEYS", "ARGV", "Returns"):
        found = [line for line in comment if line.startswith(f"-- {word}")]
        assert found, f"header has a line that starts with '-- {word}'"
