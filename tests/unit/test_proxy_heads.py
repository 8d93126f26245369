"""What a session sends before its answer, at the real proxy: a little of it is read, and nobody else waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import answering, ask, routed
from tests.unit.test_proxy_sockets import Upgrading, asked

__all__ = ["portal"]
HEAD = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
FEW = 3


class Hinting(Upgrading):
    """A session that says much before its answer, or a little."""

    def do_GET(self) -> None:
        """As it is asked."""
        with contextlib.suppress(OSError):
            while self.path.endswith(("/endless", "/endless/socket")):
                self.wfile.write(HEAD * 1000)
            self.wfile.write(HEAD * FEW)
        super().do_GET()


@pytest.fixture
def upstream() -> Iterator[str]:
    """A hub and a session."""
    with answering(Hinting) as url:
        yield url


@pytest.mark.parametrize("expect", [{}, {"Expect": "100-continue"}])
async def test_an_answer_that_never_begins_is_given_up(portal: Portal, upstream: str, expect: dict[str, str]) -> None:
    await routed(portal, upstream)

    answer = await ask("GET", f"{portal.url}/user/alice/endless", headers=expect)

    assert answer.status_code == 503
    assert (await ask("GET", f"{portal.url}/user/alice/page")).status_code == 200


async def test_one_for_a_web_socket_is_given_up_too(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)

    with asked(portal, "/user/alice/endless/socket") as browser:
        said = await asyncio.to_thread(browser.recv, 65536)

    assert said.startswith(b"HTTP/1.1 503")


async def test_what_else_that_session_was_asked_ends_with_it(portal: Portal, upstream: str) -> None:
    await routed(portal, upstream)

    with asked(portal, "/user/alice/silence") as waiting:
        await ask("GET", f"{portal.url}/user/alice/endless")

        assert (await asyncio.to_thread(waiting.recv, 65536)).startswith(b"HTTP/1.1 503")
