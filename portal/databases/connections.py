"""The hub's one session with a database server: no transaction stays open, and a broken one is given up at once.

JupyterHub (6.1) reads without an end: its transaction is open from one change to the next. A server that was restarted
meanwhile breaks it, and then every question fails until a page has failed, too. Servers also end what idles so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from portal.databases import ended_sessions, forecasts_told, named_choices, usage_by_month

OPEN_FOR_S = 0.1  # the next question gets a connection that was tried before
OWN = (ended_sessions, forecasts_told, usage_by_month, named_choices)  # each with a TABLE of the portal's own
LOG = logging.getLogger(__name__)


class HubSession(Session):
    """Gives up a change that failed; JupyterHub (6.1) goes on with it, and whoever asks next is told of its failure."""

    _is_committing = False
    _is_put_off = False

    def flush(self, objects: Sequence[Any] | None = None) -> None:
        """Send what was changed, or none of it."""
        try:
            super().flush(objects)
        except Exception:
            if not self._is_committing:  # which gives up itself, when it has ended
                self.rollback()
            raise

    def commit(self) -> None:
        """Keep what was changed, or none of it."""
        if self._is_put_off:
            self._number_people()
            return
        self._is_committing = True
        try:
            super().commit()
        except Exception:
            self.rollback()
            raise
        finally:
            self._is_committing = False

    def _number_people(self) -> None:
        """JupyterHub goes on with the number of somebody whom it has just added."""
        if any(isinstance(row, orm.User) for row in self.new):
            self.flush()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Keep nothing meanwhile."""
        self._is_put_off = True
        try:
            yield
        finally:
            self._is_put_off = False


@contextmanager
def one_change(session: HubSession) -> Iterator[None]:
    """Keep what this block commits once it has ended, all or none of it. Nothing in it waits: others commit, too."""
    try:
        with session.put_off():
            yield
    except BaseException:
        session.rollback()
        raise
    session.commit()


@event.listens_for(orm.User, "init")
def _without_state(_: orm.User, __: tuple[object, ...], named: dict[str, object]) -> None:
    """Who is new has no state of a login; JupyterHub (6.1) would write that once more, as a change of its own."""
    named.setdefault("encrypted_auth_state", None)


def opened(made: sessionmaker[Session]) -> Session:
    """The session of a hub, ready for its first question; ``made`` is JupyterHub's own maker of sessions."""
    session = HubSession(**made.kw)
    prepare(session)
    return session


def prepare(session: Session) -> None:
    """What the hub's session needs before its first question."""
    if session.get_bind().dialect.name == "sqlite":
        trust_the_file(session)
    else:
        look_after(session)
    for one in OWN:
        one.prepare(session)


def trust_the_file(session: Session) -> None:
    """Ask nothing beforehand: JupyterHub (6.1) tries its connection before each transaction, and a file has none."""
    engine = session.get_bind()
    for listener in list(engine.dispatch.engine_connect):
        if listener.__module__ == orm.__name__:  # what a site listens for stays
            event.remove(engine, "engine_connect", listener)


def look_after(session: Session) -> None:
    """End the transactions of a session soon when nothing was changed in them, and at once when they broke."""
    loop = asyncio.get_running_loop()
    sent: set[Session] = set()  # the session, while a change that nobody has committed is with the server

    def end() -> None:
        if not session.in_transaction():
            return
        if sent or session.dirty or session.new or session.deleted:  # whoever is at it commits
            loop.call_later(OPEN_FOR_S, end)
            return
        try:
            session.commit()
        except SQLAlchemyError as error:
            LOG.warning("The database does not answer: %s", error)
            session.rollback()

    def begun(*_: object) -> None:
        loop.call_later(OPEN_FOR_S, end)

    def failed(context: Any) -> None:
        if context.is_disconnect:
            loop.call_soon(session.rollback)

    event.listen(session, "after_begin", begun)
    event.listen(session, "after_flush", lambda *_: sent.add(session))
    event.listen(session, "after_commit", sent.discard)
    event.listen(session, "after_rollback", sent.discard)
    event.listen(session.get_bind(), "handle_error", failed)
