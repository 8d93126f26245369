"""What the real proxy logs of a session that answers nothing, however often and with whatever address it is asked."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator

import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import answering, ask, raw_get, routed
from tests.unit.test_proxy_sockets import Upgrading, asked

__all__ = ["portal"]
LONG = "x" * 10_000
FAULTS_TOLD = 20
EVERY_S = 5.0
MANY = 60
WITHIN_S = 20
LONGEST = 600  # of a line about one request


class Closing(Upgrading):
    """A session that closes each connection without a word."""

    def do_GET(self) -> None:
        """No answer."""
        self.close_connection = True


@pytest.fixture
def upstream() -> Iterator[str]:
    """A session, and a hub that is no better."""
    with answering(Closing) as url:
        yield url


def faults(portal: Portal) -> list[str]:
    """The first lines of warnings and errors in the log."""
    text = (portal.state / "proxy" / "proxy.log").read_text()
    return re.findall(r"^\S+ \[ConfigProxy\] (?:\x1b\[\d+m)*(?:error|warn)\b.*", text, re.MULTILINE)


async def test_a_long_address_is_cut_in_the_log(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)

    await ask("GET", f"{portal.url}/user/alice/{LONG}")

    told = faults(portal)
    assert any("/user/alice/xxx" in line and line.endswith("… socket hang up") for line in told), told
    assert max(map(len, told)) < LONGEST


async def test_of_many_faults_in_a_minute_the_first_are_told_and_how_many_more_there_were(
    portal: Portal, upstream: str
) -> None:
    await routed(portal, upstream, faults_told=FAULTS_TOLD, faults_every_s=EVERY_S)

    for _ in range(MANY):
        with asked(portal, "/user/alice/socket") as browser:
            await asyncio.to_thread(browser.recv, 65536)
    told = faults(portal)
    async with asyncio.timeout(EVERY_S + WITHIN_S):
        while "more such lines were left out" not in str(faults(portal)):
            await asyncio.to_thread(raw_get, portal, "/user/alice/page")

    assert FAULTS_TOLD <= len(told) < MANY


@pytest.mark.parametrize("path", ["/hub/x", "/user/alice/x"])
async def test_who_goes_while_a_web_socket_waits_for_its_turn_is_no_fault_of_the_proxy(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)
    upgrade = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nmore"

    for _ in range(5):
        with socket.create_connection(("127.0.0.1", portal.ports["port"]), timeout=WITHIN_S) as browser:
            browser.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n{upgrade}".encode())
            browser.shutdown(socket.SHUT_WR)
            while await asyncio.to_thread(browser.recv, 65536):
                pass

    assert not [line for line in faults(portal) if "Uncaught" in line]
