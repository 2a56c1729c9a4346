"""``python -m storefront``: serve the shop until standard input ends.

Prints its URL as the first line. Standard input is the life line: when the program that
started it is gone, however it went, the site goes too.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from storefront.catalog import Catalog
from storefront.members import MembersArea
from storefront.pages import Shop
from storefront.server import AccessLog, ShopServer


def main() -> None:
    """Serve the shop that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m storefront", description=__doc__)
    parser.add_argument("--products", type=int, default=300)
    parser.add_argument("--slow-secs", type=float, default=7.0)
    parser.add_argument("--log", type=Path, default=Path("access.jsonl"))
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    options = parser.parse_args()
    log = AccessLog(options.log)
    catalog = Catalog(options.products)
    shop = Shop(catalog, options.slow_secs, log.failed)
    server = ShopServer(shop, MembersArea(catalog), log, options.port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.url, flush=True)
    sys.stdin.read()  # and with this thread the others end


if __name__ == "__main__":
    main()
