"""The sessions that have ended on the home page and in the REST API, and who stopped one that runs."""

from __future__ import annotations

import time
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers.users import UserServerAPIHandler
from jupyterhub.handlers.pages import HomeHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import maybe_future, url_path_join
from sqlalchemy.exc import SQLAlchemyError
from tornado import web

from portal.language.texts import N_, _
from portal.session_state import TOLD_FOR_S, SessionState
from portal.sessions import ending, live, names, requests
from portal.sessions.requests import NamedRequests

NO_DATABASE = "The sessions that have ended cannot be read now: the hub's database does not answer."
OPTIONS_MAX = 8 * 1024  # of JSON
NESTED_MAX = 50  # objects and lists in it
NOT_AN_OBJECT = 'What is said of a session that is stopped is an object: {"remove": true}, or nothing.'
CHANGEABLE = {"name", "display_name", "user_options"}
UNTOLD = N_(
    "{name} has to read first that {who} entered this session. It can be stopped; "
    "{name} alone removes it until {days} days after that."
)
NOT_ALLOWED = "Your sessions are read with a login, or with a token that has the scope read:servers."


class HomePage(HomeHandler):  # type: ignore[misc]
    """The home page, with the sessions that have ended; with all that go on, where there may be several."""

    _fault = ""

    @web.authenticated
    async def get(self) -> None:
        """The page; with the name of a new session, its form."""
        several = getattr(self.current_user.spawner, "several", None)
        name = self.get_query_argument("name", None)
        if name is not None and several is not None and live.may_name(several):
            self._fault = several.fault_of(name) or several.no_room(name)
            if not self._fault:
                self.redirect(url_path_join(self.hub.base_url, "spawn", self.current_user.escaped_name, name))
                return
            self.set_status(400)
        await super().get()

    def render_template(self, name: str, sync: bool = False, **given: Any) -> Any:
        """The page itself waits for the list of ended ones; pages of errors have none."""
        if sync or name != "home.html":
            return super().render_template(name, sync, **given)
        return self._with_ended(name, given)

    async def _with_ended(self, name: str, given: dict[str, Any]) -> str:
        """Rows, ``None`` where they cannot be read; of a site's own spawner, and of the local mode, there are none."""
        spawner = self.current_user.spawner
        ended: list[object] | None = []
        usage: list[object] = []
        quotas: list[object] = []
        if hasattr(spawner, "ended_rows"):
            quotas = await spawner.quotas()
            try:
                ended = await spawner.ended_rows()
                usage = spawner.usage()
            except SQLAlchemyError as error:
                self.log.error("%s %s", NO_DATABASE, error)
                ended = None
        several = getattr(spawner, "several", None)
        if several is not None and several.is_own_rule:
            given["allow_named_servers"] = False  # JupyterHub's own page of them is not shown
        shown = live.shown(self.current_user, self._fault, self.get_query_argument("name", "")[: names.LONGEST])
        told = {"ended_sessions": ended, "usage": usage, "quotas": quotas, "several": shown}
        page: str = await super().render_template(name, False, **told, **given)
        return page


class OwnRecordsHandler(APIHandler):  # type: ignore[misc]
    """What the hub keeps of whoever asks."""

    name = ""  # of the list in the answer
    source = ""  # what the person's spawner calls it

    async def get(self) -> None:
        """Theirs alone: 403 for a token that may not read them, 503 while the database does not answer."""
        person = self.current_user
        if getattr(person, "kind", "") != "user" or not self.has_scope(f"read:servers!user={person.name}"):
            raise web.HTTPError(403, NOT_ALLOWED)
        try:
            found: Any = await maybe_future(getattr(person.spawner, self.source, list)())
        except SQLAlchemyError as error:
            self.log.error("%s %s", NO_DATABASE, error)
            raise web.HTTPError(503, NO_DATABASE) from error
        self.set_header("Content-Type", "application/json")
        self.write({self.name: [one.as_json() for one in found]})


class EndedSessionsHandler(OwnRecordsHandler):
    """``GET /hub/api/dsportal/sessions``: the sessions of whoever asks that have ended."""

    name = "sessions"
    source = "ended_records"


