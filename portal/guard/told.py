"""What stands before each handler of the hub so that no failure is without words, and none without a line in the log.

The words are those of :mod:`portal.guard.failures`; :func:`portal.guard.pages.stand_before` puts this in front.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from jupyterhub import log as hub_log
from jupyterhub.apihandlers import APIHandler
from jupyterhub.handlers.pages import ProxyErrorHandler
from jupyterhub.user import User
from sqlalchemy.exc import SQLAlchemyError
from tornado import web

from portal.addresses import path_of
from portal.guard.failures import (
    HUB_IS_BACK,
    LONGEST_MESSAGE,
    SESSION_SILENT,
    completed,
    failure_of,
    in_plain_text,
    new_id,
    plain,
    said_by,
    start_failure,
)
from portal.guard.texts import check_bytes, refused
from portal.language.texts import N_

LONGEST_PATH = 200  # characters of an address in the log
STOPPED = N_("This session was stopped while it started.")
log = logging.getLogger(__name__)
# What JupyterHub (6.1, log.py) hides of an address that it logs has no password among it.
hub_log.SCRUB_PARAM_KEYS = (*hub_log.SCRUB_PARAM_KEYS, "pass", "Pass", "PASS", "pwd", "secret", "Secret", "SECRET")


class Told:
    """Before a handler: the log knows each of its failures by the id that the answer has."""

    request: Any
    _finished: bool
    failure_id = ""

    def tell(self, status: int, error: BaseException | None = None, words: str = "") -> str:
        """Have a line of the log name this answer, unless one does; answers the id.

        Arguments:
            error: what was raised, if anything was.
            words: what it is about, where nothing was raised.
        """
        if not self.failure_id:
            self.failure_id = new_id()
            where = (self.failure_id, status, self.request.method, self.request.path[:LONGEST_PATH])
            if error is None or isinstance(error, web.HTTPError):
                said = error.get_message() if isinstance(error, web.HTTPError) else words
                log.warning("Failure %s: %s %s %s: %s", *where, (said or "")[:LONGEST_MESSAGE])
            else:
                trace = (type(error), error, error.__traceback__)
                log.error("Failure %s: %s %s %s", *where, exc_info=trace)
        return self.failure_id

    def _log(self) -> None:
        """Of a fault all headers are logged; JupyterHub (6.1) hides neither a form's token nor a query in them."""
        for name in ("X-Xsrftoken", "X-Csrftoken"):
            self.request.headers.pop(name, None)
        if "Referer" in self.request.headers:
            self.request.headers["Referer"] = self.request.headers["Referer"].partition("?")[0]
        super()._log()  # type: ignore[misc]

    async def spawn_single_user(self, *arguments: Any, **named: Any) -> None:
        """Start a session. A stop that comes meanwhile cancels the start, and whoever waits for it still is told so."""
        try:
            await super().spawn_single_user(*arguments, **named)  # type: ignore[misc]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task and task.cancelling():  # it is this request itself that ends
                raise
            if self._finished:  # JupyterHub (6.1) waits for a second, and then leads to the page that waits
                return
            raise refused(409, STOPPED) from error
        except Exception:
            if not self._finished:
                raise
            log.debug("A start failed, and nobody waits for it", exc_info=True)

    def log_exception(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Log what a handler has raised, with the path alone: its query may hold a secret."""
        status = error.status_code if isinstance(error, web.HTTPError) else 500
        if self.failure_id or error is None or (isinstance(self, APIHandler) and status < 500):
            super().log_exception(kind, error, trace)  # type: ignore[misc]
        else:
            self.tell(status, error)


class ToldCall(Told):
    """Before a handler of the REST API: no failure is without a message, and the hub's own has the id in its JSON."""

    _failing = 0

    def write_error(self, status_code: int, **told: Any) -> None:
        """JupyterHub's JSON, completed."""
        self._failing = status_code
        if status_code >= 500:
            self.tell(status_code, raised(told))
        super().write_error(status_code, **told)  # type: ignore[misc]

    def write(self, chunk: Any) -> None:
        """Write; what a failure says is completed."""
        super().write(completed(chunk, self._failing, self.failure_id) if self._failing else chunk)  # type: ignore[misc]


class ToldProgress(ToldCall):
    """Before the events of a start: the one that tells its failure says all that a page of a failure does."""

    find_user: Callable[[str], Any]
    current_user: Any
    path_args: list[str]
    db: Any
    has_scope: Callable[[str], bool]
    refresh_auth: Any
    _is_valid_still: Callable[[], bool]
    _resolve_roles_and_scopes: Callable[[], None]

    def flush(self, *arguments: Any, **named: Any) -> Awaitable[None]:
        """Send what there is, an event or the sign that more may come, while the login goes on with which this came.

        Otherwise the connection is closed, as where a client goes: what JupyterHub (6.1) does for this ends by that.
        """
        if getattr(self, "_jupyterhub_user", None) is not None and self._has_ended():
            self.request.connection.stream.close()
        flushed: Awaitable[None] = super().flush(*arguments, **named)  # type: ignore[misc]
        return flushed

    def _has_ended(self) -> bool:
        """Whether the login, or the token, has ended; while the database is away none has."""
        try:
            return not self._is_valid_still()
        except SQLAlchemyError:
            self.db.rollback()
            return False

    async def _may_hear(self) -> bool:
        """Whether who asks may know of this start still: of somebody else's only by a right, which may end."""
        name, *server = self.path_args
        asking = self.current_user
        is_person = isinstance(asking, User)
        if is_person and asking.name == name:
            return True
        vars(self).pop("_refreshed_users", None)
        try:
            if is_person and await self.refresh_auth(asking) is None:
                return False
            self._resolve_roles_and_scopes()
            return self.has_scope(f"read:servers!server={name}/{''.join(server)}")
        except SQLAlchemyError:  # it is away
            self.db.rollback()
            return True

    async def send_event(self, event: dict[str, Any]) -> None:
        """Send one, to who may hear it; JupyterHub (6.1) puts whatever was raised into its message."""
        if not await self._may_hear():
            self.request.connection.stream.close()
            raise web.Finish
        error = self._of_start() if event.get("failed") else None
        if error is not None:
            status = error.status_code if isinstance(error, web.HTTPError) else 500
            failure = start_failure(status, str(getattr(error, "reason", "")))
            told = {"turn": failure.turn, "advice": failure.advice, "id": self.tell(status, error)}
            if key := getattr(self._spawner(), "ended_key", ""):
                told["record"] = key
            said = said_by(error, is_own=_is(self.current_user, self.find_user(self.path_args[0])))
            event = {**event, "message": f"Spawn failed: {said or failure.happened}", **told}
        await super().send_event(event)  # type: ignore[misc]

    def _of_start(self) -> BaseException | None:
        return _of_last_start(self._spawner())

    def _spawner(self) -> Any:
        name, *server = self.path_args
        user = self.find_user(name)
        return user.spawners[server[0] if server else ""] if user else None


class ToldFile(Told):
    """Before what sends files: plain words for who has mistyped an address."""

    set_header: Callable[[str, str], None]
    write: Callable[[str], None]

    def prepare(self) -> None:
        """No file's name has what is no text."""
        check_bytes(unquote_to_bytes(self.request.path))
        super().prepare()  # type: ignore[misc]

    def write_error(self, status_code: int, **told: Any) -> None:
        """Words instead of a number."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.write(in_plain_text(status_code, self.tell(status_code, raised(told))))


class ToldPage(Told):
    """Before a handler of pages: whatever tells a failure has its words and its id."""

    settings: dict[str, Any]
    current_user: Any
    set_header: Callable[[str, str], None]
    set_status: Callable[[int], None]
    get_status: Callable[[], int]
    write: Callable[[str], None]

    def write_error(self, status_code: int, **told: Any) -> None:
        """The page of the failure; plain words where that page cannot be made, with the database away for one."""
        failure_id = self.tell(status_code, raised(told))
        try:
            super().write_error(status_code, **told)  # type: ignore[misc]
        except Exception:
            log.exception("Failure %s: its page could not be made", failure_id)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.write(in_plain_text(status_code, failure_id))

    def render_template(self, name: str, **names: Any) -> Any:
        """Render one of JupyterHub's pages; one that tells a failure gets what there is to say."""
        if "status_code" in names:
            names |= self._of_failure(names)
        elif name == "not_running.html" and names.get("failed"):
            is_own = _is(self.current_user, names.get("user"))
            names |= self._of_start(self.get_status(), names.get("exception"), is_own=is_own)
        elif name == "spawn.html" and names.get("error_message"):
            names |= self._of_refusal(names)
        return super().render_template(name, **names)  # type: ignore[misc]

    def _of_failure(self, names: Mapping[str, Any]) -> dict[str, Any]:
        status = names["status_code"]
        message = plain(str(names.get("message") or ""))
        if not isinstance(self, ProxyErrorHandler):
            return {"failure": failure_of(status), "failure_id": self.tell(status), "message": message}
        url = self.get_query_argument("url", "")
        asked = path_of(url)[:LONGEST_PATH]
        failure_id = self.tell(status, words=f"the proxy asks for this page, for who asked for {asked}")
        failure = failure_of(status)
        loads_again = status == 503 and not url.startswith("//") and self._is_of_hub(asked)
        if status == 503:
            failure = (HUB_IS_BACK if loads_again else SESSION_SILENT).shown
        return {"failure": failure, "failure_id": failure_id, "message_html": "", "loads_again": loads_again}

    def _is_of_hub(self, asked: str) -> bool:
        """Whether the proxy did not reach the hub itself: it did a moment later, for this page."""
        of_sessions = [f"{self.settings['base_url']}{place}/" for place in ("user", "services")]
        return bool(asked) and not asked.startswith(tuple(of_sessions))

    def _of_start(self, status: int, error: BaseException | None, *, is_own: bool) -> dict[str, Any]:
        failure = start_failure(status, str(getattr(error, "reason", "")))
        said = said_by(error, is_own=is_own)
        return {"failure": failure, "failure_id": self.tell(status, error), "failed_message": said}

    def _of_refusal(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The form once more: what is the person's own to mend stands at its field, and is no failure."""
        spawner = names.get("spawner")
        is_own = _is(self.current_user, getattr(spawner, "user", None))
        refused = sys.exc_info()[1]  # JupyterHub (6.1, SpawnHandler) makes this page while it handles the refusal
        if self.get_status() < 500 and (refused is None or isinstance(refused, web.HTTPError)):
            return {}
        if hasattr(refused, "jupyterhub_message"):  # other words for 500 are JupyterHub's own, for what was no answer
            return self._of_start(self.get_status(), refused, is_own=is_own)
        self.set_status(500)
        of_start = self._of_start(500, _of_last_start(spawner) or refused, is_own=is_own)
        return {**of_start, "error_message": of_start["failure"].happened}


def _of_last_start(spawner: Any) -> BaseException | None:
    """What ended a start: JupyterHub hides it behind an error of its own."""
    start = getattr(spawner, "_spawn_future", None)
    if start is None or not start.done() or start.cancelled():
        return None
    error: BaseException | None = start.exception()
    return error


def _is(asking: Any, person: Any) -> bool:
    """Whether who asks is that person."""
    return asking is not None and person is not None and asking.name == person.name


def raised(told: Mapping[str, Any]) -> BaseException | None:
    """The exception among what Tornado tells ``write_error``."""
    found: BaseException | None = (told.get("exc_info") or (None, None))[1]
    return found
