"""What a session asks its hub about who comes: nobody waits for an answer about somebody else.

Such an answer may wait at the hub for what else its person asks there, and with a token comes a number of a browser's
session that is what the sender says. So each token is asked about once at a time, and of tokens that no login into this
session has given, which anybody may make up, some at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cached_property, partial
from typing import Any

from tornado.web import HTTPError

from portal.session_pages.askers import ASKER

WHOLE_WITHIN_S = 60.0  # a question
OTHERS_AT_ONCE = 100  # questions about tokens that come without this session's own cookie
OTHERS_WAITING = 1000
CODES_AT_ONCE = 16  # logins that end: whoever comes may send a code, and the hub works on so many for one session
GIVEN_MOST = 1000
TOO_MANY = "Too many ask this session with tokens that it does not know. Try again in a moment."


class Questions:
    """Those that are under way: one about each login, whoever asks."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Any]] = {}
        self._given: dict[str, None] = {}  # the one that came last comes last
        self._others = asyncio.Semaphore(OTHERS_AT_ONCE)
        self._codes = asyncio.Semaphore(CODES_AT_ONCE)
        self._waiting = 0

    def note(self, token: str) -> None:
        """A token that opens this session, or did: one that the hub gave for a code, or of a signed cookie, say."""
        self._given.pop(token, None)
        self._given[token] = None
        if len(self._given) > GIVEN_MOST:
            del self._given[next(iter(self._given))]

    async def ask(self, token: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What the hub says of a token, whoever has begun to ask, who may be gone by then.

        Raises:
            HTTPError: 503, too many ask about tokens that no login into this session has given.
        """
        in_turn = partial(self._in_turn, ask)
        return await asyncio.shield(self._begun(token, ask if token in self._given else in_turn))

    async def end_login(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What the hub gives for a code, which anybody may make up; who has gone meanwhile waits no more.

        Raises:
            HTTPError: 400, nobody is there to hear it.
        """
        turn = asyncio.ensure_future(self._codes.acquire())
        asker = ASKER.get()
        gone = asker.gone() if asker else None
        try:
            await asyncio.wait({turn, gone} if gone else {turn}, return_when=asyncio.FIRST_COMPLETED)
            if gone and gone.done():
                raise HTTPError(400)
            return await ask()
        finally:
            if not turn.cancel():
                self._codes.release()

    async def _in_turn(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        if self._waiting >= OTHERS_WAITING:
            raise HTTPError(503, TOO_MANY)
        self._waiting += 1
        try:
            async with self._others:
                return await ask()
        finally:
            self._waiting -= 1

    async def ask_about(self, logins: Mapping[Any, Callable[[], Awaitable[None]]], within_s: float) -> None:
        """Ask about all of them, and wait so long; an answer may come later."""
        if asked := [self._begun(login, ask) for login, ask in logins.items()]:
            await asyncio.wait(asked, timeout=within_s)

    def _begun(self, login: Hashable, ask: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        if login not in self._under_way:
            self._under_way[login] = asyncio.ensure_future(ask())
            self._under_way[login].add_done_callback(partial(self._over, login))
        return self._under_way[login]

    def _over(self, login: Hashable, asked: asyncio.Future[Any]) -> None:
        del self._under_way[login]
        if not asked.cancelled():
            asked.exception()  # those who wait have it; there may be none


def key_of(token: str, session_id: str) -> str:
    """The name under which JupyterHub (6.1) keeps what the hub has said of a token."""
    return f"token:{session_id}:{hashlib.sha256(token.encode('utf8', 'replace')).hexdigest()}"


class AskedOnce:
    """Before JupyterHub's HubOAuth (6.1): what a token is worth is asked for once at a time."""

    cache: Any
    access_scopes: set[str]
    check_scopes: Callable[..., Any]

    @cached_property
    def questions(self) -> Questions:
        """Those of this one."""
        return Questions()

    def user_for_token(self, token: str, use_cache: bool = True, session_id: str = "", *, sync: bool = True) -> Any:
        """Whose a token is, as JupyterHub says it."""
        ask = partial(super().user_for_token, token, use_cache, session_id, sync=sync)  # type: ignore[misc]
        if sync or not use_cache or key_of(token, session_id) in self.cache:
            return ask()
        return self._asked_once(token, session_id, ask)

    async def _asked_once(self, token: str, session_id: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        found = await self.questions.ask(token, ask)
        if found and self.check_scopes(self.access_scopes, found):
            self.questions.note(token)
        self.cache[key_of(token, session_id)] = self.cache[key_of(token, "")] = found
        return found

    def _get_token_cookie(self, handler: Any) -> Any:
        token = super()._get_token_cookie(handler)  # type: ignore[misc]
        if token:
            self.questions.note(token)
        return token

    async def _token_for_code(self, *given: Any) -> Any:
        token = await self.questions.end_login(partial(super()._token_for_code, *given))  # type: ignore[misc]
        self.questions.note(token)
        return token


def ask_without_limit(client: Any) -> None:
    """Have JupyterHub's client make any number of connections: aiohttp's own limit is 100, for five minutes each."""
    from aiohttp import ClientTimeout

    new_session = client._new_session

    def made(self: Any) -> Any:
        self.connector_options = {"limit": 0, **self.connector_options}
        self.session_options = {"timeout": ClientTimeout(total=WHOLE_WITHIN_S), **self.session_options}
        return new_session(self)

    client._new_session = made
