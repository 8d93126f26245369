"""Who a request comes from: addresses, the proxies that are believed, what counts as one address, paths.

And what it says that its body is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus, urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?")
TYPE_LENGTH_MOST = 256  # of a Content-Type; the boundary of a form has 70 (RFC 2046, 5.1.1)
IPV6_CLIENT = 64  # bits: what one household or office is given, and may choose any address of


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks as a settings file writes them.

    Raises:
        ValueError: a text that is neither.
    """
    return _networks(tuple(texts))


@lru_cache(maxsize=64)  # each login and each request asks for the same ones
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


def path_of(address: str) -> str:
    """The path of an address that somebody wrote; "" for what is none."""
    return urlsplit(address).path if is_address(address) else ""


def without_names(address: str, names: Collection[str]) -> str:
    """The same address, without what has one of these names in its query."""
    before, _, fragment = address.partition("#")
    path, _, query = before.partition("?")
    parts = query.split("&")
    kept = [part for part in parts if unquote_plus(part.partition("=")[0]).lstrip("?") not in names]
    if kept == parts:
        return address
    return "#".join(filter(None, ("?".join(filter(None, (path, "&".join(kept)))), fragment)))


def is_address(text: str) -> bool:
    """Whether the parts of an address can be told, with a host or without."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def client_of(peer: str, forwarded_for: str, trusted: Iterable[Network]) -> str:
    """The address of who asks.

    Each proxy appends who asked it to ``X-Forwarded-For``. So the list is read from its end, and only as far as the
    ones before are proxies that are believed; what stands farther to the left anybody may have written.

    Arguments:
        peer: the other end of the connection.
        forwarded_for: the header's value; "" where it is not believed at all, or missing.
        trusted: the site's own proxies.
    """
    believed = tuple(trusted)
    client = peer
    for text in reversed([part.strip() for part in forwarded_for.split(",")]):
        with_port = _WITH_PORT.fullmatch(text)
        found = _address(with_port[1] or with_port[2] if with_port else text)
        if found is None:
            break
        client = str(found)
        if not any(found in network for network in believed):
            break
    return client


def address_of(request: Any, believed: Iterable[Network] = ()) -> str:
    """The address that a request comes from.

    Our proxy runs on the hub's host, appends its client to X-Forwarded-For, and passes on what was there before only
    from the proxies that the site names; that header from anywhere else, and X-Real-Ip from everywhere (which Tornado
    believes until :mod:`portal.guard.intake` notes this address), are what the sender claims. Where the hub's port
    knows the proxy by its certificate, it notes on other connections who they are of (portal/hub/listener.py).

    Raises:
        OSError: the connection has ended.
    """
    stream = request.connection.stream
    peer, own = _ends(stream)
    noted = getattr(stream, "portal_client", None)  # "" for the proxy
    if noted or (noted is None and peer != own):
        return peer
    trusted = networks(request.connection.context.trusted_downstream)
    return client_of(peer, request.headers.get("X-Forwarded-For", ""), [*believed, *trusted])


def _ends(stream: Any) -> tuple[str, str]:
    """The addresses of a connection's other end and of its own; asked for once, for they stay: so do connections."""
    found: tuple[str, str] | None = getattr(stream, "portal_ends", None)
    if found is None:
        found = (str(stream.socket.getpeername()[0]), str(stream.socket.getsockname()[0]))
        stream.portal_ends = found
    return found


def counted(address: str) -> str:
    """What an address counts as, however it is written: an IPv6 network of 64 bits is one."""
    found = _address(address)
    if found is None or found.version == 4:
        return str(found or address)
    return str(ipaddress.ip_network((found, IPV6_CLIENT), strict=False))


@lru_cache(maxsize=4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address; one of IPv4 that is written as one of IPv6 is that of IPv4."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def is_in_parts(headers: Mapping[str, str]) -> bool:
    """Whether a body is a form in parts, as one with files is: each has headers of its own, which take long, too."""
    return headers.get("Content-Type", "").lstrip().lower().startswith("multipart/")


def has_long_type(headers: Mapping[str, str]) -> bool:
    """Whether a request says what its body is at a length that no program needs.

    Tornado (6.5) looks for a long boundary of a form at each place of a body, letter by letter: for seconds, before
    anybody knows who asks.
    """
    return len(headers.get("Content-Type", "")) > TYPE_LENGTH_MOST
