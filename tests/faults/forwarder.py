"""Forward connections: ``python forwarder.py LISTEN=TARGET...``, each a port or a path.

Ports are of the loopback interface, which is switched on if it is not.
"""

import asyncio
import fcntl
import os
import socket
import struct
import sys
from asyncio import StreamReader, StreamWriter

Streams = tuple[StreamReader, StreamWriter]

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
CHUNK = 1 << 16


def switch_loopback_on() -> None:
    """Do what ``ip link set lo up`` does, in a network namespace of one's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


async def connect(target: str) -> Streams:
    if target.isdigit():
        return await asyncio.open_connection("127.0.0.1", int(target))
    return await asyncio.open_unix_connection(target)


async def pump(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def listen(place: str, target: str) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            replies, calls = await connect(target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, calls), pump(replies, writer))

    if place.isdigit():
        await asyncio.start_server(serve, "127.0.0.1", int(place))
    else:
        await asyncio.start_unix_server(serve, place)


async def main(ways: list[str]) -> None:
    for way in ways:
        place, _, target = way.partition("=")
        await listen(place, target)
    print("ready", flush=True)  # noqa: T201 - whoever started this waits for it
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nobody tells of a parent's end
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    if sys.argv[1] == "--own-network":
        switch_loopback_on()
        del sys.argv[1]
    asyncio.run(main(sys.argv[1:]))
