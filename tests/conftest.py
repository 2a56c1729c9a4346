"""How the tests run: coroutines on Scrapy's reactor, and against real servers.

Coroutine tests
    ``async def test_...`` just works. It runs on the asyncio loop of the Twisted
    reactor that Scrapy uses, so Scrapy, Deferreds (``maybe_deferred_to_future``) and
    ``redis.asyncio`` can be awaited in it. Hypothesis' ``@given`` may be on top. A
    plain ``def`` test runs outside the loop and may block, or run a loop of its own.
    In a plain fixture, ``run(coroutine)`` runs a coroutine to its end on the reactor's
    loop::

        @pytest.fixture
        def state(server, crawl_name, run):
            state = run(AsyncCrawlState.connect(server.url, crawl=crawl_name))
            yield state
            run(state.close())

    Tests marked ``reactorless`` run only without the reactor, and all others only with
    it. ``pytest -p no:twisted -o addopts=`` runs those; their coroutines run under
    ``asyncio.run``.

Servers
    A test that uses ``server`` runs once for each kind of server, and leaves no key
    but those of its crawl: a hash tag or a key prefix that contains ``crawl_name``. A
    test that kills or configures a server takes ``fresh_server``. The mark
    ``one_server`` is for slow tests in which the kind does not matter. A kind that the
    machine lacks is skipped; where CI is set it is a failure.

Order
    Each of the equal parts that xdist gives to its processes begins with its share of
    the tests that start programs: those take seconds, and all others much less, so that
    no process is left with long ones when the others have ended.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.processes import Programs
from tests.servers import KINDS, Server, ServerUnavailableError, executable

IN_CI = bool(os.environ.get("CI"))

hypothesis.settings.register_profile(
    "here",
    deadline=None,  # an example talks to a server, on a machine with other work
    derandomize=IN_CI,  # what CI finds must be found again
    print_blob=True,
)
hypothesis.settings.load_profile("here")


class CoroutineTests:
    """Runs coroutine tests on the reactor's loop, and plain ones outside of it."""

    def __init__(self, *, reactor: bool) -> None:
        self.reactor = reactor

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Take the place of pytest-twisted, which runs plain tests in the loop too."""
        test = pyfuncitem.obj
        arguments = {
            name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames
        }
        if given := getattr(test, "hypothesis", None):
            given.inner_test = self._as_plain(given.inner_test)
            test(**arguments)
        else:
            self._as_plain(test)(**arguments)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Take the tests that want a reactor, or those that want none; see `dealt`."""
        other = [i for i in items if self.reactor == bool(_marked(i, "reactorless"))]
        items[:] = [item for item in items if item not in other]
        config.hook.pytest_deselected(items=other)
        workers = getattr(config, "workerinput", {}).get("workercount", 1)
        items[:] = dealt(items, workers)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end and return its result."""
        if not self.reactor:
            return asyncio.run(coroutine)
        import pytest_twisted
        from twisted.internet import reactor as installed
        from twisted.internet.defer import Deferred

        reactor: Any = installed  # declared as the interfaces that all reactors have
        done: Deferred[Any] = Deferred()

        def start() -> None:
            Deferred.fromFuture(asyncio.ensure_future(coroutine)).chainDeferred(done)

        reactor.callLater(0, start)
        loop = reactor._asyncioEventloop
        # The reactor runs in a greenlet, whose loop asyncio would take for the running
        # one of plain tests as well, and refuse them asyncio.run().
        asyncio._set_running_loop(loop if loop.is_running() else None)
        try:
            return pytest_twisted.blockon(done)
        finally:
            asyncio._set_running_loop(None)

    def _as_plain(self, test: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.iscoroutinefunction(test):
            return test
        return lambda **arguments: self.run(test(**arguments))


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Tests in an order whose equal parts take about as long, the longest tests first.

    What is set up for a module is set up once if its tests stay together, so only those
    that start programs, and have little else to set up, are dealt out one by one.

    :param workers: how many parts there are: processes of xdist
    """
    long = [item for item in items if _starts_programs(item)]
    short = [item for item in items if not _starts_programs(item)]
    share = -(-len(short) // workers)
    return [
        item
        for number in range(workers)
        for item in (
            *long[number::workers],
            *short[number * share : (number + 1) * share],
        )
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Register the above according to whether the run has a reactor."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a shell's background: programs that tests start would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    reactor = config.pluginmanager.hasplugin("twisted")
    config.pluginmanager.register(CoroutineTests(reactor=reactor), "coroutine-tests")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have each test's question to xdist's main process, of ``--reruns``, sent at once.

    Each would wait for 40 ms: TCP holds a second short message back until the first is
    acknowledged, and the other side puts that off.
    """
    sock = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each kind of server from one that uses a server."""
    if "server_kind" in metafunc.fixturenames:
        kinds: tuple[str, ...] = KINDS
        if any(metafunc.definition.iter_markers("one_server")):
            kinds = KINDS[:1]
        metafunc.parametrize("server_kind", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def run(pytestconfig: pytest.Config) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine from a plain fixture: ``run(coroutine)`` returns its result."""
    tests = pytestconfig.pluginmanager.getplugin("coroutine-tests")
    assert isinstance(tests, CoroutineTests)
    return tests.run


@pytest.fixture(scope="session")
def server_kind(request: pytest.FixtureRequest) -> str:
    """``"valkey"`` or ``"redis"``: tests run once for each."""
    kind: str = request.param
    skip_without(kind)
    return kind


def skip_without(kind: str) -> None:
    """Skip where the machine has no such server; in CI, fail."""
    try:
        executable(kind)
    except ServerUnavailableError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def server(server_kind: str) -> Iterator[Server]:
    """A running server, shared by all tests, empty at the start of each."""
    with Server(server_kind) as server:
        yield server


@pytest.fixture
def fresh_server(server_kind: str) -> Iterator[Callable[..., Server]]:
    """Starts another server: a function with the arguments of ``Server``."""
    with ExitStack() as servers:

        def start(kind: str = server_kind, **options: Any) -> Server:
            return servers.enter_context(Server(kind, **options))

        yield start


@pytest.fixture
def crawl_name() -> str:
    """A crawl id, or part of one, that no other test has. A spider may be named so."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs beside the test; the ends of their logs are shown if it fails."""
    with Programs(tmp_path) as programs:
        yield programs
    for program in programs:
        print(program)  # noqa: T201 - pytest captures it


@pytest.fixture(autouse=True)
def _only_keys_of_the_crawl(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that left keys not its own; empty the shared server."""
    if "server" not in request.fixturenames:
        yield
        return
    crawl: str = request.getfixturevalue("crawl_name")
    server: Server = request.getfixturevalue("server")
    yield
    client = server.client()
    keys = [key.decode(errors="replace") for key in client.scan_iter()]
    client.flushall()
    client.close()
    leaked = sorted(key for key in keys if not _belongs_to(crawl, key))
    assert not leaked, f"keys outside the hash tag or prefix of {crawl}: {leaked}"


def _belongs_to(crawl: str, key: str) -> bool:
    tag = key.partition("{")[2].partition("}")[0]
    # Sessions are of a site and not of a crawl: that of all sites that tests serve.
    return crawl in tag or key.startswith((crawl, "sess:127.0.0.1"))


def _starts_programs(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return "programs" in fixtures or "commands" in fixtures


def _marked(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None
