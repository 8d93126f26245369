"""The doors by which a person's choices come in: form, link, REST and saved options, with one check behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from traitlets import Unicode, default
from traitlets.config import Configurable

from portal.errors import PortalError, RequestError
from portal.hub.auth import identity_of
from portal.request import SessionRequest, checked
from portal.site import Site, load
from spawners import form
from spawners.errors import StartRefused


@functools.cache
def the_site(path: str) -> Site:
    """The settings, read once."""
    return load(path)


class AsksPerson(Configurable):
    """A spawner that offers what the site offers this person, and checks whatever comes back."""

    site_file = Unicode("/etc/dsportal/site.toml", help="The settings file of the site.").tag(config=True)

    user: Any
    orm_spawner: Any

    @property
    def goes_on(self) -> bool:
        """True when a session is taken up that was allowed when it was asked for."""
        return False

    _refused: tuple[RequestError | None, SessionRequest | None] = (None, None)

    @property
    def site(self) -> Site:
        """The site's settings."""
        return the_site(self.site_file)

    async def get_options_form(self) -> str:
        """The form's fields: what was refused just now, or else the last choices."""
        error, entered = self._refused
        self._refused = (None, None)
        saved = entered or form.remembered(self.orm_spawner.user_options or {})
        return form.render(self.site, identity_of(self.user), saved=saved, error=error)

    @default("options_from_form")
    def _options_from_form(self) -> Callable[[Mapping[str, list[str]]], dict[str, object]]:
        return self.options_of_form

    def options_of_form(self, form_data: Mapping[str, list[str]]) -> dict[str, object]:
        """Options out of the form; what is not allowed is answered with 400 and the reason at its field."""
        self._refused = (None, form.entered(form_data))
        try:
            return self._checked(form.options(form_data)).as_options()
        except RequestError as error:
            self._refused = (error, form.entered(form_data))
            raise StartRefused(error) from error

    @default("apply_user_options")
    def _apply_user_options(self) -> Callable[[Any, Mapping[str, object]], None]:
        return self._apply_options

    def _apply_options(self, spawner: Any, options: Mapping[str, object]) -> None:
        """The check behind every door, before start() makes it once more."""
        if self.goes_on:
            return
        try:
            self._checked(options)
        except RequestError as error:
            raise StartRefused(error) from error

    def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, object]:
        """A link never starts anything: the form is shown instead, with the link's choices."""
        self.options_of_form(query_data)
        raise StartRefused(
            PortalError("A link cannot start a session by itself: check its choices below, then press Start.")
        )

    def _checked(self, options: Mapping[str, object]) -> SessionRequest:
        return checked(options, self.site, identity_of(self.user))
