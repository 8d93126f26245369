"""What one person is offered: the form, the check behind every door, and what is known of each choice now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from portal.errors import PortalError, RequestError
from portal.forecasts.form_outlook import FormOutlook, form_outlook
from portal.forecasts.picture import NOTHING
from portal.forecasts.shared_look import SharedLook
from portal.forecasts.starts import StartState
from portal.forecasts.turns import LookBusyError
from portal.history.record import EndedSession
from portal.hub.context import HubContext
from portal.language.texts import _
from portal.options.named import NameRefused, find
from portal.options.profiles import fixed_by, narrowed, profile_of
from portal.options.schema import Schema, schema
from portal.request import WORDS_OF_A_LINK, SessionRequest, checked
from portal.settings.profile_tables import ProfileTable
from portal.site import Identity, Site
from portal.slurm.submission import new_key, submission
from spawners import form, options
from spawners.choosing import profile_cards
from spawners.choosing.advised import advised
from spawners.choosing.foretold import LastTold
from spawners.choosing.named import NO_DATABASE, OwnChoices, links
from spawners.choosing.several import SeveralSessions
from spawners.errors import StartRefused
from spawners.session import Session

NOT_TESTED = (StartState.NEVER, StartState.TOO_LONG, StartState.CLOSED)
CHOICE = "choice"  # in a link: the name of choices that the person keeps
LONGEST_PLACE = 1000  # characters of where a session opens
LOG = logging.getLogger(__name__)


class OfferingSpawner(Protocol):
    """A spawner as far as the choices of its person go."""

    user: Any
    orm_spawner: Any
    name: str
    several: SeveralSessions

    @property
    def session(self) -> Session:
        """The session of which the choices are."""

    @property
    def site(self) -> Site:
        """The site's settings."""

    @property
    def context(self) -> HubContext:
        """What the hub's spawners share."""

    def ended_records(self) -> list[EndedSession]:
        """The sessions of this person that have ended, the newest first."""


async def outlook_of(
    look: SharedLook, site: Site, settings: Site, identity: Identity, request: SessionRequest, instead_of: str
) -> FormOutlook:
    """What is known of each choice now, worked out beside the event loop; ``site`` is as this person has it."""
    work = partial(form_outlook, site, settings, site.offered_to(identity), request)
    return await look.work(lambda of: work(of, look.clock(), look.now(), instead_of))


def _in_profile(
    request: SessionRequest, site: Site, identity: Identity
) -> tuple[ProfileTable | None, Site, SessionRequest]:
    """The profile of a request as far as it is offered, what it leaves of the site, and the request moved into that."""
    profile = profile_of(site, identity, request.profile)
    there = narrowed(site, identity, profile)
    return profile, there, form.offered(request.in_profile(profile), there, there.offered_to(identity))


