"""How an administrator enters somebody's session: with a reason that the person reads, for an hour, and not in secret.

It is off unless the site sets ``portal.admin_access``. Access is JupyterHub's own sharing of this one server; it is
taken back after an hour, with the session, and with the role of who has entered. Before it is given, it is in the hub's
log and on the person's page.
"""

from __future__ import annotations

import asyncio
import json
import logging
import unicodedata
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from jupyterhub import orm
from jupyterhub.handlers import BaseHandler
from jupyterhub.utils import utcnow
from sqlalchemy import or_
from tornado import web

from portal.administration import again
from portal.administration.role import has_role
from portal.journal import KEPT
from portal.language.texts import N_, _
from portal.session_state import SessionState

log = logging.getLogger(__name__)
SETTING = "dsportal_admin_access"  # its key in JupyterHub's settings
LASTS = timedelta(hours=1)
TAKEN_BACK_EVERY_S = 4.0  # and a session's server believes for 25 s what the hub has said
GROUPS_WITHIN_S = 0.5  # a directory that is slower is heard in the next look: hours end all the same
LONGEST_REASON = 500
BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"  # to Unicode letters and signs, and nothing is drawn for them
ENTRIES_MOST = 100  # into one session: each is kept, and shown to its person
STATE_MOST = 50_000  # bytes of what a session knows, where one more entry still goes into the 64 KiB that MariaDB keeps
TOO_OFTEN = N_("This session was entered {number} times already. It can be stopped; its person can start another one.")
OFF = N_(
    "Entering other people's sessions is off here. The site's settings can allow it (portal.admin_access); "
    "then the person reads who entered, and why."
)


def read_reason(text: str) -> str:
    """The reason as it is kept and shown: one line of plain text.

    Raises:
        ValueError: it is empty, too long, or has characters that are no text, or none that can be read.
    """
    reason = text.strip()
    if not 1 <= len(reason) <= LONGEST_REASON:
        words = _("The reason has {number} characters; it needs 1 to {most}.")
        raise ValueError(words.format(number=len(reason), most=LONGEST_REASON))
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in reason):
        raise ValueError(_("The reason is one line of plain text, without control characters."))
    if not any(character.isalnum() and character not in BLANK_LETTERS for character in reason):
        raise ValueError(_("The reason has no letter that can be read."))
    return reason


def check_room(spawner: Any) -> None:
    """Look whether one more entry can be kept.

    Arguments:
        spawner: the row of the session.

    Raises:
        again.Refused: 409, nobody would read so many.
    """
    state = spawner.state or {}
    number = len(SessionState.from_json(state).entries)
    if number >= ENTRIES_MOST or len(json.dumps(state)) > STATE_MOST:
        raise again.Refused(409, _(TOO_OFTEN).format(number=number))


class EnterHandler(BaseHandler):  # type: ignore[misc]
    """``/hub/dsportal/enter/NAME[/SESSION]``: asks for the reason, and leads into the session."""

    def initialize(self, address_of: Callable[[Any], str]) -> None:
        """Take what says which address a request comes from."""
        self._address_of = address_of

    @web.authenticated
    async def get(self, name: str, server: str = "") -> None:
        """Ask for the reason."""
        spawner = self._spawner(name, server)
        if again.is_fresh(self, again.FOR_ADMINISTRATORS_S):
            await self._show(spawner)
        else:
            again.ask(self)

    @web.authenticated
    async def post(self, name: str, server: str = "") -> None:
        """Enter: note it, tell it, then give access."""
        spawner = self._spawner(name, server)
        again.check(self)
        check_room(spawner.orm_spawner)
        try:
            reason = read_reason(self.get_body_argument("reason", "", strip=False))
        except ValueError as error:
            self.set_status(400)
            await self._show(spawner, str(error))
            return
        who = self.current_user
        where = self._address_of(self.request)
        said = "%s, an administrator, enters the session of %s from %s: %s"
        self.log.warning(said, who.name, name, where, reason, extra=KEPT)
        spawner.note_entry(who.name, reason)
        grant(self.db, spawner.orm_spawner, who.orm_user)
        self.redirect(spawner.user.server_url(server))

    def _spawner(self, name: str, server: str) -> Any:
        """The spawner of a session that runs and may be entered.

        Raises:
            web.HTTPError: 404 where this page is not for who asks, or is off; 409 when no session runs.
        """
        if not has_role(self.current_user.orm_user):
            raise web.HTTPError(404)
        if not self.settings.get(SETTING, False):
            raise again.Refused(404, OFF)
        user = self.find_user(name)
        spawner = user.spawners.get(server or "") if user else None
        if user == self.current_user or spawner is None or not spawner.ready or not hasattr(spawner, "note_entry"):
            words = _("There is no session of {name} that runs and could be entered.")
            raise again.Refused(409, words.format(name=name[:64]))
        return spawner

    async def _show(self, spawner: Any, error: str = "") -> None:
        person = spawner.user.name
        entered = self.get_body_argument("reason", "")[:LONGEST_REASON] if error else ""
        shown = {"person": person, "error": error, "reason": entered, "longest": LONGEST_REASON}
        self.finish(await self.render_template("enter.html", shares_origin=not self.subdomain_host, **shown))


