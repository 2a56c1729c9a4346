"""Which site a host belongs to."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from tldextract import TLDExtract

# The snapshot in the package and nothing else: no download, no file is written.
_split = TLDExtract(
    suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
)


@lru_cache(maxsize=10_000)
def site_of(host_or_url: str) -> str:
    """The site of a host, of ``host:port`` or of a URL: its registrable domain.

    In lower case and Punycode. An IP address is its own site (version 6 without
    brackets), and so is a host without dots, and a public suffix. Under a suffix that
    nobody knows the site is the last two labels.

    :raises ValueError: if there is no host in it
    """
    host = host_of(host_or_url)
    address = _address(host.strip("[]"))
    if address:
        return address
    if is_alone(host):
        return host
    parts = _split(host)
    if not parts.suffix:
        return ".".join(host.split(".")[-2:])
    return f"{parts.domain}.{parts.suffix}"


def counted_site(url: str) -> str:
    """Site that a page counts for; empty for what has none, such as ``data:``."""
    try:
        return site_of(url)
    except ValueError:
        return ""


def host_of(host_or_url: str) -> str:
    """The host as cookies name it: lower case, Punycode, brackets for version 6.

    :raises ValueError: if there is no host in it
    """
    text = host_or_url.strip()
    address = _address(text.strip("[]"))
    if not address:
        try:
            found = urlsplit(text if "://" in text else f"//{text}").hostname or ""
        except ValueError:
            found = ""
        host = _punycode(found).strip(".")
        if not host:
            raise ValueError(
                f"There is no host in {host_or_url[:100]!r}: give a host or a URL."
            )
        address = _address(host)
        if not address:
            return host
    return f"[{address}]" if ":" in address else address


def is_alone(host: str) -> bool:
    """Whether no other host may share its cookies.

    So it is with addresses, hosts without dots, and public suffixes.
    """
    last = host.rpartition(".")[2]
    if last == host or last.isdigit() or host.startswith("["):
        return True
    return not _split(host).domain


def _punycode(host: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError:  # a label too long, or none at all
        return host.lower()


def _address(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        # Versions of Python write these in different ways, and workers must agree.
        return f"::ffff:{address.ipv4_mapped}"
    return address.compressed
