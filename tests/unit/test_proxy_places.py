"""Whose an answer is, by the real proxy: the hub's, or a session's, which stays below its own address."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.test_proxy import Portal, portal
from tests.unit.test_proxy_guard import OVER_ITS_PLACE, ask, raw_get, routed, routed_apart, upstream

__all__ = ["portal", "upstream"]


WORKER = {"Service-Worker": "script"}


@pytest.mark.parametrize("path", ["/user/alice", "/user/alice?worker.js", "/%75ser/alice", "/user/alice/worker.js"])
async def test_where_all_share_one_origin_a_session_has_no_service_worker(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)

    statuses = [(await ask("GET", f"{portal.url}{path}", headers=sent)).status_code for sent in (WORKER, {})]

    assert statuses == [403, 200]
    vary = (await ask("GET", f"{portal.url}{path}")).headers["vary"]
    assert "Service-Worker" in vary.split(", "), "nor out of a browser's cache"


@pytest.mark.parametrize("path", ["/user/alice", "/user/alice?worker.js", "/%75ser/alice"])
async def test_with_a_domain_a_script_of_a_service_worker_lies_below_the_address_of_its_session(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed_apart(portal, upstream)
    sent = {"Host": "alice.portal.example.org", **WORKER}

    statuses = [
        (await ask("GET", f"{portal.url}{one}", headers=sent)).status_code for one in (path, "/user/alice/worker.js")
    ]

    assert statuses == [403, 200]


@pytest.mark.parametrize("path", ["/user/nobody/lab", "/services/none/"])
async def test_what_the_hub_answers_in_the_place_of_a_session_that_is_away_keeps_its_headers(
    portal: Portal, upstream: str, path: str
) -> None:
    await routed(portal, upstream)

    answer = (await asyncio.to_thread(raw_get, portal, path)).lower()

    assert [name for name in OVER_ITS_PLACE if name.lower() in answer] == list(OVER_ITS_PLACE)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\na part",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\nno chunk\r\n",
    ],
)
async def test_an_answer_that_is_broken_off_is_no_whole_one_to_the_browser(portal: Portal, answer: bytes) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answering, "127.0.0.1", 0) as server:
        await routed(portal, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(httpx.RemoteProtocolError):
            await ask("GET", f"{portal.url}/user/alice/x")
