"""Whom the proxy counts a request for behind a server that the site names: what the sender claims counts for nobody."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from portal.addresses import client_of, networks
from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import ask, routed
from tests.unit.test_proxy_turns import WITHIN_S, stack, until_going, upstream

__all__ = ["portal", "stack", "upstream"]
ALICE = "203.0.113.7"
MOST = 3
FRONT = "127.0.0.1"


@pytest.mark.parametrize(
    ("wrote", "counted"),
    [
        ("198.51.100.66", "198.51.100.66"),
        ("198.51.100.66:40001", "198.51.100.66"),
        ("[2001:db8::66]:40001", "2001:db8::66"),
        ("[2001:db8::66]", "2001:db8::66"),
        ("unknown", FRONT),
        (f"unknown, {FRONT}", FRONT),
        ("", FRONT),
    ],
)
async def test_a_claimed_address_takes_no_room_of_whose_it_is(
    portal: Portal,
    upstream: str,
    stack: ExitStack,
    wrote: str,
    counted: str,
) -> None:
    await routed(portal, upstream, trusted_proxies=[FRONT], of_one_session=MOST)
    for _ in range(MOST):  # what the server writes comes behind what the sender wrote
        one = stack.enter_context(socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=WITHIN_S))
        head = f"GET /user/alice/held HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {ALICE}, {wrote}\r\n\r\n"
        one.sendall(head.encode())
    await until_going(MOST)

    got = [
        (await ask("GET", f"{portal.url}/user/alice/lab", headers={"X-Forwarded-For": address})).status_code
        for address in (ALICE, counted)
    ]

    assert got == [200, 429]
    assert client_of(FRONT, f"{ALICE}, {wrote}", networks([FRONT])) == counted