class Offer:
    """What one person is offered by the site and by Slurm."""

    def __init__(self, spawner: OfferingSpawner) -> None:
        self.told = LastTold()
        self.named = OwnChoices(spawner.user, self.as_options)
        self._spawner = spawner
        self._refused: tuple[RequestError | None, SessionRequest | None] = (None, None)  # for the form shown next

    async def form(self) -> str:
        """The form's fields: what was refused just now, or a link's choices, or else the last ones.

        Hours that nobody has just typed end before a maintenance, and are no more than Slurm takes.
        """
        error, entered = self._refused
        self._refused = (None, None)
        opens = self._opens()  # before other requests of this person come
        identity, whole = await self._site()
        profile, site, request = _in_profile(entered or self._last(), whole, identity)
        is_free = entered is None and "hours" not in fixed_by(profile)
        outlook = await self.outlook_in_time(site, identity, request, profile, is_typed=not is_free)
        self.told.note(outlook, site)
        cards = profile_cards.cards(whole, identity, request.profile, opens)
        cards += links(self.named, whole, identity.name, opens)
        cards += advised(self._spawner.ended_records, outlook.request, site, identity, opens)
        return cards + form.render(site, identity, outlook.request, error, outlook, opens, fixed_by(profile))

    async def outlook_in_time(
        self, site: Site, identity: Identity, request: SessionRequest, profile: ProfileTable | None, *, is_typed: bool
    ) -> FormOutlook:
        """The outlook of a form, or after a short while one without a picture: the open page looks again by itself."""
        look = self._spawner.context.look
        try:
            with look.turns.taken("form", identity.name):
                async with asyncio.timeout(look.form_within_s):
                    return await self._wise_outlook(site, identity, request, profile, is_typed=is_typed)
        except (LookBusyError, TimeoutError):
            offered = site.offered_to(identity)
            made = form_outlook(site, self._spawner.site, offered, request, NOTHING, look.clock(), look.now())
            return replace(made, is_late=True)

    async def _wise_outlook(
        self, site: Site, identity: Identity, request: SessionRequest, profile: ProfileTable | None, *, is_typed: bool
    ) -> FormOutlook:
        outlook = await self._outlook(site, identity, request, profile)
        limit = outlook.limits.get(request.partition)
        if is_typed or not limit or not 0 < limit.wise < request.hours:
            return outlook
        return await self._outlook(site, identity, replace(request, hours=limit.wise), profile)

    def _opens(self) -> str:
        """Where the session shall open, by the request that shows the form now; JupyterHub hands it to its spawner."""
        handler = getattr(self._spawner, "handler", None)
        opens = "" if handler is None or handler._finished else str(handler.get_query_argument("next", ""))
        return opens if len(opens) <= LONGEST_PLACE else ""  # it stands in each of the form's links

    def _last(self) -> SessionRequest:
        return options.remembered(self._spawner.orm_spawner.user_options or {})

    async def _site(self) -> tuple[Identity, Site]:
        settings = self._spawner.site
        identity = options.identity_of(self._spawner.user, settings)
        return identity, await self._spawner.context.limits.site_of(settings, identity)

    async def outlook(self, given: Mapping[str, str], who: str = "") -> FormOutlook:
        """What is known of each choice now, with these choices; what is not offered falls back.

        Raises:
            LookBusyError: ``who`` asks has another look under way.
        """
        with self._spawner.context.look.turns.taken("outlook", who):
            identity, whole = await self._site()
            profile, site, request = _in_profile(options.remembered(given), whole, identity)
            outlook = await self._outlook(site, identity, request, profile)
        if who != f"user {identity.name}":
            return outlook
        self.told.note(outlook, site)
        at = self._said_by_slurm(site, identity, outlook)
        return outlook.with_slurms(at, self._spawner.context.look.now())

    def _said_by_slurm(self, site: Site, identity: Identity, outlook: FormOutlook) -> datetime | None:
        """When Slurm itself would start what is chosen, as far as it has been asked; nobody waits for it."""
        if not outlook.is_known or outlook.chosen.state in NOT_TESTED or not outlook.request.partition:
            return None
        context = self._spawner.context
        request = outlook.request
        made = partial(submission, request, site, new_key(context.hub_id), {})
        return context.asked_starts.of(identity.name, request, made)

    async def schema(self) -> Schema:
        """What this person may choose, for programs."""
        identity, site = await self._site()
        return schema(site, identity)

    async def picture(self, name: str) -> str:
        """The file with the picture of a profile that this person may choose; ``""`` where there is none."""
        identity, site = await self._site()
        profile = profile_of(site, identity, name)
        return profile.picture if profile else ""

    async def _outlook(
        self, site: Site, identity: Identity, request: SessionRequest, profile: ProfileTable | None
    ) -> FormOutlook:
        waits = self._spawner.session.state.job_id  # a change takes its place
        found = await outlook_of(self._spawner.context.look, site, self._spawner.site, identity, request, waits)
        fixed = fixed_by(profile)
        if profile and "hours" in fixed:
            why = (_("The profile {profile} fixes the hours.").format(profile=profile.title),)
            found = replace(found, limits={name: replace(one, words=why) for name, one in found.limits.items()})
        return replace(found, fewer=0) if "gpus" in fixed else found

    def of_form(self, form_data: Mapping[str, list[str]]) -> Awaitable[dict[str, object]]:
        """Options out of the form; what is not allowed is answered with 400 and the reason at its field."""
        entered = options.entered(form_data)
        try:
            return self._options_of(options.from_form(form_data), entered)
        except RequestError as error:
            raise self._refusal(error, entered) from error

    async def _options_of(self, given: Mapping[str, object], entered: SessionRequest) -> dict[str, object]:
        try:
            self._spawner.several.check_room(self._spawner.name)
            request, _site = await self.checked(given, entered)
        except Exception as error:
            why = error.__cause__  # an earlier form's refusal, which was never shown, is not this one's
            self._refused = (why if isinstance(why, RequestError) else None, entered)
            raise
        self._refused = (None, entered)  # not before: another form that is made meanwhile would have it
        return request.as_options()

    def _refusal(self, error: RequestError, entered: SessionRequest | None) -> StartRefused:
        if entered:  # the form is shown next
            self._refused = (error, entered)
        return StartRefused(error)

    def fill_in(self, given: Mapping[str, str]) -> None:
        """The form that is shown next has these choices, as far as they are offered."""
        self._refused = (None, options.remembered((self._spawner.orm_spawner.user_options or {}) | dict(given)))

    async def fill_in_named(self, name: str) -> str:
        """The form that is shown next has the choices that the person keeps under a name; answers words about it."""
        try:
            found = find(self.named.kept, name)
        except NameRefused as error:
            return error.message
        except SQLAlchemyError as error:
            LOG.error("%s %s", NO_DATABASE, error)
            return _(NO_DATABASE)
        try:
            await self.as_options(found.options)
        except RequestError as error:
            words = _("“{name}” is not possible any more as you kept it; the form has what comes nearest.")
            return f"{words.format(name=name)} {error.message}"
        finally:
            self._refused = (None, options.remembered(found.options))
        return _("These are your choices “{name}”: check them, then press Start.").format(name=name)

    async def of_query(self, query_data: Mapping[str, list[str]]) -> dict[str, object]:
        """A link never starts anything: the form is shown instead, with the link's choices."""
        if CHOICE in query_data:
            raise StartRefused(PortalError(await self.fill_in_named(query_data[CHOICE][-1])), status_code=200)
        await self.of_form(query_data)
        raise StartRefused(PortalError(WORDS_OF_A_LINK), status_code=200)

    async def checked(self, given: Mapping[str, object], entered: Any = None) -> tuple[SessionRequest, Site]:
        """The one check behind every door.

        Raises:
            StartRefused: with the field, the value given, and what is allowed.
        """
        identity, site = await self._site()
        try:
            return checked(given, site, identity), site
        except RequestError as error:
            raise self._refusal(error, entered) from error

    async def link(self, form_data: Mapping[str, list[str]]) -> dict[str, object]:
        """The choices of a form that was sent, for a link; the form that is shown next is as it would be without.

        Raises:
            RequestError: what is not allowed.
        """
        return await self.as_options(options.from_form(form_data))

    async def as_options(self, given: Mapping[str, object]) -> dict[str, object]:
        """Choices as they are kept, after the one check.

        Raises:
            RequestError: what is not allowed.
        """
        identity, site = await self._site()
        return checked(given, site, identity).as_options()
