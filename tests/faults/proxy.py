"""A TCP proxy in front of a server, which breaks connections as a test says."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_redis_state.store.call import load_script

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.servers import Server

T = TypeVar("T")

EXCHANGE = load_script("exchange").sha.encode()
"""What a call has in it that is an exchange of a worker."""
CHUNK = 1 << 16


class Break(Enum):
    """Where the connection breaks in a call."""

    BEFORE_CALL = "none of the call arrives"
    IN_CALL = "half of the call arrives"
    BEFORE_REPLY = "the call is executed, and none of the reply arrives"
    IN_REPLY = "the call is executed, and half of the reply arrives"


class Proxy:
    """Forwards connections to a server, between ``with`` and its end."""

    def __init__(self, server: Server) -> None:
        self.broken: Counter[Break] = Counter()
        """How often a connection was broken so."""
        self.delay_secs = 0.0
        """How much longer each call takes."""
        self.is_silent = False
        """Nothing is forwarded and nothing is closed: what is sent vanishes."""
        self.marker = EXCHANGE
        """What is in the calls that breaks are for."""
        self._server = server
        self._breaks: deque[Break | None] = deque()
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._port = 0
        self._listener: asyncio.Server

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """What a worker has in REDIS_STATE_URL."""
        return f"redis://127.0.0.1:{self._port}/0"

    @property
    def port(self) -> int:
        return self._port

    @property
    def breaks_left(self) -> int:
        """How many planned breaks are still to come."""
        return len(self._breaks)

    def plan(self, *breaks: Break | None) -> None:
        """What happens to the next calls; None lets one pass."""
        self._breaks.extend(breaks)

    def cut(self) -> None:
        """Break all connections now."""
        self._call(self._cut)

    def switch(self, server: Server) -> None:
        """Break all connections; new ones go to another server, or address."""

        def switch() -> None:
            self._server = server
            self._cut()

        self._call(switch)

    # --- in the loop's thread --------------------------------------------------------

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._listener.close()
        self._cut()
        while self._connections:  # noqa: ASYNC110 - they are about to end
            await asyncio.sleep(0)

    def _cut(self) -> None:
        for connection in self._connections:
            connection.task.cancel()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        except asyncio.CancelledError:
            pass  # cut; the loop's own task has nothing else to be cancelled for
        finally:
            self._connections.discard(connection)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        server = self._server
        if server.socket:
            return await asyncio.open_unix_connection(server.socket)
        return await asyncio.open_connection("127.0.0.1", server.port)

    def next_break(self, call: bytes) -> Break | None:
        """What is to happen to a call that begins so."""
        if self.marker not in call or not self._breaks:
            return None
        planned = self._breaks.popleft()
        if planned is not None:
            self.broken[planned] += 1
        return planned

    # --- from the test's thread ------------------------------------------------------

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        self._run(call())


class _Connection:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._proxy = proxy
        self._calls, self._client = reader, writer
        self._replies: asyncio.StreamReader
        self._server: asyncio.StreamWriter
        self._is_answered = True
        self._break: Break | None = None

    async def run(self) -> None:
        """Forward until one side closes, or the connection is to break."""
        try:
            self._replies, self._server = await self._proxy.connect()
        except OSError:
            self._client.transport.abort()
            return
        pumps = [
            asyncio.ensure_future(self._forward_calls()),
            asyncio.ensure_future(self._forward_replies()),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            # Not aborted: what was written before a break has to arrive.
            self._server.close()
            self._client.close()

    async def _forward_calls(self) -> None:
        with contextlib.suppress(OSError):
            while call := await self._calls.read(CHUNK):
                await asyncio.sleep(self._proxy.delay_secs)
                if self._is_answered:
                    self._is_answered = False
                    self._break = self._proxy.next_break(call)
                if self._break is Break.BEFORE_CALL:
                    return
                if self._break is Break.IN_CALL:
                    self._server.write(call[: len(call) // 2])
                    return
                await self._send(self._server, call)

    async def _forward_replies(self) -> None:
        with contextlib.suppress(OSError):
            while reply := await self._replies.read(CHUNK):
                self._is_answered = True
                if self._break is Break.BEFORE_REPLY:
                    return
                if self._break is Break.IN_REPLY:
                    self._client.write(reply[: len(reply) // 2])
                    return
                await self._send(self._client, reply)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if not self._proxy.is_silent:
            writer.write(data)
            await writer.drain()
