"""The web server that the site is crawled from: nginx, or a small one of our own.

Below ``/cookies/`` are the same pages, each answered with a cookie.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Program, Programs, wait_until

OWN = Path(__file__).with_name("own_web.py")
COOKIE = "session=5d2c1f0a9b; Path=/"

NGINX = """
daemon off;
worker_processes 1;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    types {{ text/html html; }}
    keepalive_requests 100000000;
    open_file_cache max=20000;
    open_file_cache_valid 1h;
    client_body_temp_path {scratch}/body;
    proxy_temp_path {scratch}/proxy;
    fastcgi_temp_path {scratch}/fastcgi;
    uwsgi_temp_path {scratch}/uwsgi;
    scgi_temp_path {scratch}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ root {root}; }}
        location /cookies/ {{ alias {root}/; add_header Set-Cookie "{cookie}"; }}
    }}
}}
"""


def nginx() -> str | None:
    """The program, if there is one."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@contextmanager
def serving(root: Path, scratch: Path, programs: Programs) -> Iterator[str]:
    """Serve the files below *root*; the URL without a slash at the end."""
    port = _free_port()
    program = nginx()
    if program:
        config = scratch / "nginx.conf"
        config.write_text(
            NGINX.format(root=root, scratch=scratch, port=port, cookie=COOKIE)
        )
        web = programs.run(program, "-p", scratch, "-c", config, name="nginx")
    else:
        web = programs.run(sys.executable, OWN, str(port), root, COOKIE, name="web")
    wait_until(lambda: _listens(port, web), 20, "the web server listens")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        # Asked, since nginx has a second process, which SIGKILL would leave behind.
        web.terminate()
        web.wait()


def describe() -> str:
    """What serves the site."""
    return "nginx" if nginx() else "a web server of the benchmark's own"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int, web: Program) -> bool:
    assert web.running, str(web)
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
