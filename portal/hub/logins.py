"""How logins end: by the person's own logout, by a new password, and for who may not use the portal any more.

JupyterHub's cookie of a login carries the ``cookie_id`` of its person, the cookie of a session a token that the hub
gave out (OAuth). Both are ended here, on the hub's side: what somebody has copied of them is worth nothing afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from jupyterhub import orm
from jupyterhub.handlers.login import LogoutHandler
from jupyterhub.utils import url_path_join, utcnow
from sqlalchemy import DateTime, bindparam, text
from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches

from portal.hub.context import state_of
from portal.site import Standing

OF_THE_HUB = "jupyterhub"  # the client of tokens that no OAuth login made
CLEAR_SITE_DATA = '"cache", "storage"'  # not "cookies": browsers then clear those of all hosts of the domain
MANY = 5  # people who leave at once; with more than half of all it is rather a mistake in the directory
LOGINS_AT_ONCE = 200  # people with nothing but a login, asked about in one look; what they open asks by itself
NOTED_EVERY = timedelta(minutes=1)  # JupyterHub notes half a minute apart that somebody is here

Log = logging.Logger | logging.LoggerAdapter[logging.Logger]


def end_logins(db: Any, person: Any, *, own_tokens: bool) -> None:
    """End every login of a person, in every browser, and what it was given.

    Arguments:
        db: JupyterHub's database session.
        person: the row of ``orm.User``.
        own_tokens: also what the person has made: tokens, and shares of sessions with their codes.
    """
    kept = set() if own_tokens else {OF_THE_HUB}
    servers = tokens_of_sessions(db, person)
    for token in list(person.api_tokens):
        if token.client_id not in kept and token not in servers:
            db.delete(token)
    for kind in (orm.Share, orm.ShareCode) if own_tokens else ():
        for share in db.query(kind).filter(kind.owner_id == person.id):
            db.delete(share)  # as JupyterHub does it: who has it forgets it, too
    db.query(orm.OAuthCode).filter(orm.OAuthCode.user_id == person.id).delete()  # in one step, however many
    db.expire(person, ["oauth_codes"])
    person.cookie_id = orm.new_token()
    db.commit()


def end_all(db: Any) -> None:
    """End the logins of everybody; what people have made for their programs, and sessions, go on."""
    for person in db.query(orm.User).all():
        end_logins(db, person, own_tokens=False)


def tokens_of_sessions(db: Any, person: Any) -> list[Any]:
    """The tokens that running sessions have themselves, which end with them. Their names prove nothing."""
    states = [state_of(row) for row in person._orm_spawners]
    return [found for state in states if state.token and (found := orm.APIToken.find(db, state.token))]


class AfterLogout(LogoutHandler):  # type: ignore[misc]
    """What is shown when a login has ended, where the authenticator says nothing else."""

    async def render_logout_page(self) -> None:
        """The login; a page of its own where that would log in again by itself."""
        if self.authenticator.auto_login:
            self.finish(await self.render_template("logout.html"))
        else:
            self.redirect(self.settings["login_url"])


class EndingLogout(LogoutHandler):  # type: ignore[misc]
    """``/hub/logout``: a link shows a button, the button ends all logins of the person. The session goes on."""

    def check_xsrf_cookie(self) -> None:
        """Only somebody who is logged in has something to lose by a forged request."""
        if getattr(self, "_jupyterhub_user", None) is not None:
            super().check_xsrf_cookie()

    async def get(self) -> None:
        """Ask; a link or an image of another site logs nobody out."""
        if self.current_user is None:
            self.redirect(self.settings["login_url"])
            return
        self.finish(await self.render_template("logout.html", user=self.current_user))

    async def post(self) -> None:
        """Log out."""
        user = self.current_user
        if user is not None:
            await self.default_handle_logout()
            end_logins(self.db, user.orm_user, own_tokens=False)
            self._clear_session_cookies(user)
            await self.handle_logout()
            self._jupyterhub_user = None
            if is_trustworthy(self.request):  # never for a form of another site, which comes without cookies
                self.set_header("Clear-Site-Data", CLEAR_SITE_DATA)
        await self.render_logout_page()

    def _clear_session_cookies(self, user: Any) -> None:
        """The cookies of the person's sessions, which the browser holds for their paths."""
        for spawner in user.spawners.values():
            self.clear_cookie(spawner.oauth_client_id, path=url_path_join(user.base_url, spawner.name, "/"))


