"""What a hub that was restarted does about the sessions that run: it believes Slurm, and nothing else.

JupyterHub itself (6.1, ``check_spawner`` in app.py) stops every server that does not answer within a time. A server
may be silent for as long as its node or a home hangs, while Slurm says that its job lives: here nobody but the person
ends it then, and it can be stopped at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from jupyterhub import orm
from jupyterhub.user import UserDict
from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, lazyload, selectinload

MADE_AT_ONCE = 25  # sessions between two moments in which pages are served
ROUTES_EVERY_S = 2.0  # while a restarted hub looks at its sessions
ROUTES_EVERY_MAX_S = 30.0
UserStopped = Callable[[Any, str], Awaitable[None]]


class KnownPeople(UserDict):  # type: ignore[misc]
    """JupyterHub's people. Whoever had a session when the hub ended is there with all of it, its look pending.

    To make a thousand sessions takes half a second, so the hub serves its first page before. Whoever is asked for
    meanwhile, by a page or an announcement, is made at once.

    Attributes:
        unmade: the rows, by their numbers, of the sessions that ran and were not made since.
    """

    def __init__(self, db_factory: Callable[[], Any], settings: dict[str, Any]) -> None:
        super().__init__(db_factory, settings)
        self.unmade: set[int] = set()
        self._ran: list[int] = []

    def ran(self, numbers: Iterable[int]) -> None:
        """Note the rows of the sessions that ran when the hub ended."""
        self._ran = sorted(numbers)
        self.unmade = set(self._ran)

    def __setitem__(self, number: int, user: Any) -> None:
        """Add one person."""
        super().__setitem__(number, user)
        for name, row in user.orm_spawners.items() if self.unmade else ():
            if row.id in self.unmade:
                user.spawners[name]._check_pending = True
                self.unmade.discard(row.id)

    async def made(self, db: Session) -> AsyncIterator[Any]:
        """The spawner of every session that ran, still to be looked at; pages are served meanwhile."""
        with_user = selectinload(orm.Spawner.user), selectinload(orm.Spawner.user, orm.User._orm_spawners)
        for first in range(0, len(self._ran), MADE_AT_ONCE):
            few = self._ran[first : first + MADE_AT_ONCE]
            for row in db.query(orm.Spawner).filter(orm.Spawner.id.in_(few)).options(*with_user).all():
                spawner = self[row.user].spawners[row.name]
                if spawner._check_pending:  # not when somebody has stopped it meanwhile
                    yield spawner
            self.unmade.difference_update(few)  # a row may be gone
            await asyncio.sleep(0)


class RunningSessions:
    """The sessions that ran when the hub was ended, each looked at once.

    Args:
        commit: writes JupyterHub's database.
        user_stopped: tells JupyterHub of a session that has ended, as its own callback does.
        is_blocked: whether a person may not use the hub any more.
    """

    def __init__(
        self,
        commit: Callable[[], None],
        user_stopped: UserStopped,
        is_blocked: Callable[[str], bool],
        log: logging.Logger,
    ) -> None:
        self._commit = commit
        self._user_stopped = user_stopped
        self._is_blocked = is_blocked
        self._log = log

    async def look(self, spawner: Any) -> None:
        """Keep a session that lives, and stop one that has ended. Its check was pending until now."""
        user = spawner.user
        try:
            lives = not self._is_blocked(user.name) and await self._lives(spawner)
            if lives:
                await self._find(spawner)
                spawner.add_poll_callback(self._user_stopped, user, spawner.name)
                spawner.start_polling()
            else:
                await user.stop(spawner.name)
        except Exception:
            self._log.exception("The session %s could not be looked at; it is kept", spawner._log_name)
        finally:
            spawner._check_pending = False

    async def _lives(self, spawner: Any) -> bool:
        """False only when its spawner knows that it has ended."""
        try:
            status = await spawner.poll()
        except Exception:
            self._log.exception("Nothing is known of the session %s; it is kept", spawner._log_name)
            return True
        self._log.info("The session %s %s", spawner._log_name, "still runs" if status is None else "has ended")
        return status is None

    async def _find(self, spawner: Any) -> None:
        """JupyterHub's record of where it listens follows what the spawner knows."""
        url = await spawner.get_url()
        if url == spawner.server.url:
            return
        parts = urlsplit(url)
        self._log.warning("The session %s listens at %s, not at %s", spawner._log_name, url, spawner.server.url)
        spawner.server.protocol = parts.scheme
        spawner.server.ip = parts.hostname
        spawner.server.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._commit()


@contextmanager
def plain_rows(db: Session) -> Iterator[None]:
    """Meanwhile a row brings its relations when they are asked for, not at once."""

    def lazily(execution: ORMExecuteState) -> None:
        if execution.is_select:
            execution.statement = execution.statement.options(lazyload("*"))

    event.listen(db, "do_orm_execute", lazily)
    try:
        yield
    finally:
        event.remove(db, "do_orm_execute", lazily)


async def bring_back(check_routes: Callable[[], Awaitable[None]], sessions: asyncio.Future[int], log: Any) -> None:
    """Bring the sessions back into the new proxy; one whose node is silent keeps no other one waiting.

    Arguments:
        check_routes: adds the routes of all sessions that are known so far.
        sessions: done when each session of before was looked at, with their number.
    """
    every_s = ROUTES_EVERY_S
    is_complete = False
    while not is_complete:
        looked, _ = await asyncio.wait([sessions], timeout=every_s)
        try:
            await check_routes()
            is_complete = bool(looked)
        except Exception:  # the proxy is being started again, for one
            log.exception("The routes of the sessions: tried again")
            await asyncio.sleep(every_s)
        every_s = min(every_s * 2, ROUTES_EVERY_MAX_S)
    if error := sessions.exception():
        log.error("Not all sessions could be looked at", exc_info=error)
    else:
        log.info("%s sessions were looked at", sessions.result())
