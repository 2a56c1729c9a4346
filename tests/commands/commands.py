"""Runs of ``scrapy redis-state`` as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.commands import prepared
from tests.commands.prepared import Prepared
from tests.processes import REPOSITORY, environment, tied_to_this_process

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


class Installed(NamedTuple):
    """An installation of the package."""

    path: str
    """Module path of programs, with the package's metadata."""
    scrapy: Prepared
    """Runs Scrapy's commands with that path."""


@contextmanager
def installation(metadata: Path) -> Iterator[Installed]:
    """Use the metadata in a directory."""
    path = os.pathsep.join([str(REPOSITORY), str(metadata)])
    command = tied_to_this_process([sys.executable, prepared.__file__])
    with Prepared(command, environment({"PYTHONPATH": path})) as scrapy:
        yield Installed(path, scrapy)


class Commands:
    """The command, outside of any project and in one.

    :param installed: where the package is
    :param url: of the server
    :param crawl: which crawl it is about, unless told otherwise
    :param directory: where it runs
    """

    def __init__(
        self, installed: Installed, url: str, crawl: str, directory: Path
    ) -> None:
        self.path = installed.path
        self._prepared = installed.scrapy
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
        strings = [str(word) for word in words]
        if threading.current_thread() is not threading.main_thread():
            # The prepared process runs one at a time, and the main thread may use it.
            return self._done([sys.executable, "-m", "scrapy", *strings], text, env)
        return Done(
            *self._prepared.run(
                strings, self.directory, self._environment(env), text, PATIENCE_SECS
            )
        )

    def shell(self, line: str, env: Mapping[str, str] | None = None) -> Done:
        """Run a line of a shell."""
        return self._done(["sh", "-c", line], env=env)

    def _done(
        self, words: list[str], text: str = "", env: Mapping[str, str] | None = None
    ) -> Done:
        done = subprocess.run(
            words,
            cwd=self.directory,
            env=self._environment(env),
            input=text.encode(),
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECS,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return environment({"PYTHONPATH": self.path, **(env or {})})


def refusal(done: Done, status: int = 1) -> str:
    """What a command says that refuses: one line, and nothing else."""
    assert done.status == status, done
    assert done.output == "", done
    (line,) = done.errors.splitlines()
    return line.removeprefix("redis-state: ")