def is_trustworthy(request: HTTPServerRequest) -> bool:
    """Whether a browser obeys ``Clear-Site-Data`` here: HTTPS, or this machine itself."""
    return request.protocol == "https" or request.host_name in ("localhost", "127.0.0.1", "[::1]", "::1")


def limit_tokens(db: Any, max_s: int, of_sessions: Collection[str]) -> None:
    """Tokens that people made before there was a limit end as those of today would.

    Arguments:
        of_sessions: the tokens of the sessions themselves, which end with them.
    """
    token = orm.APIToken
    starts = {secret[: token.prefix_length] for secret in of_sessions}
    without_end = (token.user_id != None, token.expires_at == None, token.client_id == OF_THE_HUB)  # noqa: E711
    for number, prefix, note in db.query(token.id, token.prefix, token.note).filter(*without_end).all():
        if prefix not in starts or not (note or "").startswith("Server at "):  # as JupyterHub notes them
            db.query(token).filter(token.id == number).update({"expires_at": token.now() + timedelta(seconds=max_s)})
    db.commit()


def install(hub: Any) -> None:
    """Have our logout come before JupyterHub's, and an authenticator's, which ends nothing here and follows a link.

    What the latter does besides, such as leading to a provider's page, it does afterwards.
    """
    place = url_path_join(hub.hub_prefix, "logout")
    ways = [rule for rule in hub.handlers if isinstance(rule[1], type) and issubclass(rule[1], LogoutHandler)]
    theirs = [rule[1] for rule in ways if any(map(PathMatches(rule[0]).regex.match, (place, f"{place}/")))]
    others = [first for first in theirs[:1] if first is not LogoutHandler]
    logout = type("Logout", (EndingLogout, *others, AfterLogout), {"__module__": __name__})
    hub.handlers.insert(0, (f"{place}/?", logout))


@dataclass(frozen=True)
class Leavers:
    """The look at all people who have a session, a token or a login, for those who may not use the portal any more.

    Attributes:
        names: those who have something that could be ended; and whether that is more than a login.
        person: the row of one of them; ``None`` when it is gone.
        standings: what is known of some people now.
        new_passwords: has the logins ended of those of some people whose password was set since the last look.
        end_logins: ends the logins of a person, with or without the tokens that the person made.
        end_sessions: ends the sessions of a person; ``None`` where the site lets them go on.
        check_routes: repairs the proxy's routes, which leave out who is in ``ended``: a session that goes on, and what
            it shows to whoever asks, is reached by nobody.
        keep: has it known after a restart whose sessions go on without a route: a word about each, "" = not any more.
        ended: those whose logins were ended, until they are known to be back.
        asked_last: who had nothing but a login and was the last to be asked about.
        ending: those whose sessions are just being ended; their homes may be silent, and nobody waits for that.
        routed: those of ``ended`` whom the routes leave out already.
    """

    names: Callable[[], Mapping[str, bool]]
    person: Callable[[str], Any]
    standings: Callable[[Collection[str]], Awaitable[Mapping[str, Standing]]]
    new_passwords: Callable[[Mapping[str, Standing], Callable[[str], None]], object]
    end_logins: Callable[..., None]
    end_sessions: Callable[[Any], Awaitable[None]] | None
    check_routes: Callable[[], Awaitable[None]]
    keep: Callable[[Mapping[str, str]], None]
    log: Log
    ended: set[str] = field(default_factory=set)
    ending: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    routed: set[str] = field(default_factory=set)
    asked_last: list[str] = field(default_factory=list)

    async def look(self) -> None:
        """End what people have who left; who is not known to have left keeps everything."""
        try:
            await self._look()
        finally:
            await self._follow_routes()

    async def _follow_routes(self) -> None:
        if self.end_sessions or self.routed == self.ended:
            return
        ended = set(self.ended)
        self.keep(dict.fromkeys(self.routed, "") | dict.fromkeys(ended, "left"))
        await self.check_routes()
        self.routed.clear()
        self.routed.update(ended)

    async def _look(self) -> None:
        names = self.names()
        standings = await self.standings(self._in_turn(names))
        left = {name: found for name, found in standings.items() if found.left and found.is_sure}
        self.ended.intersection_update(names)
        self.ended.difference_update(name for name, found in standings.items() if not found.left)
        if not self._is_mistake(left, names):
            for name, standing in left.items():
                self._end(name, standing)
        stayed = {name: found for name, found in standings.items() if name not in left}
        self.new_passwords(stayed, self._end_logins_of_before)

    def _in_turn(self, names: Mapping[str, bool]) -> set[str]:
        """Whom one look asks about: of those who have nothing but a login some, in the order of their names."""
        alone = sorted(name for name, holds in names.items() if not holds)
        behind = [name for name in alone if [name] > self.asked_last]
        now = [*behind, *alone][:LOGINS_AT_ONCE]
        self.asked_last[:] = now[-1:]
        return {name for name, holds in names.items() if holds}.union(now)

    def _end_logins_of_before(self, name: str) -> None:
        if person := self.person(name):
            self.end_logins(person, own_tokens=True)
            self.log.warning("%s has a new password: the logins and tokens of before were ended", name)

    def _end(self, name: str, standing: Standing) -> None:
        person = self.person(name)
        if person is None or (name in self.ended and not self.end_sessions):
            return
        if name not in self.ended:
            self.end_logins(person, own_tokens=True)
            self.log.warning("%s may not use the portal any more (%s): logins and tokens ended", name, standing.left)
            self.ended.add(name)
        if self.end_sessions and name not in self.ending:
            self.ending[name] = asyncio.ensure_future(self._end_sessions(name, self.end_sessions(person)))

    async def _end_sessions(self, name: str, ended: Awaitable[None]) -> None:
        try:
            await ended
        except Exception:  # the next look tries again
            self.log.exception("The session of %s, who left, could not be ended yet", name)
        finally:
            del self.ending[name]

    def _is_mistake(self, left: Mapping[str, Standing], names: Mapping[str, bool]) -> bool:
        """More than half at once of those who have a session or a token: what cannot be had again is not ended."""
        held = [name for name, holds in names.items() if holds]
        new = [name for name in held if name in left and name not in self.ended]
        is_mistake = len(new) > MANY and len(new) * 2 > len(held)
        words = f"{len(new)} of {len(held)} people left at once; they are refused, and nothing of theirs is ended"
        if is_mistake and words not in self.said:
            self.log.error("%s. If that is meant, take them out a few at a time", words)
        self.said[:] = [words] if is_mistake else []
        return is_mistake


