"""The hub's own questions, to its proxy and to sessions that start: those that wait keep no other one waiting."""

from __future__ import annotations

import asyncio

from jupyterhub.httpclient import JupyterHubHTTPClient, fetch
from traitlets.config import Config

from portal.hub import config
from portal.site import Site

MANY = 150  # sessions whose servers do not answer, as where homes hang; aiohttp's own bound is 100
WITHIN_S = 20


async def test_however_many_sessions_do_not_answer_the_hub_asks_its_proxy_and_the_others() -> None:
    c = Config()
    config.addresses(c, Site())
    asked = asyncio.Semaphore(0)
    JupyterHubHTTPClient.clear_instance()
    client = JupyterHubHTTPClient.instance(config=c)

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked.release()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api"
    questions = [asyncio.ensure_future(fetch(url)) for _ in range(MANY)]
    try:
        async with asyncio.timeout(WITHIN_S):
            for _ in questions:
                await asked.acquire()
    finally:
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        await client.close()
        JupyterHubHTTPClient.clear_instance()
        server.close()
