"""The documentation says what is true, and its examples do what it says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import Program, Programs, wait_until
from tests.servers import Server

DOCS = Path(__file__).parent.parent / "docs"
TUTORIAL = DOCS / "tutorial" / "two-terminals.rst"


def blocks(page: Path) -> dict[str, str]:
    """The captioned blocks of a page, without their indentation."""
    pattern = r"\.\. code-block:: \w+\n +:caption: (.+)\n\n((?: {3}.*\n|\n)+)"
    found = re.findall(pattern, page.read_text())
    return {caption: re.sub(r"(?m)^ {3}", "", body) for caption, body in found}


def command(block: str) -> str:
    """The first command of a console block."""
    return block.strip().splitlines()[0].removeprefix("$ ")


def test_the_page_of_settings_is_as_the_code_has_it() -> None:
    """``docs/tables.py`` would change nothing."""
    done = subprocess.run(
        [sys.executable, DOCS / "tables.py", "--check"],
        check=False,
        env={"PYTHONPATH": str(DOCS.parent)},
    )
    assert done.returncode == 0, "run python docs/tables.py"


def item_files(directory: Path, *workers: Program) -> list[Path]:
    return [directory / f"items-{worker.pid}.jsonl" for worker in workers]


def items(directory: Path) -> set[str]:
    files = [path.read_text() for path in directory.glob("items-*.jsonl")]
    return {line for text in files for line in text.splitlines()}


@pytest.mark.one_server
def test_two_workers_of_the_tutorial_do_everything_though_one_is_killed(
    programs: Programs, tmp_path: Path
) -> None:
    """The files and commands of the tutorial, as they stand on the page."""
    page = blocks(TUTORIAL)
    for name in ("website.py", "pages.py"):
        (tmp_path / name).write_text(page[name])
    assert command(page["site"]) == "python website.py"
    programs.python("website.py", cwd=tmp_path)
    for terminal in ("first worker", "second worker"):
        assert command(page[terminal]) == "scrapy runspider pages.py"
    first, second = (
        programs.scrapy("runspider", "pages.py", cwd=tmp_path) for _ in range(2)
    )

    def both_work() -> bool:
        written = [path.exists() for path in item_files(tmp_path, first, second)]
        return all(written) and len(items(tmp_path)) > 30

    wait_until(both_work, timeout=60, message="items of both workers")
    first.send(signal.SIGKILL)
    second.wait_for_success(timeout=60)
    assert "Took back the work of dead workers" in second.output
    assert "'finish_reason': 'finished'" in second.output
    assert len(items(tmp_path)) == int(page["count"].strip().splitlines()[1])


@pytest.mark.one_server
def test_a_script_can_look_at_a_crawl_feed_it_and_start_it_over(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """The script of the how-to, on a crawl of its own."""
    text = blocks(DOCS / "howto" / "crawls.rst")["look, feed, start over"]
    text = text.replace("redis://localhost:6379/0", server.url)
    (tmp_path / "script.py").write_text(text.replace("shop:offers", crawl_name))
    script = programs.python("script.py", cwd=tmp_path)
    script.wait_for_success()
    assert script.output.split() == ["0", "0", "0", "0", "True", "[]", "0"]


@pytest.mark.one_server
def test_a_script_can_claim_a_page_under_the_rules_of_its_crawl(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """The script of the reference, on a crawl of its own."""
    page = blocks(DOCS / "reference" / "python.rst")["a page under other rules"]
    page = page.replace("redis://localhost:6379/0", server.url)
    (tmp_path / "script.py").write_text(page.replace("shop:offers", crawl_name))
    script = programs.python("script.py", cwd=tmp_path)
    script.wait_for_success()
    assert script.output.split() == ["https://shop.example/p/7", "True"]
