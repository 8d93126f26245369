"""The addresses of the form: what is known of each choice now, and a link that fills the form in."""

from __future__ import annotations

import json
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers import default_handlers as api_handlers
from jupyterhub.handlers import BaseHandler
from jupyterhub.handlers import default_handlers as page_handlers
from jupyterhub.metrics import prometheus_log_method
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import get_browser_protocol, url_path_join
from tornado import web

from portal.errors import RequestError
from spawners import form
from spawners.choosing.offer import Offer
from spawners.choosing.pictures import PictureHandler

LONGEST = 100  # characters of one choice
LONGEST_PLACE = 1000  # of where a session opens


def offer_of(handler: Any, name: str) -> Offer:
    """The offer for a person.

    Raises:
        web.HTTPError: 404, there is nobody of that name, or nothing to choose.
    """
    user = handler.find_user(name)
    offer = getattr(user.spawner, "offer", None) if user else None
    if not isinstance(offer, Offer):
        raise web.HTTPError(404)
    return offer


class OutlookHandler(APIHandler):  # type: ignore[misc]
    """``GET /hub/api/dsportal/outlook/NAME``: free GPUs, and when each choice would start. It asks Slurm nothing."""

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def get(self, user_name: str) -> None:
        """Answer with the picture that all forms share; choices in the address are those of the form."""
        given = {key: values[-1].decode()[:LONGEST] for key, values in self.request.query_arguments.items() if values}
        outlook = await offer_of(self, user_name).outlook(given)
        link = form.fewer_link(outlook.request, outlook.fewer) if outlook.fewer else ""
        self.finish(json.dumps(outlook.as_json() | {"fewer_link": link}))

    def _log(self) -> None:
        """What an open page asks again and again is counted and not logged: of a thousand the log would be full."""
        if self.get_status() == 200:
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
            words = error.message
        else:
            opens = self.get_query_argument("next", "")
            is_ours = opens.startswith(self.base_url) and not opens.startswith("//") and len(opens) <= LONGEST_PLACE
            query = form.query(made, opens if is_ours else "")
            host = f"{get_browser_protocol(self.request)}://{self.request.host}"
            address = f"{host}{url_path_join(self.hub.base_url, 'spawn')}?{query}"
        self.finish(await self.render_template("link.html", address=address, fault=words))


def install() -> None:
    """Put the addresses where JupyterHub finds them; doing it twice changes nothing."""
    for known, route in (
        (api_handlers, (r"/api/dsportal/outlook/([^/]+)", OutlookHandler)),
        (api_handlers, (r"/api/dsportal/options/([^/]+)", OptionsHandler)),
        (page_handlers, (r"/dsportal/link/([^/]+)", LinkHandler)),
        (page_handlers, (r"/dsportal/picture/([^/]+)", PictureHandler)),
    ):
        if route not in known:
            known.append(route)
