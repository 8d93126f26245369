"""The named choices of one person: kept in the hub's database, checked as any others, shown as links above the form."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError

from portal.databases import named_choices as store
from portal.language.texts import N_
from portal.options import named
from portal.options.named import Kept, NamedChoices
from portal.site import Site
from spawners import form

NO_DATABASE = N_("Named choices cannot be read or kept now: the hub's database does not answer. Try again in a minute.")
LOG = logging.getLogger(__name__)
Check = Callable[[Mapping[str, object]], Awaitable[dict[str, object]]]


class OwnChoices:
    """The choices that the person of a spawner keeps under names.

    Everything here raises ``SQLAlchemyError`` where the hub's database does not answer.
    """

    def __init__(self, user: Any, check: Check) -> None:
        self._user = user
        self._check = check

    @property
    def kept(self) -> Kept:
        """All of them, the oldest first."""
        return named.from_text(store.of_person(self._user.db, self._user.id))

    async def keep(self, name: str, options: Mapping[str, object]) -> NamedChoices:
        """Keep choices under a name, in the place of those that had it.

        Raises:
            NameRefused: the name is not possible, or there are too many.
            RequestError: the choices are not.
        """
        checked = await self._check(options)
        self._save(named.with_choices(self.kept, name, checked))
        return named.find(self.kept, named.name_of(name))

    def rename(self, name: str, new_name: str) -> NamedChoices:
        """Give one of them another name.

        Raises:
            NameRefused: there is none of the old name, or the new one is not possible.
        """
        self._save(named.renamed(self.kept, name, new_name))
        return named.find(self.kept, named.name_of(new_name))

    def remove(self, name: str) -> None:
        """Remove one of them.

        Raises:
            NameRefused: there is none of that name.
        """
        self._save(named.without(self.kept, name))

    def _save(self, kept: Kept) -> None:
        store.keep(self._user.db, self._user.id, named.to_text(kept))


def links(own: OwnChoices, site: Site, person: str, opens: str) -> str:
    """The named choices as HTML above the form; nothing where there are none, or the database does not answer.

    Arguments:
        opens: where the session shall open, which the links keep.
    """
    try:
        kept = own.kept
    except SQLAlchemyError as error:
        LOG.error("The form comes without named choices: the hub's database does not answer: %s", error)
        return ""
    if not kept:
        return ""
    told = [(one.name, f"?{form.query({'choice': one.name}, opens)}") for one in kept]
    page = f"{site.portal.base_url}hub/dsportal/choices/{quote(person)}"
    return form.filled("named_links.html", choices=told, page=page)
