"""A session's server as the hub reaches it: its address, whether something listens there, and its first answer."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyterhub.utils import make_ssl_context, wait_for_http_server

REACH_WITHIN_S = 5.0
LONGEST_WAIT_S = 86400  # whoever waits gives up before


class ReachesServer:
    """A spawner that talks to its server itself, before JupyterHub's own check."""

    user: Any
    server: Any
    internal_ssl: Any

    def url_at(self, host: str, port: int) -> str:
        """The server's address on a node."""
        scheme = "https" if self.internal_ssl else "http"
        return f"{scheme}://{host}:{port}{self.server.base_url}"

    async def first_answer(self, host: str, port: int) -> None:
        """Wait until the server has answered: the question waits in its socket, and gets the first answer it gives."""
        settings = self.user.settings
        own, ca = [settings.get(f"internal_ssl_{part}") for part in ("key", "cert")], settings.get("internal_ssl_ca")
        context = make_ssl_context(*own, cafile=ca)
        await wait_for_http_server(f"{self.url_at(host, port)}api", timeout=LONGEST_WAIT_S, ssl_context=context)


async def listens(host: str, port: int) -> bool:
    """True when something listens there."""
    try:
        async with asyncio.timeout(REACH_WITHIN_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
