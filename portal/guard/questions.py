"""The hub's own questions, to its proxy and to sessions that start: how many at a time, and what is read of an answer.

A session is what its owner makes of it. JupyterHub's client (6.1) is one for all: aiohttp (3.14) goes on reading as
long as heads come that are no answer yet, sends one session's cookies to the next one on that host, and keeps what is
read to no end, with its connection, for ever. How much it holds of that it bounds itself, packed or not.
"""

from __future__ import annotations

import re
from typing import Any
from weakref import ref

from aiohttp import ClientConnectionError, ClientResponse

WHOLE_WITHIN_S = 60.0  # an answer, from its head on
HEADS_MOST = 10  # "100 Continue", "103 Early Hints" and the like before an answer
VERSION = "X-JupyterHub-Version"  # each that is another one JupyterHub keeps for ever, and fails at what is none
IS_VERSION = re.compile(r"\d{1,2}(\.\d{1,2}){1,2}(\.?(a|b|rc|post|dev)\d{0,2}){0,3}(\+[a-z0-9.]{1,16})?", re.ASCII)
# Questions to sessions that start wait for their answer. With aiohttp's own bound a hundred of them would be all.
CONNECTOR: dict[str, object] = {"limit": 0}


class HeadsCounted:
    """A connection, or its protocol, whose heads are counted while an answer begins."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._heads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @property
    def protocol(self) -> HeadsCounted:
        """That of the connection."""
        return HeadsCounted(self._real.protocol)

    async def read(self) -> Any:
        """The next head.

        Raises:
            ClientConnectionError: there were many already.
        """
        self._heads += 1
        if self._heads > HEADS_MOST:
            raise ClientConnectionError(f"{HEADS_MOST} heads and no answer")
        return await self._real.read()


class ShortResponse(ClientResponse):
    """An answer that begins soon, ends in time, and leaves no cookie."""

    async def start(self, connection: Any) -> ShortResponse:
        """Read its head.

        Raises:
            ClientConnectionError: it does not begin.
        """
        await super().start(HeadsCounted(connection))  # type: ignore[arg-type]
        if self._connection is not None:  # else all of it has come, and the connection is free
            self._connection = connection
            self._loop.call_later(WHOLE_WITHIN_S, _end, ref(self))
        self._protocol = connection.protocol
        if VERSION in self._headers and not IS_VERSION.fullmatch(self._headers[VERSION]):
            headers = self._headers.copy()
            headers.popall(VERSION)
            self._headers = headers  # type: ignore[assignment]
            self._cache.pop("headers", None)
        self._raw_cookie_headers = None
        return self


def _end(answer: ref[ShortResponse]) -> None:
    """Close the connection of an answer whose end has not come; JupyterHub itself reads none of a session's."""
    late = answer()
    if late is not None and late.connection is not None:
        late.close()


SESSION: dict[str, object] = {"response_class": ShortResponse}