def grant(db: Any, spawner: Any, person: Any) -> None:
    """Give access to one session for an hour; where the owner's own sharing gives it, that stays as it was.

    What else the owner shares of it goes with the hour: JupyterHub has one share for both.

    Arguments:
        db: JupyterHub's database session.
        spawner: the row of the session.
        person: the row of the one who enters.
    """
    access = f"access:servers!server={spawner.user.name}/{spawner.name}"
    known = orm.Share.find(db, spawner, person)
    shared = set() if known is None else set(known.scopes)
    if known is not None and known.expires_at is None and access in shared:
        return
    if known is not None:
        take_back(db, known)
    share = orm.Share.grant(db, spawner, person, shared | {access})
    share.created_at = utcnow(with_tz=False)
    share.expires_at = share.created_at + LASTS
    db.commit()


def take_back(db: Any, share: Any) -> None:
    """Take access back; JupyterHub's objects in memory know it at once."""
    touched = [one for one in (share.user, share.owner, share.spawner) if one is not None]
    db.delete(share)
    db.commit()
    for one in touched:
        db.expire(one, ["shared_with_me", "shares"] if isinstance(one, orm.User) else ["shares"])


def take_back_before_start(db: Any, spawner: Any) -> None:
    """Take back what was given to the session before: who was let into that one has not entered the next.

    Arguments:
        db: JupyterHub's database session.
        spawner: the row of the session, which is about to start.
    """
    for share in [one for one in spawner.shares if one.expires_at is not None]:
        take_back(db, share)


async def follow_groups(db: Any, users: Any, standings: Callable[[list[str]], Awaitable[Any]]) -> None:
    """Give those who have entered the groups that the directory says now, whether they ask the hub anything or not.

    JupyterHub does so when they ask; a session that asks for them believes for a while what it has heard.

    Arguments:
        db: JupyterHub's database session.
        users: the hub's people, by their rows.
        standings: what is known of some people, by their names; it may wait for the directory.
    """
    ours = db.query(orm.Share).filter(orm.Share.expires_at.is_not(None)).all()
    inside = {share.user.name: share.user for share in ours if share.user}
    if not inside:
        return
    asked = asyncio.ensure_future(standings(sorted(inside)))
    await asyncio.wait([asked], timeout=GROUPS_WITHIN_S)
    if not asked.done():
        return
    if error := asked.exception():  # hours end all the same
        log.error("What the directory says of those who have entered is not known: %s", error)
        return
    for name, known in asked.result().items():
        if known.groups is not None and not known.left:
            users[inside[name]].sync_groups(sorted(known.groups))


def take_back_over(db: Any, is_on: bool = True) -> list[str]:
    """Take back the access whose hour, session or right is over; answers what, for the log.

    Arguments:
        db: JupyterHub's database session.
        is_on: whether the site lets administrators enter: what it let before a restart ends with the setting.
    """
    share = orm.Share
    spawner = orm.Spawner
    of_before = share.created_at < spawner.started
    is_over = or_(share.expires_at < utcnow(with_tz=False), spawner.started.is_(None), of_before)
    ours = db.query(share, is_over).join(spawner, share.spawner_id == spawner.id).filter(share.expires_at.is_not(None))
    over = [one for one, over in ours.all() if over or not (is_on and one.user and has_role(one.user))]
    said = [f"{one.user.name if one.user else 'nobody'}, session of {one.owner.name}" for one in over]
    for one in over:
        take_back(db, one)
    return said
