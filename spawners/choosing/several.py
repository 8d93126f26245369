"""The sessions of one person together: how many there may be, and what they are called."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any
from urllib.parse import quote

from jupyterhub.utils import maybe_future

from portal.errors import PortalError
from portal.language.texts import _, ngettext
from portal.session_state import SessionState
from portal.sessions import names
from portal.sessions.requests import is_held
from portal.site import Site
from spawners import options
from spawners.errors import StartRefused

NAMES_KEPT = 20  # of a person; that which was unused for longest goes for a new one


class SeveralSessions:
    """The sessions of the person of one spawner."""

    def __init__(self, user: Any, site: Site) -> None:
        self._user = user
        self._site = site

    @property
    def is_offered(self) -> bool:
        """Whether this site lets anybody have more than one."""
        return self._site.has_several_sessions

    @property
    def is_own_rule(self) -> bool:
        """Whether the number is the portal's to say: a file of ``extra_config`` may have left it to JupyterHub's."""
        return self.is_offered or not self._user.settings.get("allow_named_servers", False)

    @property
    def most(self) -> int:
        """How many this person may have at the same time."""
        return self._site.sessions_max(options.identity_of(self._user, self._site))

    @property
    def held(self) -> list[str]:
        """The names of those that run, wait or are being started; ``""`` is the one without a name."""
        return sorted(row.name for row in self._user._orm_spawners if is_held(row))

    @property
    def known(self) -> list[str]:
        """The names of all that have a row, those that have ended as well."""
        return sorted(row.name for row in self._user._orm_spawners)

    def fault_of(self, name: str) -> str:
        """What is wrong with a name, in words; ``""`` where nothing is."""
        return names.fault(name)

    def no_room(self, name: str) -> str:
        """Why no session of this name can be started beside the others, in words; ``""`` where it can."""
        if not self.is_own_rule:
            return ""
        others = [one for one in self.held if one != name]
        if len(others) < self.most:
            return ""
        called = ", ".join(_("“{name}”").format(name=one) if one else _("the one without a name") for one in others)
        words = ngettext(
            "You have a session already ({called}), and may have {most} at a time. Stop one to start another.",
            "You have {number} sessions already ({called}), and may have {most} at a time. Stop one to start another.",
            len(others),
        )
        return words.format(number=len(others), called=called, most=self.most)

    def check_room(self, name: str) -> None:
        """The one check of the number, behind every door.

        Raises:
            StartRefused: there is no room for one more.
        """
        if words := self.no_room(name):
            raise StartRefused(PortalError(words), status_code=409)

    async def forget_unused(self, name: str, is_look: bool) -> None:
        """Make room for a new name among those that are known: each form that was looked at has left one.

        Arguments:
            is_look: whether a form is looked at, to which a link may have led: nothing that ever ran goes for that.
        """
        rows = [row for row in self._user._orm_spawners if row.name]
        if name in self.known:
            return
        now = time.time()
        unused = [row for row in rows if not is_held(row) and not self._is_busy(row.name) and not _untold(row, now)]
        if is_look:
            unused = [row for row in unused if row.last_activity is None]
        unused.sort(key=lambda row: (row.last_activity is not None, row.last_activity or 0, row.id))
        for row in unused[: max(0, len(rows) + 1 - NAMES_KEPT)]:
            await maybe_future(self._user._delete_spawner(self._user.spawners[row.name]))
            self._user.spawners.pop(row.name, None)
            self._user.db.delete(row)
        self._user.db.commit()

    def _is_busy(self, name: str) -> bool:
        return name in self._user.spawners and bool(self._user.spawners[name].active)


def _untold(row: Any, now: float) -> bool:
    """Whether somebody entered this session, which its person has to read."""
    return bool(SessionState.from_json(row.state or {}).untold(now))


class NamedSession:
    """What a spawner knows of its session's name; before JupyterHub's own."""

    name: str  # these are JupyterHub's
    user: Any

    def __init__(self, *others: Any, **given: Any) -> None:
        """Have a client id that is nobody else's.

        JupyterHub's (6.1) for the session ``b`` of the person ``a`` is that of the person ``a-b``. No quoted name has
        a ``+``, and a cookie's name may.
        """
        row = given.get("orm_spawner")
        if row is not None and row.name:
            given["oauth_client_id"] = f"jupyterhub-user-{quote(given['user'].name)}+{row.name}"
        super().__init__(*others, **given)

    @property
    def site(self) -> Site:
        """The site's settings."""
        raise NotImplementedError

    @cached_property
    def several(self) -> SeveralSessions:
        """The sessions of this person together."""
        return SeveralSessions(self.user, self.site)
