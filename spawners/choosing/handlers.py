"""The addresses of the form: what is known of each choice now, and a link that fills the form in."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers import default_handlers as api_handlers
from jupyterhub.handlers import BaseHandler
from jupyterhub.handlers import default_handlers as page_handlers
from jupyterhub.metrics import prometheus_log_method
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import get_browser_protocol, url_path_join
from tornado import web

from portal.errors import RequestError, SlurmUnavailable
from portal.forecasts import turns
from portal.language.texts import _
from portal.sessions.requests import NamedRequests
from spawners import form
from spawners.choosing.change import PLACE_IS_LOST
from spawners.choosing.offer import CHOICE, LONGEST_PLACE, Offer
from spawners.choosing.pictures import PictureHandler
from spawners.errors import StartRefused

LONGEST = 100  # characters of one choice


def offer_of(handler: Any, name: str, session: str = "") -> Offer:
    """The offer for a person, of the session with that name.

    Raises:
        web.HTTPError: 404, there is nobody of that name, no such session, or nothing to choose.
    """
    user = handler.find_user(name)
    spawner = user.spawners.get(session) if user and session else user and user.spawner
    offer = getattr(spawner, "offer", None)
    if not isinstance(offer, Offer):
        raise web.HTTPError(404)
    return offer


def own_place(handler: Any, name: str, *beginnings: str) -> str:
    """An address of the portal's own out of a request's query; ``""`` for any that does not begin so."""
    place: str = handler.get_query_argument(name, "")
    is_ours = place.startswith(beginnings) and not place.startswith("//") and len(place) <= LONGEST_PLACE
    return place if is_ours and _stays(place) else ""


def _stays(place: str) -> bool:
    """Whether a browser goes where an address seems to lead: it follows ``..`` and ``%2e``; ``\\`` is a ``/`` to it."""
    path = unquote(re.split(r"[?#]", place, maxsplit=1)[0])
    return place.isprintable() and "\\" not in path and {".", ".."}.isdisjoint(path.split("/"))


class OutlookHandler(APIHandler):  # type: ignore[misc]
    """``GET /hub/api/dsportal/outlook/NAME[/SESSION]``: free GPUs, and when each choice would start.

    What a person's page shows is kept as what was said of that session; Slurm is asked what nobody waits for.
    """

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def get(self, user_name: str, server_name: str = "") -> None:
        """Answer with the picture that all forms share; choices in the address are those of the form.

        Where Slurm's own word on a choice is known, it is there as well.
        One look at a time for whoever asks, so that nobody keeps the others waiting: beside it 429, at once.
        """
        given = {key: values[-1].decode()[:LONGEST] for key, values in self.request.query_arguments.items() if values}
        try:
            outlook = await offer_of(self, user_name, server_name).outlook(
                given, f"{self.current_user.kind} {self.current_user.name}"
            )
        except turns.LookBusyError as error:
            self.set_status(429)
            self.set_header("Retry-After", str(turns.AGAIN_AFTER_S))
            self.finish(json.dumps({"status": 429, "message": str(error)}))
            return
        link = form.fewer_link(outlook.request, outlook.fewer) if outlook.fewer else ""
        self.finish(json.dumps(outlook.as_json() | {"fewer_link": link}))

    def _log(self) -> None:
        """What an open page asks again and again is counted and not logged: of a thousand the log would be full."""
        if self.get_status() in (200, 429):
            prometheus_log_method(self)
        else:
            super()._log()


class OptionsHandler(APIHandler):  # type: ignore[misc]
    """``GET /hub/api/dsportal/options/NAME``: what a person may choose, as a JSON schema."""

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def get(self, user_name: str) -> None:
        """The schema of the options that start a session."""
        told = await offer_of(self, user_name).schema()
        self.set_header("Content-Type", "application/schema+json")
        self.finish(json.dumps(told))


class LinkHandler(BaseHandler):  # type: ignore[misc]
    """``POST /hub/dsportal/link/NAME``: the choices of a form as a link. Nothing is started or kept."""

    @web.authenticated
    async def get(self, user_name: str) -> None:
        """The form makes the link: back to it."""
        self.redirect(url_path_join(self.hub.base_url, "spawn"))

    @web.authenticated
    def post(self, user_name: str) -> Any:
        """The page with the link; 400 and the reason where the choices are not possible."""
        return self._post(user_name=user_name)

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _post(self, user_name: str) -> None:
        given = {key: [value.decode() for value in values] for key, values in self.request.body_arguments.items()}
        words = ""
        address = ""
        try:
            made = await offer_of(self, user_name).link(given)
        except RequestError as error:
            self.set_status(400)
            words = _(error.message)
        else:
            query = form.query(made, own_place(self, "next", self.base_url))
            host = f"{get_browser_protocol(self.request)}://{self.request.host}"
            address = f"{host}{url_path_join(self.hub.base_url, 'spawn')}?{query}"
        self.finish(await self.render_template("link.html", address=address, fault=words))


class ChangeHandler(NamedRequests, BaseHandler):  # type: ignore[misc]
    """``/hub/dsportal/change/NAME[/SESSION]``: the form of a session that waits, filled in with what it waits for."""

    @web.authenticated
    def get(self, user_name: str, server_name: str = "") -> Any:
        """Show the form; of a session that does not wait, where it is now."""
        return self._get(user_name=user_name, server_name=server_name or "")

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _get(self, user_name: str, server_name: str) -> None:
        spawner = self._spawner(user_name, server_name)
        try:
            waits = await spawner.change.is_possible()
        except SlurmUnavailable as error:
            raise web.HTTPError(503, _(error.message)) from error
        opt = {key: values[-1].decode()[:LONGEST] for key, values in self.request.query_arguments.items() if values}
        chosen = {key.removeprefix("opt-"): value for key, value in opt.items() if key.startswith("opt-")}
        if not waits:  # what is chosen fills in no form that is shown later
            self.redirect(self._where(spawner))
            return
        words = ""
        if CHOICE in chosen:
            words = await spawner.offer.fill_in_named(chosen[CHOICE])
        elif chosen:
            spawner.offer.fill_in(chosen)
        self.finish(await self._form(spawner, words))

    @web.authenticated
    def post(self, user_name: str, server_name: str = "") -> Any:
        """Change the request, and lead to the waiting page; otherwise the form, or why there is nothing to change."""
        return self._post(user_name=user_name, server_name=server_name or "")

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def _post(self, user_name: str, server_name: str) -> None:
        spawner = self._spawner(user_name, server_name)
        if spawner.change.is_going:  # a double click
            self.redirect(self._where(spawner))
            return
        given = {key: [value.decode() for value in values] for key, values in self.request.body_arguments.items()}
        try:
            await spawner.change_request(given, self)
        except StartRefused as error:
            if error.status_code == 409:
                raise web.HTTPError(409, error.jupyterhub_message) from error
            self.set_status(error.status_code)
            if error.status_code == 429:
                self.set_header("Retry-After", str(turns.AGAIN_AFTER_S))
            self.finish(await self._form(spawner, error.jupyterhub_message))
            return
        self.redirect(self._where(spawner))

    def _spawner(self, user_name: str, server_name: str) -> Any:
        user = self.find_user(user_name)
        spawner = user.spawners.get(server_name) if user else None
        if spawner is None or not hasattr(spawner, "change_request"):
            raise web.HTTPError(404)
        return spawner

    def _where(self, spawner: Any) -> str:
        """The waiting page, which leads on when the session runs; where none is starting, the home page."""
        if not spawner.pending:
            return str(url_path_join(self.hub.base_url, "home"))
        return str(url_path_join(self.hub.base_url, "spawn-pending", spawner.user.escaped_name, spawner.name))

    async def _form(self, spawner: Any, words: str = "") -> str:
        page: str = await self.render_template(
            "spawn.html",
            for_user=spawner.user,
            spawner_options_form=await spawner.get_options_form(),
            error_message=words,
            is_told=self.get_status() == 200,
            url=self.request.path,
            spawner=spawner,
            changes=_(PLACE_IS_LOST),
            waiting_page=self._where(spawner),
        )
        return page


def install() -> None:
    """Put the addresses where JupyterHub finds them."""
    for known, route in (
        (api_handlers, (r"/api/dsportal/outlook/([^/]+)", OutlookHandler)),
        (api_handlers, (r"/api/dsportal/outlook/([^/]+)/([^/]+)", OutlookHandler)),
        (api_handlers, (r"/api/dsportal/options/([^/]+)", OptionsHandler)),
        (page_handlers, (r"/dsportal/link/([^/]+)", LinkHandler)),
        (page_handlers, (r"/dsportal/change/([^/]+)", ChangeHandler)),
        (page_handlers, (r"/dsportal/change/([^/]+)/([^/]+)", ChangeHandler)),
        (page_handlers, (r"/dsportal/picture/([^/]+)", PictureHandler)),
    ):
        add(known, route)


def add(known: list[Any], route: tuple[str, type]) -> None:
    """Put one address where JupyterHub finds it; doing it twice changes nothing."""
    if route not in known:
        known.append(route)
