"""The Slurm spawner: JupyterHub's calls, handed on to one :class:`~spawners.session.Session`.

What JupyterHub calls, in its order: ``options_from_form`` or REST's options; ``clear_state``; ``apply_user_options``;
``start``, whose answer becomes the route; then ``poll``, and at the end ``stop`` and ``clear_state``. A hub that was
restarted calls ``load_state``, ``poll`` and ``get_url`` for what ran. batchspawner gives what Slurm spawners share.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import batchspawner
from sqlalchemy.orm import object_session
from traitlets import Unicode, default
from traitlets.config import Config

from portal import data
from portal.errors import PortalError, SessionEnded
from portal.history.record import EndedSession
from portal.hub.certificates import SessionCertificates, names_of
from portal.hub.context import HubContext, context_of
from portal.request import SessionRequest
from portal.session_settings import SessionSettings, check_variables, environment
from portal.session_state import Announcement, SessionState, Visit
from portal.site import Site, load
from portal.slurm.cluster import Cluster
from portal.slurm.snapshot import QueueSnapshot
from portal.slurm.submission import Submission, needs_address, new_key, submission
from spawners import callback, messages, options, timings
from spawners.choosing import handlers, named_pages
from spawners.choosing.change import ChangedRequests
from spawners.choosing.foretold import ComparedForecasts
from spawners.choosing.offer import Offer
from spawners.choosing.resumed import ResumedChoices
from spawners.choosing.several import NamedSession
from spawners.ends import extended
from spawners.ends.recorded import RecordedEnds
from spawners.errors import StartRefused
from spawners.session import Session
from spawners.startup import first_answer, progress

site_of = functools.cache(load)  # the settings, read once


class SlurmSessionSpawner(
    NamedSession,
    ChangedRequests,
    ResumedChoices,
    SessionCertificates,
    RecordedEnds,
    extended.Extended,
    ComparedForecasts,
    batchspawner.SlurmSpawner,  # type: ignore[misc]
):
    """Starts a person's JupyterLab as a Slurm job, through portal-launch."""

    site_file = Unicode("/etc/dsportal/site.toml", help="The settings file of the site.").tag(config=True)

    _request: SessionRequest | None = None  # what the session that runs, or is being started, was asked for
    end_seen: asyncio.Future[None] | None = None  # done when an end that was announced is known, or does not come
    _partition = ""  # for whose nodes a certificate is made
    _unresolved = ""  # the node, while this host cannot resolve its name

    @staticmethod
    def add_handlers() -> None:
        """Put our addresses where JupyterHub finds them: those of sessions, and those of the form."""
        for addresses in (callback, handlers, named_pages, extended):
            addresses.install()

    @classmethod
    def check_settings(cls, config: Config) -> None:
        """Refuse an environment of which a session would get a part only."""
        for section in cls.section_names():
            check_variables(config[section].get("environment", {}))

    @default("start_timeout")
    def _start_timeout(self) -> int:
        return timings.START_TIMEOUT_S

    @property
    def site(self) -> Site:
        """The site's settings."""
        return site_of(self.site_file)

    @property
    def context(self) -> HubContext:
        """What the hub's spawners share."""
        return context_of(self.user.settings)

    @property
    def cluster(self) -> Cluster:
        """The hub's one view of Slurm."""
        return self.context.slurm

    @cached_property
    def session(self) -> Session:
        """The session of this person."""
        told = {"log_name": self._log_name, "moved": self._moved, "ended": self._ended}
        return Session(self.cluster, self.site, self.user.name, self._save, self.log, **told)

    def _ended(self, ended: EndedSession) -> None:
        self.compare_end(ended)
        self.record_end(ended)

    # -- what a person chooses --------------------------------------------------------------------------

    @cached_property
    def offer(self) -> Offer:
        """What this person may choose, and what is known of each choice."""
        return Offer(self)

    async def get_options_form(self) -> str:
        """The form's fields: what was refused just now, or else the last choices."""
        return await self.offer.form()

    @default("options_from_form")
    def _options_from_form(self) -> Callable[[Mapping[str, list[str]]], Awaitable[dict[str, object]]]:
        return self.offer.of_form

    async def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, object]:
        """A link never starts anything: the form is shown instead, with the link's choices."""
        return await self.offer.of_query(query_data)

    @default("apply_user_options")
    def _apply_user_options(self) -> Callable[[Any, Mapping[str, object]], Awaitable[None]]:
        return self._check_options

    async def _check_options(self, _spawner: Any, given: Mapping[str, object]) -> None:
        """The check behind every door, before start() makes it once more. A resumed session was checked before."""
        self.ended_key = ""
        if not self.session.can_resume:
            self.several.check_room(self.name)
            await self.offer.checked(given)

    # -- from the start to the end ----------------------------------------------------------------------

    async def start(self) -> str:
        """Submit the job, wait as long as Slurm makes us wait, and answer where the server listens."""
        given = self.user_options or {}
        asked_for = self.choices()
        self._request = options.remembered(asked_for)  # for the page, while the job of before the restart is looked for
        try:
            if await self.session.resume():
                self.user_options = asked_for
                self.api_token = self.session.state.token
            else:
                self._request, site = await self.offer.checked(given)
                self.orm_spawner.user_options = given
                job = await self.prepared(self._request, site)
                foretold = self.offer.told.of(self._request, site)
                await self.session.submit(job, self.api_token, tls=self.internal_ssl)
                self.session.keep(foretold=foretold)
            node, port = await self.session.wait_until_ready(self._first_answer)
            self.compare_start()
            return self._url(node, port)
        except SessionEnded as error:
            raise StartRefused(error, status_code=502, lines=error.log) from error
        except PortalError as error:
            raise StartRefused(error, status_code=503) from error

    async def prepared(self, request: SessionRequest, site: Site) -> Submission:
        """The job of a request that was checked."""
        access = getattr(self.authenticator, "access", None)  # that of a directory has it
        mail = await access.mail_of(self.user.name) if access and needs_address(request, site) else ""
        environ = await self._environment(request.partition)
        return submission(request, site, new_key(self.context.hub_id), environ, mail)

    async def _first_answer(self, node: str, port: int) -> None:
        await first_answer(self._url(node, port), self.user.settings, functools.partial(setattr, self, "_unresolved"))

    def _url(self, node: str, port: int) -> str:
        tls = self.session.state.tls
        scheme = self.server.proto if tls is None else "https" if tls else "http"  # as it was started
        return f"{scheme}://{node}:{port}{self.server.base_url}"

    async def get_url(self) -> str:
        """Where the server listens, by our own knowledge: JupyterHub asks when it finds a session after a restart."""
        place = self.session.state.place
        port = self.session.state.port
        if not (place and port and self.server):
            return str(await super().get_url())
        return self._url(place.node, port)

    async def poll(self) -> int | None:
        """``None`` while the session lives or nothing is known; a number once Slurm says that it ended."""
        if self._check_pending:  # a hub that starts looks at a thousand sessions after it shows its first page
            await self.context.serving.wait()
        return await self.session.poll()

    async def stop(self, now: bool = False) -> None:
        """Cancel the job, remove its secrets, and wait until Slurm says that it is gone."""
        await self.session.stop(now)

    # -- what the session's server announces (spawners/callback.py) -------------------------------------

    @property
    def following(self) -> asyncio.Future[None] | None:
        """Done when the session has the new address of its job, which Slurm has started again."""
        return self.session.address.following

    async def announce_port(self, announcement: Announcement) -> bool:
        """Take the port of the session's server; ``False`` when none is expected."""
        return not self.change.is_going and await self.session.address.announce(announcement)

    def announce_end(self) -> None:
        """The session ends: Slurm is asked every second for a moment; the hub's watch comes later."""
        if self.end_seen is None or self.end_seen.done():
            self.end_seen = asyncio.ensure_future(self._see_end())

    async def _see_end(self) -> None:
        for _ in range(timings.ENDING_QUERIES):
            await asyncio.sleep(timings.ENDING_EVERY_S)
            queue = await self.cluster.queue(timings.ENDING_EVERY_S / 2)
            if self.ready and self.session.state.port and self.session.needs_poll(queue):
                await self.poll_and_notify()
                return

    # -- what the hub's watch asks (portal/hub/app.py) --------------------------------------------------

    def needs_poll(self, queue: QueueSnapshot) -> bool:
        """True when a snapshot of the queue does not show our job where it was."""
        return self.session.needs_poll(queue)

    def notice(self, queue: QueueSnapshot) -> None:
        """Pages show the job as it is; one that is just ending is asked about again soon."""
        self.session.look(queue)
        if self.session.is_completing(queue):
            self.announce_end()

    # -- what pages show --------------------------------------------------------------------------------

    async def progress(self) -> AsyncIterator[dict[str, object]]:
        """What happens, in words, whenever it changes."""
        if self._request:
            yield {"progress": 5, "message": messages.asked(self._request, self.site)}
        async for shown in progress(self.session, lambda: self._unresolved):
            yield shown.event

    @property
    def session_facts(self) -> dict[str, object]:
        """What the server page shows of this session; only what is known."""
        request = self._request or options.remembered(self.user_options or {})
        known = messages.facts(request, self.site, self.session.state.job_id, self.session.watched.job)
        unusual = messages.condition(self.session.watched.job, self.session.address.silent_s, datetime.now(UTC))
        entries = messages.entries(self.session.state.entries)
        return known | {"entries": entries} | ({"condition": unusual} if unusual and self.ready else {})

    def note_entry(self, who: str, reason: str) -> None:
        """An administrator enters the session: the person reads it until the next session starts."""
        visit = Visit(who, int(datetime.now(UTC).timestamp()), reason)
        self.session.keep(entries=(*self.session.state.entries, visit))

    # -- the session's environment ----------------------------------------------------------------------

    async def _environment(self, partition: str = "") -> dict[str, str]:
        """JupyterHub's own variables, and what the session must know of the site."""
        self._partition = partition
        check_variables(self.environment)  # a hook, or a group of JupyterHub's, may have set more
        groups = options.identity_of(self.user, self.site).groups
        settings = SessionSettings.of(self.site, str(data.folder("notebooks")), groups, extend=self.may_extend)
        kernels = self.site.kernels_path(groups)
        return environment(settings, kernels, self.get_env(), await self.certificates(), self.environment)

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """A session finds home and shell on its node: batchspawner would wait here for the name service."""
        return env

    async def node_names(self) -> list[str]:
        """Every name that the session may have: Slurm has not chosen its node yet."""
        partition = self._partition or options.remembered(self.user_options or {}).partition
        return names_of(await self.cluster.nodes(timings.NAMES_MAX_AGE_S), partition)

    # -- state ------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What survives a restart of the hub."""
        return self.context.seal.closed(self.session.state.to_json())

    def clear_state(self) -> None:
        """Forget the job."""
        self.api_token = ""
        self.session.clear()

    def _save(self, state: SessionState) -> None:
        """Write the state now: the hub itself does so only after start() has returned."""
        self.orm_spawner.state = self.context.seal.closed(state.to_json())
        db = object_session(self.orm_spawner)
        if db is not None:
            db.commit()

    def _moved(self, node: str, port: int) -> None:
        """The session has a new address: JupyterHub's own record of it follows."""
        if self.server:
            self.server.ip = node
            self.server.port = port