def leavers_of(hub: Any, end_sessions: Callable[[Any], Awaitable[None]]) -> Leavers:
    """The look at a hub's people.

    Arguments:
        hub: the :class:`~portal.hub.app.PortalHub`, whose proxy has no routes for who is out, where sessions go on.
        end_sessions: ends the sessions of a person, where the site wants that.
    """
    left = hub.authenticator.left
    ended = set() if hub.end_sessions_of_leavers else {name for name, word in left.words().items() if word}
    leavers = Leavers(
        names=lambda: with_something(hub.db, hub.hub_id, hub.cookie_max_age_days),
        person=lambda name: orm.User.find(hub.db, name),
        standings=hub.authenticator.standings,
        new_passwords=hub.authenticator.new_passwords,
        end_logins=partial(end_logins, hub.db),
        end_sessions=end_sessions if hub.end_sessions_of_leavers else None,
        check_routes=hub.check_routes,
        keep=left.keep,
        log=hub.log,
        ended=ended,
        routed=set(ended),
    )
    if not hub.end_sessions_of_leavers:
        hub.proxy.without_route = leavers.ended
    return leavers


WITH_SOMETHING = text("""
SELECT name, holds FROM (
    SELECT name, last_activity, CASE
        WHEN id IN (SELECT user_id FROM api_tokens) THEN 1
        WHEN id IN (SELECT user_id FROM spawners WHERE server_id IS NOT NULL OR state LIKE :ours) THEN 1
        ELSE 0 END AS holds
    FROM users) AS people
WHERE holds = 1 OR last_activity > :since
""").bindparams(bindparam("since", type_=DateTime))


def with_something(db: Any, hub_id: str, cookie_days: float) -> dict[str, bool]:
    """Those who have a token or a session of this hub (True), or were here while a login of theirs may last.

    No rows, which would bring all their relations.
    """
    since = utcnow(with_tz=False) - timedelta(days=cookie_days) - NOTED_EVERY
    rows = db.execute(WITH_SOMETHING, {"ours": f"%{hub_id}%", "since": since})
    return {name: bool(holds) for name, holds in rows}
