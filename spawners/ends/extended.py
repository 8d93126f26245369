"""More time for a session that runs: the hub's address for it, which the Lab's button asks, too.

The hub decides who may ask: a session with its own token, a person with a login, whoever has the scope ``servers``; and
whether the person is in a group of ``[extend]``. What is possible is decided by portal-extend alone, by root's file and
Slurm (:mod:`portal.extending`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers import default_handlers as api_handlers
from jupyterhub.scopes import needs_scope
from tornado import web

from portal.errors import SlurmUnavailable
from portal.extending import words
from portal.extending.words import ExtensionRefused, MoreTime
from portal.language.texts import _
from portal.settings.extend_table import ExtendTable
from spawners import options
from spawners.callback import CallbackHandler
from spawners.session import Session

MOST_MIN = 8760 * 60
APART_S = 5.0  # between two looks of one person, or two requests: each has Slurm asked up to seven questions
_asking: set[tuple[str, str]] = set()  # the people for whom portal-extend is asked now, and by which verb
_next_at: dict[tuple[str, str], float] = {}  # when the next question of a person may come, by its verb


def wait_s(person: str, verb: str, now: float) -> float:
    """How long a question of somebody's waits for its turn; the next one comes after it."""
    for question in [one for one, at in _next_at.items() if at <= now]:
        del _next_at[question]
    turn = _next_at.get((person, verb), now)
    _next_at[person, verb] = turn + APART_S
    return turn - now


class Extended:
    """What :class:`~spawners.slurm.SlurmSessionSpawner` knows of more time."""

    user: Any  # these are JupyterHub's
    ready: bool
    log: Any

    @property
    def session(self) -> Session:
        """The session of this person."""
        raise NotImplementedError

    @property
    def _rule(self) -> ExtendTable:
        return self.session.site.extend

    @property
    def may_extend(self) -> bool:
        """Whether the site's settings let this person ask for more time."""
        identity = options.identity_of(self.user, self.session.site)
        return self._rule.is_for(identity.name, identity.groups)

    async def more_time(self) -> MoreTime:
        """What this session may be given now.

        Raises:
            ExtensionRefused: nothing, and why.
            SlurmUnavailable: it is not known.
        """
        return words.more_time(await self._ask("look", 0), self._rule)

    async def extend(self, minutes: int, who: str) -> MoreTime:
        """Give it so many minutes more; answers its new end, and what may still be given.

        Arguments:
            who: the name of whoever asks, for the log.

        Raises:
            ExtensionRefused: not that many, and why.
            SlurmUnavailable: it is not known whether it was done.
        """
        given = words.more_time(await self._ask("extend", minutes), self._rule)
        told = (self.session.state.job_id, self.session.log_name, minutes, who, given.times_left)
        self.log.info("Job %s of %s got %s min more, asked for by %s; times left: %s", *told)
        self.session.look(await self.session.cluster.queue(-1))  # pages, and what the session is told, follow
        return given

    async def _ask(self, verb: str, minutes: int) -> Mapping[str, object]:
        if not self.may_extend:
            raise ExtensionRefused(_(words.NOT_FOR_YOU), status=403)
        state = self.session.state
        if not (self.ready and state.job_id):
            raise ExtensionRefused(_(words.NOT_RUNNING))
        person = self.session.person
        if (person, verb) in _asking:  # a look keeps no request from coming
            raise ExtensionRefused(_(words.GOES_ON), status=429)
        ours = {"person": person, "key": state.key, "job_id": state.job_id}
        _asking.add((person, verb))
        try:
            if seconds := wait_s(person, verb, self.session.cluster.now()):
                await self.session.cluster.pause(seconds)
            request = {"verb": verb, **ours, **({"minutes": minutes} if minutes else {})}
            answer = await self.session.cluster.extender.call(self._rule.account, request)
        except SlurmUnavailable as error:  # its words are of starts, and of people
            raise SlurmUnavailable(words.NO_ANSWER, detail=f"portal-extend: {error.detail}") from error
        finally:
            _asking.discard((person, verb))
        if answer.get("ok"):
            return answer
        if "refused" in answer:
            raise words.refused(answer, self._rule, minutes)
        raise SlurmUnavailable(words.NO_ANSWER, detail=str(answer.get("message"))[:500])


def minutes_of(body: object) -> int:
    """How many minutes are asked for.

    Raises:
        web.HTTPError: 400, the body says something else.
    """
    minutes = body.get("minutes") if isinstance(body, dict) and set(body) == {"minutes"} else None
    if type(minutes) is not int or not 1 <= minutes <= MOST_MIN:
        raise web.HTTPError(400, f'the body is {{"minutes": <integer from 1 to {MOST_MIN}>}}')
    return minutes


async def answer(handler: Any, spawner: Any, minutes: int = 0) -> None:
    """Answer with what may be given (0 ``minutes``), or give it."""
    if not isinstance(spawner, Extended):
        raise web.HTTPError(404)
    try:
        if minutes:
            told = await spawner.extend(minutes, handler.current_user.name)
        else:
            told = await spawner.more_time()
    except ExtensionRefused as error:
        raise web.HTTPError(error.status, error.message) from error
    except SlurmUnavailable as error:
        handler.log.error("More time for %s: %s", spawner.session.log_name, error.detail)
        raise web.HTTPError(503, _(error.message)) from error
    handler.set_header("Content-Type", "application/json")
    handler.finish(json.dumps(told.as_json()))


class OwnExtendHandler(CallbackHandler):
    """``/hub/api/dsportal/extend``: a session asks for itself, with its own token: what the Lab's button does."""

    async def get(self) -> None:
        """What may be given."""
        await answer(self, self.spawner())

    async def post(self) -> None:
        """Give it."""
        await answer(self, self.spawner(), minutes_of(self.get_json_body()))


class ExtendHandler(APIHandler):  # type: ignore[misc]
    """``/hub/api/dsportal/extend/NAME[/SESSION]``: the same for people and their programs."""

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def get(self, user_name: str, server_name: str = "") -> None:
        """What may be given."""
        await answer(self, self._spawner(user_name, server_name))

    @needs_scope("servers")  # type: ignore[untyped-decorator]
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Give it."""
        await answer(self, self._spawner(user_name, server_name), minutes_of(self.get_json_body()))

    def _spawner(self, user_name: str, server_name: str) -> Any:
        user = self.find_user(user_name)
        return user.spawners.get(server_name) if user else None


def install() -> None:
    """Put the addresses where JupyterHub finds them; doing it twice changes nothing."""
    for route in (
        (r"/api/dsportal/extend", OwnExtendHandler),
        (r"/api/dsportal/extend/([^/]+)", ExtendHandler),
        (r"/api/dsportal/extend/([^/]+)/([^/]+)", ExtendHandler),
    ):
        if route not in api_handlers:
            api_handlers.append(route)
