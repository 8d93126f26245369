"""The handlers of JupyterHub that take the name of a session, with the portal's rules for names and numbers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from jupyterhub.handlers import BaseHandler
from jupyterhub.handlers.pages import SpawnHandler, SpawnPendingHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.slugs import is_valid_display_name, normalise_unicode
from jupyterhub.utils import url_path_join, utcnow
from tornado import web
from tornado.httputil import url_concat

from portal.addresses import path_of, without_names
from portal.language.texts import N_, _
from portal.options.named import COMPOSED_OF
from portal.sessions.ending import cancel_start, is_ending

KEEPS_ITS_NAME = "A session that runs, waits or is being started keeps its name. Stop it first."
NOT_A_NAME = "The name of a session is a text."
BUSY = N_(
    "Another page has just started, stopped or removed this session, or the portal looks whether it still runs. "
    "Nothing was done."
)
NOT_A_TITLE = "The title of a session is one line of 1 to 255 characters, with a single space between its words."
TITLE_MOST = 255
OF_LAYOUT = ("reset", "clone")  # as in portal.forwarding.session_paths


def is_held(row: Any) -> bool:
    """Whether a session runs, waits or is being started, by its row in JupyterHub's database."""
    return row is not None and bool(row.server or (row.state or {}).get("key"))


def _is_title(given: object) -> bool:
    """JupyterHub (6.1) looks at the titles of new sessions alone."""
    is_short = isinstance(given, str) and len(given) <= TITLE_MOST * COMPOSED_OF  # else it takes long to compose
    return is_short and is_valid_display_name(normalise_unicode(given))


class NamedRequests:
    """Before a handler that takes the name of a session."""

    path_args: list[str]
    find_user: Any
    request: Any

    @property
    def allow_named_servers(self) -> bool:
        """Where the site lets people have names; and for a session of before, when it does not any more."""
        return bool(super().allow_named_servers) or self._is_of_before()  # type: ignore[misc]

    def _is_of_before(self) -> bool:
        name, server = self._addressed
        user = self.find_user(name) if name and server else None
        return user is not None and is_held(user.orm_spawners.get(server))

    @property
    def _addressed(self) -> tuple[str, str]:
        """The person and the session of the address, as far as it names them."""
        name, server = (*self.path_args, "", "")[:2]
        return name or "", server or ""

    async def _check_named_server_request(
        self, user: Any, server_name: str, display_name: str, check_limit: bool = True
    ) -> None:
        """JupyterHub's own check, after the portal's: the name, and how many sessions this person may have.

        Raises:
            web.HTTPError: 400 for a name or a title, 409 where there are too many sessions.
        """
        if not isinstance(server_name, str):
            raise web.HTTPError(400, NOT_A_NAME)
        if display_name != server_name and not _is_title(display_name):
            raise web.HTTPError(400, NOT_A_TITLE)
        present = self._addressed[1]
        if self.request.method == "PATCH" and server_name != present and is_held(user.orm_spawners.get(present)):
            raise web.HTTPError(409, KEEPS_ITS_NAME)
        several = getattr(user.spawner, "several", None)
        if several is not None and not is_held(user.orm_spawners.get(server_name)):
            await self._check_new(several, server_name, check_limit)
        await super()._check_named_server_request(user, server_name, display_name, check_limit)  # type: ignore[misc]

    async def spawn_single_user(self, user: Any, server_name: str = "", *arguments: Any, **named: Any) -> None:
        """Start a session; JupyterHub (6.1) fails where another request has just begun to, or to stop it.

        Raises:
            web.HTTPError: 409 then.
        """
        spawner = user.spawners.get(server_name)
        if spawner is not None and spawner.pending:
            raise web.HTTPError(409, _(BUSY))
        await super().spawn_single_user(user, server_name, *arguments, **named)  # type: ignore[misc]

    async def _check_new(self, several: Any, server_name: str, check_limit: bool) -> None:
        if (server_name or several.is_offered) and (fault := several.fault_of(server_name)):
            raise web.HTTPError(400, fault)
        if several.is_offered:
            if check_limit and (words := several.no_room(server_name)):
                raise web.HTTPError(409, words)
            await several.forget_unused(server_name, is_look=self.request.method == "GET")


class LayoutKept:
    """Before a page that leads on to a session once it runs, and loads itself again until then.

    A session could not tell that from JupyterLab, which loads its own page again to put its layout away.
    """

    def get_next_url(self, user: Any = None, default: str | None = None) -> str:
        """Where it leads, with the layout that is saved."""
        return without_names(super().get_next_url(user, default), OF_LAYOUT)  # type: ignore[misc]


