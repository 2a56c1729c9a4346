"""``exporter``: the crawls of the servers, for Prometheus."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from scrapy_redis_state.commands.output import say
from scrapy_redis_state.commands.parsing import whole_from_to
from scrapy_redis_state.prometheus.server import NO_CLIENT, MetricsServer, as_text
from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    import argparse
    from types import FrameType

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place

PORT = 9410
LAST_PORT = 65_535


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add(
        "exporter",
        exporter,
        "serve metrics of all crawls of the servers to Prometheus, until Ctrl-C",
        crawl=False,
    )
    parser.add_argument(
        "--port",
        type=whole_from_to(0, LAST_PORT),
        default=PORT,
        help=f"of the metrics ({PORT}); 0: any that is free",
    )
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        help="of this machine (127.0.0.1); 0.0.0.0: all that it has",
    )
    parser.add_argument(
        "--once", action="store_true", help="print the metrics instead, and end"
    )


def exporter(args: argparse.Namespace, place: Place) -> int | None:
    """Serve them; Ctrl-C or SIGTERM is the usual end, and no error."""
    try:
        from scrapy_redis_state.commands.server_metrics import (  # noqa: PLC0415
            ServerMetrics,
        )
    except ImportError:
        raise Refused(NO_CLIENT) from None
    metrics = ServerMetrics(place.urls, place.client, place.prefix or None)
    if args.once:
        sys.stdout.write(as_text(metrics))
        return None
    try:
        server = MetricsServer(metrics, args.address, args.port)
    except OSError as error:
        where = f"--address {args.address} --port {args.port}"
        raise Refused(f"{where}: {error.strerror or error}: give another") from None
    over = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        over.set()

    signal.signal(signal.SIGTERM, end)
    with closing(server), suppress(KeyboardInterrupt):
        say(f"metrics are at {server.url}")
        sys.stdout.flush()
        over.wait()
    return None
