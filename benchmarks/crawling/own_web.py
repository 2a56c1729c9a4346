"""Serve files from memory: ``python own_web.py PORT ROOT COOKIE``.

As little of HTTP as a crawl needs, so that it is not what limits one.
"""

import asyncio
import sys
from pathlib import Path

HEAD = (
    b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n%s"
    b"Connection: keep-alive\r\n\r\n%s"
)
WITH_COOKIE = b"/cookies"


def answers(root: Path, cookie: str) -> dict[bytes, bytes]:
    """What is sent for each path."""
    found = {}
    header = b"Set-Cookie: %s\r\n" % cookie.encode()
    for file in root.rglob("*.html"):
        path, body = f"/{file.relative_to(root)}".encode(), file.read_bytes()
        found[path] = HEAD % (b"200 OK", len(body), b"", body)
        found[WITH_COOKIE + path] = HEAD % (b"200 OK", len(body), header, body)
    return found


class Web(asyncio.Protocol):
    """One connection, on which requests without a body come one after the other."""

    pages: dict[bytes, bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for request in requests:
            path = request.split(b" ", 2)[1].partition(b"?")[0]
            answer = self.pages.get(path) or HEAD % (b"404 Not Found", 0, b"", b"")
            self.transport.write(answer)


async def main(port: int, root: Path, cookie: str) -> None:
    """Serve until the process is ended."""
    Web.pages = answers(root, cookie)
    server = await asyncio.get_running_loop().create_server(Web, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