class SpawnPage(LayoutKept, NamedRequests, SpawnHandler):  # type: ignore[misc]
    """The form of the options; where JupyterHub (6.1) shows that of the session without a name, it is the right one."""

    @property
    def log(self) -> Any:
        """JupyterHub's, whose lines know whose session it is (:mod:`portal.guard.refusals`)."""
        asks = getattr(self, "_jupyterhub_user", None)  # JupyterHub's, which logs before it knows her
        path_args = getattr(self, "path_args", ())  # a form that Tornado refuses is refused before there are any
        whose = [one for one in path_args if one] or [getattr(asks, "name", "nobody")]
        return logging.LoggerAdapter(super().log, {"who": ":".join(whose)})

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _get(self, user_name: str, server_name: str, display_name: str) -> None:
        """The form; from a place in a session with a name, that of this session."""
        if not server_name and (named := self._named_in_next(user_name)):
            query = {name: self.get_query_arguments(name) for name in self.request.query_arguments}
            pairs = [(name, value) for name, values in query.items() for value in values]
            self.redirect(url_concat(url_path_join(self.hub.base_url, "spawn", user_name, named), pairs))
            return
        asks = self.current_user
        spawner = asks.spawners.get(server_name) if asks.name == user_name else None
        if spawner is not None and spawner.ready and getattr(spawner, "end_seen", None) is not None:
            # JupyterHub would lead back to a session that Slurm is just ending.
            await self.without_turn(spawner.end_seen)
        await super()._get(user_name=user_name, server_name=server_name, display_name=display_name)

    def _named_in_next(self, user_name: str) -> str:
        """The session that ``next`` leads to: JupyterLab's *Start Again* knows its place, and not its name."""
        user = self.find_user(user_name)
        path = path_of(self.get_query_argument("next", ""))
        if user is None or not self.allow_named_servers or not path.startswith(user.base_url):
            return ""
        named = path.removeprefix(user.base_url).partition("/")[0]
        return named if named in user.orm_spawners else ""

    async def _render_form(
        self, for_user: Any, spawner_options_form: str, message: str = "", html_message: str = ""
    ) -> str:
        """The page, with the form of the session that is meant."""
        name = next(iter(self.path_args[1:]), "") or ""
        spawner = for_user.spawners[name] if name in for_user.orm_spawners else for_user.spawner
        if name and self.request.method == "POST":  # refused: JupyterHub made the form of the other one
            spawner_options_form = await spawner.get_options_form()
        page: str = await self.render_template(
            "spawn.html",
            for_user=for_user,
            auth_state=await for_user.get_auth_state(),
            spawner_options_form=spawner_options_form,
            error_message=message,
            html_error_message=html_message,
            is_told=self.get_status() == 200,
            url=url_concat(self.request.uri, {"_xsrf": self.xsrf_token.decode("ascii")}),
            spawner=spawner,
        )
        return page


class PendingPage(LayoutKept, SpawnPendingHandler):  # type: ignore[misc]
    """The page of a start that takes longer: JupyterHub (6.1) leads to it after one second."""

    @web.authenticated
    async def get(self, user_name: str, server_name: str = "") -> None:
        """Wait until one's own start is ``slow_spawn_timeout`` seconds old: most are ready then, and need no page."""
        user = self.current_user
        spawner = user.spawners.get(server_name) if user.name == user_name else None
        if spawner is not None and spawner.pending == "spawn" and spawner._spawn_future:
            now = utcnow(with_tz=False)
            age_s = (now - (spawner.orm_spawner.started or now)).total_seconds()
            left_s = self.slow_spawn_timeout - max(0, age_s)  # a clock may have been set back
            await asyncio.wait([spawner._spawn_future], timeout=max(0, left_s))
        await super().get(user_name, server_name)


class StopPage(NamedRequests, BaseHandler):  # type: ignore[misc]
    """``POST /hub/dsportal/stop/NAME[/SESSION]``: stop a session, for pages without scripts."""

    @web.authenticated
    async def get(self, user_name: str, server_name: str = "") -> None:
        """A link stops nothing."""
        self.redirect(url_path_join(self.hub.base_url, "home"))

    @web.authenticated
    def post(self, user_name: str, server_name: str = "") -> Any:
        """Stop it, and show the home page."""
        return self._post(user_name=user_name, server_name=server_name or "")

    @needs_scope("delete:servers")  # type: ignore[untyped-decorator]
    async def _post(self, user_name: str, server_name: str) -> None:
        user = self.find_user(user_name)
        spawner = user.spawners.get(server_name) if user else None
        if spawner is None:
            raise web.HTTPError(404)
        await cancel_start(spawner, self.current_user.name)
        if spawner.pending and not is_ending(spawner):
            raise web.HTTPError(409, _(BUSY))
        if spawner.active and not spawner.pending:
            await self.stop_single_user(user, server_name)
        self.redirect(url_path_join(self.hub.base_url, "home"))


HANDLERS = (
    (r"/spawn", SpawnPage),
    (r"/spawn/([^/]+)", SpawnPage),
    (r"/spawn/([^/]+)/([^/]+)", SpawnPage),
    (r"/spawn-pending/([^/]+)", PendingPage),
    (r"/spawn-pending/([^/]+)/([^/]+)", PendingPage),
    (r"/dsportal/stop/([^/]+)", StopPage),
    (r"/dsportal/stop/([^/]+)/([^/]+)", StopPage),
)
