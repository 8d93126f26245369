"""One question of a session to its hub, with the session's own token; in a thread, since the server goes on."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from portal.language.texts import N_, _, language

ANSWER_S = 70  # portal-extend has a minute
LONGEST = 256 * 1024  # bytes of an answer
SILENT = N_("The portal's hub does not answer. Your session goes on; try again in a minute.")

Connect = Callable[[str, str, float], HTTPConnection]
Told = dict[str, Any]


class HubCalls:
    """The hub, as this session reaches it.

    Arguments:
        connect: makes a connection out of scheme, host and seconds.
        token: the session's own.
        environ: names the hub's address.
    """

    def __init__(self, connect: Connect, token: Callable[[], str], environ: Mapping[str, str] = os.environ) -> None:
        self._connect = connect
        self._token = token
        self._environ = environ

    async def ask(
        self, method: str, name: str, body: Mapping[str, object] | None = None, timeout_s: float = ANSWER_S
    ) -> tuple[int, Told]:
        """Status and JSON of ``/hub/api/dsportal/NAME``; 503 with ``message`` where the hub does not answer.

        What the hub says to the person is in the language that is spoken here.
        """
        return await asyncio.to_thread(self._ask, method, name, body, timeout_s)

    def _ask(self, method: str, name: str, body: Mapping[str, object] | None, timeout_s: float) -> tuple[int, Told]:
        hub = urlsplit(self._environ.get("JUPYTERHUB_API_URL", ""))
        headers = {"Authorization": f"token {self._token()}", "Content-Type": "application/json"}
        headers["Accept-Language"] = language()
        try:
            connection = self._connect(hub.scheme, hub.netloc, timeout_s)
            try:
                text = json.dumps(body) if body is not None else None
                connection.request(method, f"{hub.path.rstrip('/')}/dsportal/{name}", text, headers)
                answer = connection.getresponse()
                found = json.loads(answer.read(LONGEST))
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError):
            return 503, {"message": _(SILENT)}
        return (answer.status, found) if isinstance(found, dict) else (503, {"message": _(SILENT)})
