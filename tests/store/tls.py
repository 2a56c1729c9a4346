"""Servers that speak TLS and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.processes import Process
from tests.servers import Server
from tests.store.certificates import Authority


class TlsServer(Server):
    """A Redis with a certificate from an authority; it wants none from its clients.

    ``extra_args`` may say otherwise (``["--tls-auth-clients", "yes"]``).
    """

    def __init__(self, authority: Authority, **options: Any) -> None:
        super().__init__("redis", tcp=True, **options)
        self.authority = authority
        self._files = authority.issue("server")
        self._probe = authority.issue("probe")
        self._more_args = self.extra_args

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """With all that any server may ask for."""
        return with_files(
            f"rediss://{self.address}/0", self.authority.file, self._probe
        )

    def _spawn(self) -> Process:
        certificate, key = self._files
        self.extra_args = (
            *("--port", "0", "--tls-port", str(self.port)),
            *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
            *("--tls-ca-cert-file", str(self.authority.file)),
            *("--tls-auth-clients", "no", *self._more_args),
        )
        return super()._spawn()


def with_files(
    url: str,
    authority: Path | None = None,
    certificate: tuple[Path, Path] | None = None,
) -> str:
    """The URL with an authority to trust, and a certificate to show."""
    options = []
    if authority:
        options.append(f"ssl_ca_certs={authority}")
    if certificate:
        options += [f"ssl_certfile={certificate[0]}", f"ssl_keyfile={certificate[1]}"]
    return url + ("?" if options else "") + "&".join(options)
