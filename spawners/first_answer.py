"""A session's server as the hub reaches it: whether something listens there, and its first answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from jupyterhub.utils import wait_for_http_server

from portal.hub.certificates import own_context
from spawners import timings


async def first_answer(url: str, settings: Mapping[str, Any]) -> None:
    """Wait until the server has answered: the question waits in its socket, and gets the first answer it gives.

    Arguments:
        url: the server's own address, with a slash at its end.
        settings: JupyterHub's, with the hub's certificate where the site has internal TLS.
    """
    context = await own_context(settings)
    await wait_for_http_server(f"{url}api", timeout=timings.FIRST_ANSWER_S, ssl_context=context)


async def listens(host: str, port: int) -> bool:
    """True when something listens there."""
    try:
        async with asyncio.timeout(timings.REACH_WITHIN_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
