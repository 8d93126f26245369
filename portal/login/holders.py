"""Whose name it is: one that is given to somebody else brings nothing of the person who had it before.

JupyterHub knows people by their names, UNIX by the numbers of their accounts. An account that has another number than
at the last login is somebody else's: ended sessions, named choices, tokens and logins of before go.
"""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.utils import maybe_future
from traitlets import Unicode

from portal.administration.enter import take_back_before_start
from portal.administration.person import check_stays
from portal.errors import NotAllowed
from portal.journal import KEPT
from portal.language.texts import N_, _
from portal.login.attempts import Refusal
from portal.login.kept import Kept
from portal.login.system_accounts import in_time

_FOR_LOOKS = ThreadPoolExecutor(1, thread_name_prefix="account-looks")
EVERY_S = 30.0
WAITING_AT_MOST = 200  # a name service that hangs has no more of them wait for it
REMEMBERED = 20_000
FILE = "account_numbers.jsonl"  # below portal.state_folder
STILL_RUNS = N_(
    "You are known, but the account {name} belongs to somebody else than before (it has another UID on this cluster), "
    "and a session of before still runs. Tell your administrator, who ends it."
)
OTHER_ACCOUNT = N_(
    "The account {name} belongs to somebody else than at the last login (it has another UID on this cluster). "
    "Log in again."
)


def number_on_host(name: str) -> str:
    """The number of this host's account; "" without one. It blocks."""
    try:
        return str(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return ""


async def number_of(name: str) -> str | None:
    """The same, in a thread; ``None``: the name service is silent."""
    return await in_time(lambda: number_on_host(name))


async def number_beside(name: str) -> str | None:
    """The same, in a thread of its own: looks that hang take none of those of logins."""
    return await in_time(lambda: number_on_host(name), _FOR_LOOKS)


class AccountLooks:
    """What a slow question answers about people, some time after it was asked for; the last answer stays meanwhile.

    Args:
        is_so: the question, of a name; ``None`` is no answer.
        told: hears of each name of which the answer is yes now.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        is_so: Callable[[str], Awaitable[bool | None]],
        told: Callable[[str], None] = lambda name: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_so = is_so
        self._told = told
        self._clock = clock
        self._begun: dict[str, float] = {}
        self._found: set[str] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    def is_known(self, name: str) -> bool:
        """Whether the last answer was yes; it has somebody looked at again whose look is long ago."""
        now = self._clock()
        if now - self._begun.get(name, now - EVERY_S) >= EVERY_S and len(self._under_way) < WAITING_AT_MOST:
            self._begun.pop(name, None)
            self._begun[name] = now
            if len(self._begun) > REMEMBERED:
                del self._begun[next(iter(self._begun))]
            task = asyncio.ensure_future(self._look(name))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return name in self._found

    def forget(self, name: str) -> None:
        """Somebody has become known in another way."""
        self._found.discard(name)

    async def _look(self, name: str) -> None:
        async with self._one_at_a_time:
            answer = await self._is_so(name)
        if answer and name not in self._found:
            self._told(name)
            self._found.add(name)
        elif answer is False:
            self._found.discard(name)


class OneAccount(Authenticator):  # type: ignore[misc]
    """Holds the person of a name to the account that had it at the last login."""

    state_folder = Unicode(help="Where the numbers of accounts are kept; empty: nowhere, and none is compared.").tag(
        config=True
    )
    number_of = staticmethod(number_of)
    number_beside = staticmethod(number_beside)

    @cached_property
    def _numbers(self) -> Kept:
        return Kept(Path(self.state_folder) / FILE)

    @cached_property
    def _looks(self) -> AccountLooks:
        return AccountLooks(self._look, self._tell)

    async def _look(self, name: str) -> bool | None:
        number = await self.number_beside(name)
        return self._is_other(name, number) if number else None

    def _tell(self, name: str) -> None:
        self.log.warning("%s may not go on: the account has another number than at the last login", name, extra=KEPT)

    def _is_other(self, name: str, number: str) -> bool:
        return number != self._numbers.words().get(name, number)

    async def hold(self, handler: Any, name: str) -> None:
        """Have somebody who was just recognized, and whose account had another number, begin as somebody new.

        Where the name service is silent, nothing is compared.

        Raises:
            NotAllowed: a session of the person before is not ended.
        """
        number = await self._number(name)
        if number:
            before = self._numbers.words().get(name, number)
            if before != number:
                await self._forget(handler, name, before, number)
            self._numbers.keep({name: number})
            self._looks.forget(name)

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
        """Whoever logged in when the name was another account's may not go on, as soon as a look has found it."""
        if self.is_seen_of_before(user.name):
            return False
        return await maybe_future(super().refresh_user(user, handler, **more))

    def is_seen_of_before(self, name: str) -> bool:
        """The same as :meth:`is_of_before`, as it was found lately: JupyterHub asks with each page."""
        return bool(self.state_folder) and self._looks.is_known(name)

    async def pre_spawn_start(self, user: Any, spawner: Any) -> None:
        """No session starts, and no request is changed, for whoever logged in when the name was another account's.

        Who was let into the session before is not let into the next one.

        Raises:
            Refusal: it was.
            again.Refused: they are just being deleted.
        """
        check_stays(user)
        if await self.is_of_before(user.name):
            raise Refusal(NotAllowed(_(OTHER_ACCOUNT).format(name=user.name)))
        await maybe_future(super().pre_spawn_start(user, spawner))
        take_back_before_start(user.db, spawner.orm_spawner)

    async def is_of_before(self, name: str) -> bool:
        """Whether the last login of a name was that of an account with another number."""
        number = await self._number(name)
        return bool(number) and self._is_other(name, number)

    async def _number(self, name: str) -> str:
        return (await self.number_of(name) or "") if self.state_folder else ""

    async def _forget(self, handler: Any, name: str, before: str, now: str) -> None:
        """As the hub's admin page deletes somebody, but for the site's own lists of names, which goes on to be one."""
        if (user := handler.find_user(name)) is None:
            return
        if any(user.spawners[row.name].active for row in user.orm_user._orm_spawners):
            why = f"account {before} has a session, and account {now} the name now"
            raise NotAllowed(_(STILL_RUNS).format(name=name), detail=why)
        await user.delete_spawners()
        handler.users.delete(user)
        said = "%s is account %s, before %s: what was kept of the one before was deleted"
        self.log.warning(said, name, now, before, extra=KEPT)
