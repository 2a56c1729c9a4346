"""Serves metrics for Prometheus over HTTP, from a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

NO_CLIENT = (
    "prometheus_client is not installed: pip install 'scrapy-redis-state[metrics]'"
)


def as_text(collector: Collector) -> str:
    """What a scrape is answered."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


class MetricsServer:
    """Serves what a collector tells, from when it is made until it is closed.

    :param collector: asked at each scrape, in another thread
    :param address: of this machine
    :param port: 0: any that is free
    :param more_ports: how many of those that follow are tried if it is taken
    :raises OSError: if there is none
    :raises ImportError: without ``prometheus_client``
    """

    def __init__(
        self, collector: Collector, address: str, port: int, more_ports: int = 0
    ) -> None:
        # Not before it is wanted: it is an extra.
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            start_http_server,
        )

        registry = CollectorRegistry()
        registry.register(collector)
        last = port + more_ports if port else port
        for number in range(port, last + 1):
            try:
                self._server, self._thread = start_http_server(
                    number, address, registry
                )
            except OSError:
                if number == last:
                    raise
            else:
                break
        self.address = address
        self.port = int(self._server.server_port)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Serve no more; what is being answered is answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
