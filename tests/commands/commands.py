"""Runs of ``scrapy redis-state`` as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import REPOSITORY, environment

PROJECT = "tests.commands.project.settings"
PATIENCE_SECS = 60


class Done(NamedTuple):
    """What a process did."""

    status: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        """Its answer."""
        assert self.status == 0, self
        return json.loads(self.output)

    @property
    def lines(self) -> list[str]:
        """Of its output."""
        return self.output.splitlines()


class Commands:
    """The command, outside of any project and in one.

    :param installed: the directory of the package's metadata
    :param url: of the server
    :param crawl: which crawl it is about, unless told otherwise
    :param directory: where it runs
    """

    def __init__(self, installed: Path, url: str, crawl: str, directory: Path) -> None:
        self.path = os.pathsep.join([str(REPOSITORY), str(installed)])
        self.url = url
        self.crawl = crawl
        self.directory = directory

    def __call__(self, *words: object, **options: Any) -> Done:
        """Run it on the crawl of the test."""
        place = ["--url", self.url, "--crawl", self.crawl]
        return self.run(*place, *words, **options)

    def run(
        self,
        *words: object,
        text: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run it with nothing but these words.

        :param text: its input
        """
        return self.scrapy("redis-state", *words, text=text, env=env)

    def project(self, *words: object, **env: str) -> Done:
        """Run it in the project."""
        return self.run(*words, env=self.project_env(**env))

    def project_env(self, **env: str) -> dict[str, str]:
        """The environment of the project."""
        defaults = {
            "SCRAPY_SETTINGS_MODULE": PROJECT,
            "TEST_URL": self.url,
            "TEST_BOT": self.crawl,
        }
        return defaults | env

    def scrapy(
        self, *words: object, text: str = "", env: Mapping[str, str] | None = None
    ) -> Done:
        """Run any command of Scrapy."""
        return self._done([sys.executable, "-m", "scrapy", *map(str, words)], text, env)

    def shell(self, line: str, env: Mapping[str, str] | None = None) -> Done:
        """Run a line of a shell."""
        return self._done(["sh", "-c", line], env=env)

    def _done(
        self, words: list[str], text: str = "", env: Mapping[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            words,
            cwd=self.directory,
            env=environment({"PYTHONPATH": self.path, **(env or {})}),
            input=text.encode(),
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECS,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def refusal(done: Done, status: int = 1) -> str:
    """What a command says that refuses: one line, and nothing else."""
    assert done.status == status, done
    assert done.output == "", done
    (line,) = done.errors.splitlines()
    return line.removeprefix("redis-state: ")