class UsageHandler(OwnRecordsHandler):
    """``GET /hub/api/dsportal/usage``: what their sessions used, this month and the last one."""

    name = "months"
    source = "usage"


class QuotasHandler(OwnRecordsHandler):
    """``GET /hub/api/dsportal/quotas``: how full their folders are, where the site has a command that says it."""

    name = "folders"
    source = "quotas"


class StoppedByHandler(NamedRequests, UserServerAPIHandler):  # type: ignore[misc]
    """JupyterHub's own, and the record of a session that is stopped says by whom. What it keeps and logs is short."""

    def get_json_body(self) -> Any:
        """What is changed: options, a title."""
        self._check_length()
        return super().get_json_body()

    def get_server_json_body(self) -> Any:
        """What is started."""
        self._check_length()
        return super().get_server_json_body()

    def _check_length(self) -> None:
        if len(self.request.body) > OPTIONS_MAX:
            raise web.HTTPError(413, f"The options of a session are at most {OPTIONS_MAX} bytes.")
        if sum(map(self.request.body.count, (b"[", b"{"))) > NESTED_MAX:
            raise web.HTTPError(400, "The options of a session are one JSON object of numbers and texts.")

    async def patch(self, user_name: str, server_name: str = "") -> None:
        """JupyterHub's own (6.1), which tells a wrong key with a traceback."""
        body = self.get_json_body()
        if not isinstance(body, dict) or not CHANGEABLE.issuperset(body):
            raise web.HTTPError(400, f"What is changed is an object with {', '.join(sorted(CHANGEABLE))} alone.")
        await super().patch(user_name, server_name)

    @needs_scope("delete:servers")  # type: ignore[untyped-decorator]
    async def delete(self, user_name: str, server_name: str = "") -> None:
        """JupyterHub's own (6.1), which fails at a body of another kind, and removes what a person has to read."""
        body = self.get_json_body() or {}
        if not isinstance(body, dict):
            raise web.HTTPError(400, NOT_AN_OBJECT)
        if self._removes():
            self._check_removed(user_name, server_name)
        await super().delete(user_name, server_name)

    def _removes(self) -> bool:
        return bool((self.get_json_body() or {}).get("remove"))

    def _check_removed(self, user_name: str, server_name: str) -> None:
        """Keep the words of who entered a session, which nobody but the person removes with it.

        Raises:
            web.HTTPError: 409, with until when they stay.
        """
        is_own = (self.current_user.kind, self.current_user.name) == ("user", user_name)
        user = self.find_user(user_name)
        row = user.orm_spawners.get(server_name) if user and not is_own else None
        if row and (untold := SessionState.from_json(row.state or {}).untold(time.time())):
            told = {"name": user_name, "who": untold[-1].who, "days": TOLD_FOR_S // 86400}
            raise web.HTTPError(409, _(UNTOLD).format(**told))

    async def stop_single_user(self, user: Any, server_name: str = "") -> Any:
        """Stop it; JupyterHub (6.1) comes here when who asks may do so, a second later where it was just started.

        Raises:
            web.HTTPError: 409 where it is started again or looked at just now; and for its second removal.
        """
        spawner = user.spawners.get(server_name)
        is_over = spawner is None or ending.is_ending(spawner)  # by this page, or by another one
        if (is_over and self._removes()) or (spawner and spawner.pending and not is_over):
            raise web.HTTPError(409, _(requests.BUSY))
        if spawner is None or spawner.pending == "stop":
            return spawner and spawner._stop_future
        if self._removes():
            self._check_removed(user.name, server_name)  # Slurm may have been asked meanwhile
        if hasattr(spawner, "note_stop"):
            spawner.note_stop(self.current_user.name)
        return None if is_over else await super().stop_single_user(user, server_name)


HANDLERS = (
    (r"/home", HomePage),
    (r"/api/dsportal/sessions", EndedSessionsHandler),
    (r"/api/dsportal/usage", UsageHandler),
    (r"/api/dsportal/quotas", QuotasHandler),
    (r"/api/users/([^/]+)/server", StoppedByHandler),
    (r"/api/users/([^/]+)/servers/([^/]*)", StoppedByHandler),
)
