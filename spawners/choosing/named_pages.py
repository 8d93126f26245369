"""The addresses of named choices: the page that lists, renames and removes them, and the same for programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers import default_handlers as api_handlers
from jupyterhub.handlers import BaseHandler
from jupyterhub.handlers import default_handlers as page_handlers
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import url_path_join
from sqlalchemy.exc import SQLAlchemyError
from tornado import web

from portal.errors import PortalError
from portal.language.texts import _
from portal.options.named import LONGEST, MOST, NamedChoices
from spawners import form, options
from spawners.choosing import profile_cards
from spawners.choosing.handlers import add, offer_of, own_place
from spawners.choosing.named import NO_DATABASE, OwnChoices


class NamedChoicesHandler:
    """What the pages and the calls share."""

    log: Any

    def _own(self, user_name: str) -> OwnChoices:
        return offer_of(self, user_name).named

    def _away(self, error: SQLAlchemyError) -> web.HTTPError:
        self.log.error("%s %s", NO_DATABASE, error)
        return web.HTTPError(503, _(NO_DATABASE))


class NamedChoicesPage(NamedChoicesHandler, BaseHandler):  # type: ignore[misc]
    """``/hub/dsportal/choices/NAME[/keep|/rename|/remove]``: a person's named choices, for pages without scripts."""

    @web.authenticated
    def get(self, user_name: str, action: str = "") -> Any:
        """The list."""
        return self._show(user_name=user_name)

    @web.authenticated
    def post(self, user_name: str, action: str = "") -> Any:
        """Ask for a name of the form's fields, or do what the address says; 400 with the page for what is refused."""
        return self._post(user_name=user_name, action=action or "")

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _show(self, user_name: str, asked: Any = None, fault: str = "", typed: str = "") -> None:
        """The page; with ``asked``, choices that have no name yet, with a field for one."""
        user = self.find_user(user_name)
        try:
            kept = self._own(user_name).kept
        except SQLAlchemyError as error:
            raise self._away(error) from error
        page = await self.render_template(
            "named_choices.html",
            rows=[(one.name, _words(one.options, user), self._form(user, one)) for one in kept],
            asked=asked or {},
            asked_words=_words(asked, user) if asked else "",
            fault=fault,
            typed=typed,
            most=MOST,
            longest=LONGEST,
            place=url_path_join(self.hub.base_url, "dsportal/choices", user.escaped_name),
            query=self._query(),
            form_place=self._back(user),
        )
        self.finish(page)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _post(self, user_name: str, action: str) -> None:
        try:
            if action:
                await self._do(user_name, action)
                return
            fields = {key: [value.decode() for value in values] for key, values in self.request.body_arguments.items()}
            asked = await offer_of(self, user_name).link(fields)
        except PortalError as error:
            self.set_status(400)
            told = {"fault": error.message, "typed": self.get_body_argument("name", "")}
            await self._show(user_name=user_name, asked=self._asked() if action == "keep" else None, **told)
        except SQLAlchemyError as error:
            raise self._away(error) from error
        else:
            await self._show(user_name=user_name, asked=asked)

    async def _do(self, user_name: str, action: str) -> None:
        own = self._own(user_name)
        name = self.get_body_argument("name", "", strip=False)
        if action == "keep":
            made = await own.keep(name, self._asked())
            self.redirect(self._form(self.find_user(user_name), made))
            return
        if action == "rename":
            own.rename(name, self.get_body_argument("new_name", "", strip=False))
        else:
            own.remove(name)
        self.redirect(self.request.path.rpartition("/")[0] + self._query())

    def _asked(self) -> dict[str, object]:
        """The choices that the page carries until they have a name."""
        fields = {key: values[-1].decode() for key, values in self.request.body_arguments.items()}
        return {key.removeprefix("opt-"): value for key, value in fields.items() if key.startswith("opt-")}

    def _query(self) -> str:
        return f"?{self.request.query}" if self.request.query else ""

    def _back(self, user: Any) -> str:
        """The form that the person came from, which may be that of a session with a name, or of one that waits."""
        hub = self.hub.base_url
        own = own_place(self, "back", f"{hub}spawn", f"{hub}dsportal/change/")
        return own or str(url_path_join(hub, "spawn", user.escaped_name))

    def _form(self, user: Any, one: NamedChoices) -> str:
        opens = own_place(self, "next", self.base_url)
        return f"{self._back(user)}?{form.query({'choice': one.name}, opens)}"


def _words(kept: Mapping[str, object], user: Any) -> str:
    """Choices in a few words."""
    return profile_cards.words(user.spawner.site, options.remembered(kept).as_options())


class NamedChoicesCall(NamedChoicesHandler, APIHandler):  # type: ignore[misc]
    """``/hub/api/dsportal/choices/NAME``: the same for programs, with the same check."""

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def get(self, user_name: str) -> None:
        """All of them."""

        async def read(own: OwnChoices) -> dict[str, object]:
            return {"choices": [one.as_json() for one in own.kept]}

        await self._answer(user_name, read)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def put(self, user_name: str) -> None:
        """Keep choices under a name, in the place of those that had it."""
        name, given = self._body(name=str, options=dict)

        async def keep(own: OwnChoices) -> dict[str, object]:
            return (await own.keep(name, given)).as_json()

        await self._answer(user_name, keep)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def patch(self, user_name: str) -> None:
        """Give one of them another name."""
        name, new_name = self._body(name=str, new_name=str)

        async def rename(own: OwnChoices) -> dict[str, object]:
            return own.rename(name, new_name).as_json()

        await self._answer(user_name, rename)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def delete(self, user_name: str) -> None:
        """Remove one of them, ``name`` in the address."""
        name = self.get_query_argument("name", strip=False)

        async def remove(own: OwnChoices) -> dict[str, object]:
            own.remove(name)
            return {"name": name}

        await self._answer(user_name, remove)

    async def _answer(self, user_name: str, work: Callable[[OwnChoices], Awaitable[dict[str, object]]]) -> None:
        try:
            answer = await work(self._own(user_name))
        except PortalError as error:
            raise web.HTTPError(400, error.message) from error
        except SQLAlchemyError as error:
            raise self._away(error) from error
        self.finish(json.dumps(answer))

    def _body(self, **kinds: type) -> list[Any]:
        """The values of the body, which has these keys alone."""
        body = self.get_json_body()
        is_right = isinstance(body, dict) and body.keys() == kinds.keys()
        if not is_right or not all(isinstance(body[key], kind) for key, kind in kinds.items()):
            keys = " and ".join(f"{key} ({'text' if kind is str else 'an object'})" for key, kind in kinds.items())
            raise web.HTTPError(400, f"The body is a JSON object with {keys} alone.")
        return [body[key] for key in kinds]


def install() -> None:
    """Put the addresses where JupyterHub finds them; doing it twice changes nothing."""
    add(api_handlers, (r"/api/dsportal/choices/([^/]+)", NamedChoicesCall))
    add(page_handlers, (r"/dsportal/choices/([^/]+)", NamedChoicesPage))
    add(page_handlers, (r"/dsportal/choices/([^/]+)/(keep|rename|remove)", NamedChoicesPage))
