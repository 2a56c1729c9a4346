"""A server further away: ``python delay.py PORT ROUND_TRIP_SECONDS``.

Forwards connections to a port of this machine, and prints on which port it listens.
What it gets, it passes on half a round trip later, whatever else is under way: it
delays, and does not slow down. Threads that sleep are more exact than the timers of an
event loop, which count in milliseconds.
"""

import queue
import socket
import sys
import threading
import time

CHUNK = 1 << 18
Line = queue.SimpleQueue[tuple[float, bytes]]


def take(source: socket.socket, line: Line, delay: float) -> None:
    """Note when each piece is to be passed on; the last one is empty."""
    data = b"first"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        line.put((time.monotonic() + delay, data))


def give(target: socket.socket, line: Line) -> None:
    """Pass each piece on when its time has come."""
    while True:
        due, data = line.get()
        time.sleep(max(0, due - time.monotonic()))
        if not data:
            break
        try:
            target.sendall(data)
        except OSError:
            break
    # Both: whoever reads here has to notice.
    for way in (socket.SHUT_WR, socket.SHUT_RD):
        try:
            target.shutdown(way)
        except OSError:
            return


def join(client: socket.socket, port: int, delay: float) -> None:
    """Forward one connection in both directions."""
    server = socket.create_connection(("127.0.0.1", port))
    for source, target in ((client, server), (server, client)):
        for one in (source, target):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line: Line = queue.SimpleQueue()
        threading.Thread(target=take, args=(source, line, delay), daemon=True).start()
        threading.Thread(target=give, args=(target, line), daemon=True).start()


def main(port: int, round_trip: float) -> None:
    """Listen until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        join(client, port, round_trip / 2)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
