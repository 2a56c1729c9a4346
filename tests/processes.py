"""Programs that tests run beside themselves, and waiting for what they do.

Tests never sleep to let something happen: they wait for the condition they need with
:func:`wait_until` or, in a coroutine, :func:`await_until`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parent.parent
POLL_SECONDS = 0.01
TAIL_LINES = 40
_LAUNCHER = Path(__file__).with_name("die_with_parent.py")


def wait_until(
    condition: Callable[[], T],
    timeout: float = 30,
    message: str | Callable[[], str] = "",
) -> T:
    """Poll until ``condition()`` is true, and return what it returned.

    ``timeout`` is in seconds. ``message`` says what was waited for; a callable is asked
    when the time is over. Raises AssertionError with it and the last value then.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_gave_up(condition, timeout, message, value))
        time.sleep(POLL_SECONDS)
    return value


async def await_until(
    condition: Callable[[], Awaitable[T] | T],
    timeout: float = 30,
    message: str | Callable[[], str] = "",
) -> T:
    """:func:`wait_until` for coroutines: the event loop runs between two polls.

    ``condition`` may be a plain function or return an awaitable.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(_gave_up(condition, timeout, message, value))
        await asyncio.sleep(POLL_SECONDS)


def _gave_up(
    condition: Callable[[], object],
    timeout: float,
    message: str | Callable[[], str],
    value: object,
) -> str:
    text = message() if callable(message) else message
    return f"{text or condition}: not within {timeout} s (last value: {value!r})"


def tied_to_this_process(command: list[str]) -> list[str]:
    """``command``, ended by the kernel when this process dies, however it dies.

    More exactly when the *thread* dies that starts it: start from the main thread.
    """
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
    return [*launcher, *command]


class Process:
    """A process that a test started: signals by its id, its end awaited."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status; ``-signal`` if a signal ended it; None while it runs."""
        return self.popen.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        self.popen.send_signal(number)

    def wait(self, timeout: float = 90) -> int:
        """Wait for the end, at most ``timeout`` seconds, and return the exit status."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {timeout} s: {self}") from error

    def kill(self) -> None:
        """SIGKILL, then wait. Ends a paused process too."""
        self.send(signal.SIGKILL)
        self.wait()

    def pause(self) -> None:
        """SIGSTOP; returns when the process has stopped."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)


class Program(Process):
    """A running program whose output, both streams, goes to the file ``log``."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        super().__init__(popen)
        self.name = name
        self.log = log

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, exit {self.returncode}), {self.tail()}"

    @property
    def output(self) -> str:
        """All it has printed so far."""
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """Its last lines, for messages."""
        lines = self.output.splitlines()[-TAIL_LINES:]
        return "\n".join([f"last lines of {self.log}:", *lines])

    def terminate(self) -> None:
        """SIGTERM: ask it to stop; does not wait."""
        self.send(signal.SIGTERM)

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C does; does not wait."""
        self.send(signal.SIGINT)

    def wait_for_output(self, text: str, timeout: float = 90) -> None:
        """Wait until it has printed ``text``; fail at once if it ends without."""

        def printed() -> bool:
            ended = not self.running
            if text in self.output:
                return True
            assert not ended, f"ended without printing {text!r}: {self}"
            return False

        wait_until(printed, timeout, lambda: f"{text!r} in the output of {self}")

    def wait_for_success(self, timeout: float = 180) -> None:
        """Wait for its end and fail unless the exit status is 0."""
        assert self.wait(timeout) == 0, str(self)


class Programs:
    """Starts programs, and ends them all when the ``with`` block is left."""

    def __init__(self, directory: Path) -> None:
        """``directory`` takes the logs, and is the default working directory."""
        self.directory = directory
        self.started: list[Program] = []

    def __enter__(self) -> Programs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Program]:
        return iter(self.started)

    def close(self) -> None:
        """SIGKILL whatever still runs, and wait for it."""
        for program in self.started:
            program.send(signal.SIGKILL)
        for program in self.started:
            program.wait()

    def python(
        self,
        *arguments: str | Path,
        name: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start ``python ARGUMENTS``; ``env`` is added to :func:`environment`."""
        return self.run(
            sys.executable, *arguments, name=name or "python", cwd=cwd, env=env
        )

    def scrapy(
        self,
        *arguments: str | Path,
        name: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start ``scrapy ARGUMENTS``; ``cwd`` is the project's directory."""
        return self.python(
            "-m", "scrapy", *arguments, name=name or "scrapy", cwd=cwd, env=env
        )

    def crawl(
        self,
        spider: str,
        *options: str | Path,
        settings: Mapping[str, object] | None = None,
        arguments: Mapping[str, object] | None = None,
        name: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start ``scrapy crawl SPIDER`` with settings (-s) and spider arguments (-a).

        A ``spider`` that ends in ``.py`` is run with ``scrapy runspider``.
        """
        verb = "runspider" if spider.endswith(".py") else "crawl"
        command = [verb, spider, *options]
        for key, value in (settings or {}).items():
            command += ["-s", f"{key}={value}"]
        for key, value in (arguments or {}).items():
            command += ["-a", f"{key}={value}"]
        return self.scrapy(*command, name=name or "crawl", cwd=cwd, env=env)

    def run(
        self,
        *command: str | Path,
        name: str = "program",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Program:
        """Start any program, with its log in ``directory``."""
        log = self.directory / f"{name}-{len(self.started)}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                tied_to_this_process([str(part) for part in command]),
                cwd=cwd or self.directory,
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the test run alone
            )
        program = Program(name, popen, log)
        self.started.append(program)
        return program


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment for a program of a test: this code, unbuffered output.

    The repository comes first on the module path, so that programs run the code that
    the test itself imported, installed or not.
    """
    env = dict(os.environ)
    paths = [str(REPOSITORY), *filter(None, [env.get("PYTHONPATH")])]
    env |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    with contextlib.suppress(KeyError):
        del env["SCRAPY_SETTINGS_MODULE"]
    return env | dict(extra or {})
