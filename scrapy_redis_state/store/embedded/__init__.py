"""A Valkey server of a directory, run while any process uses it (``embedded:``).

Locks say who is alive, never process ids: the kernel lets go of a lock when its holder
dies, however it dies. Each is a ``flock`` on a file in the directory.

``users.lock``
    Every client of every process holds it shared, from its first connection until it is
    closed. Whoever can have it exclusively knows that nobody uses the server.
``supervisor.lock``
    Held by the supervisor, a small process of its own session (so Ctrl-C and the end of
    a terminal do not reach it) that runs the server as its child. A client that can
    have this lock knows that there is none: it starts one, and passes the lock on to it
    open, so of any number of clients at once one starts it and the others wait.
``server.lock``
    Held by the server, which inherits it open. Two servers never write to the same
    files, even if a supervisor was killed and its server lives on.

The supervisor looks at ``users.lock``. When nobody has used the server for a moment (so
that a command after another need not start it again), it stops the server while it
holds that lock: whoever comes then waits, and starts the next one. When the server ends
without being told to, so does the supervisor, and a client that connects again starts
both, as if it were the first. There is nothing else that restarts anything.

If the supervisor is killed, Linux ends its server. Elsewhere the server goes on, and
the next client that connects replaces it.

If the directory is deleted the state is gone, and the server is ended, so that workers
notice.

Writes are in the hands of the operating system before they are answered, except while
an earlier write is on its way to the disk (milliseconds, at most two seconds): so much
may be lost if the *server* is killed, and up to two seconds if the machine loses power.
A crawl copes with both; the pages in question are done again. Killed *workers* lose
nothing.
"""

from scrapy_redis_state.store.embedded.attachment import Attachment
from scrapy_redis_state.store.embedded.connections import (
    AsyncConnection,
    AsyncPool,
    Connection,
    Pool,
)

__all__ = ["AsyncConnection", "AsyncPool", "Attachment", "Connection", "Pool"]
