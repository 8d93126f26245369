"""JupyterHub's authenticator on :mod:`portal.login.directory`: LDAP in threads, three different plain messages.

Who is logged in already is asked about on the way (:mod:`portal.login.access`): JupyterHub calls ``refresh_user``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from jupyterhub.handlers import login as login_page
from traitlets import Bool, Integer, List, Unicode
from traitlets.config import Config

from portal.addresses import address_of, networks
from portal.administration import again
from portal.administration.enter import EnterHandler
from portal.databases.first_logins import FirstLogins
from portal.directory.conversation import UNAVAILABLE
from portal.directory.names import LoginName
from portal.errors import DirectoryError, DirectoryUnavailable, LoginRefused, NotAllowed, SiteError
from portal.login.access import Access
from portal.login.attempts import BUSY, KNOWN_FILE, Attempts, KnownAddresses, Refusal, TooManyAttempts, Tried
from portal.login.directory import REFUSED, Directory, as_sent, check_password
from portal.login.holders import OneAccount
from portal.login.kept import Kept
from portal.login.system_accounts import account_of, check_account
from portal.settings.ldap_table import LdapTable
from portal.site import Identity, Site, Standing, load

THREADS = 32
STRANGERS_AT_ONCE = 4
QUEUE_LIMIT_S = 30.0
# Servers hash a password only for a name that exists, and slowly: without this, the time would tell which do.
REFUSED_AFTER_S = 0.5
SHOWN_NAME = 64
REFRESH_AGE_S = 1  # a look into what is known; the directory is asked about everybody twice a minute


# JupyterHub (6.1) compiles a site's own words for its login page anew for each page, also where there are none.
login_page.Template = lru_cache(maxsize=1)(login_page.Template)

Ask = Callable[[], Identity]


class ExactLoginHandler(FirstLogins, login_page.LoginHandler):  # type: ignore[misc]
    """JupyterHub's login page; name and password are taken as they were sent: ``" alice"`` is not ``alice``."""

    async def post(self) -> None:
        """Log in, or show the login page again with the reason and the name."""
        fields = self.request.body_arguments.items()
        user = await self.login_user({key: as_sent(values) for key, values in fields if key != "_xsrf"})
        if user is None:  # one of JupyterHub's own lists, such as blocked_users
            raise Refusal(LoginRefused(REFUSED))
        self._jupyterhub_user = user
        if self._record_activity(user):  # by it the look for those who left knows of this login
            self.db.commit()
        again.note(self, user.name)
        self.redirect(self.get_next_url(user))

    def _render(self, login_error: str | None = None, username: str | None = None, **names: Any) -> Any:
        return super()._render(login_error, (username or "")[:SHOWN_NAME], **names)


class LDAPAuthenticator(OneAccount):
    """Checks the cluster's own passwords; the groups are kept, and by them administrators have the portal's role."""

    admins_by_role = True

    site_file = Unicode("/etc/dsportal/site.toml", help="The settings file of the site.").tag(config=True)
    manage_groups = Bool(True).tag(config=True)
    allow_all = Bool(True, help="Who may log in is decided by the site's groups.").tag(config=True)
    auth_refresh_age = Integer(REFRESH_AGE_S).tag(config=True)
    auth_refresh_strict = Bool(True, help="Tokens of who may not go on are refused, too.").tag(config=True)
    refresh_pre_spawn = Bool(True).tag(config=True)
    trusted_proxies = List(Unicode(), help="Addresses and networks of proxies in front of the portal's.").tag(
        config=True
    )
    clock = staticmethod(time.monotonic)
    pause = staticmethod(asyncio.sleep)
    account_of = staticmethod(account_of)

    @cached_property
    def site(self) -> Site:
        """The site's settings."""
        return load(self.site_file)

    @property
    def _settings(self) -> LdapTable:
        if self.site.ldap is None:
            raise SiteError(self.site_file, ["ldap: missing; a portal on a cluster needs its LDAP servers"])
        return self.site.ldap

    @cached_property
    def directory(self) -> Directory:
        """The site's LDAP servers."""
        return Directory(self._settings, self.log, mentioned=self.site.groups_mentioned)

    @cached_property
    def access(self) -> Access:
        """What is known of those who are logged in."""
        folder = Path(self.site.portal.state_folder)
        return Access(self._settings, folder, self.log, mentioned=self.site.groups_mentioned)

    @classmethod
    def check_settings(cls, config: Config) -> None:
        """Refuse what would only be noticed at a login.

        Raises:
            SiteError: the file with the password of ``bind_dn`` cannot be used.
        """
        named = [config[section].site_file for section in cls.section_names() if "site_file" in config[section]]
        settings = load(named[-1]).ldap if named else None
        if settings:
            settings.read_bind_password()

    @cached_property
    def attempts(self) -> Attempts:
        """Who tried how often."""
        kept = Kept(Path(self.site.portal.state_folder) / KNOWN_FILE)
        return Attempts(known=KnownAddresses(kept))

    @cached_property
    def checks(self) -> again.Checks:
        """When each browser's session has given the password."""
        return again.Checks()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="ldap")

    @cached_property
    def _free_threads(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(THREADS)

    @cached_property
    def _few_strangers(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(STRANGERS_AT_ONCE)

    def get_handlers(self, app: Any) -> list[Any]:
        """The login page, what asks for the password again, and how an administrator enters a session."""
        enters = (r"/dsportal/enter/([^/]+)(?:/([^/]+))?", EnterHandler, {"address_of": self._address})
        return [("/login", ExactLoginHandler), *again.HANDLERS, enters]

    def _address(self, request: Any) -> str:
        return address_of(request, networks(self.trusted_proxies))

    def normalize_username(self, username: str) -> str:
        """Names are taken as they are: another spelling was refused before."""
        return username

    async def authenticate(self, handler: Any, data: Any) -> dict[str, object]:
        """Answer who this is; otherwise raise what the login page shows."""
        fields = data if isinstance(data, dict) else {}
        address = self._address(handler.request)
        login = self.directory.login_name(fields.get("username"))
        try:
            if login is None:
                raise LoginRefused(REFUSED, detail="not spelled like a user name")
            ask = partial(self.directory.verify, login.whole, check_password(fields.get("password")))
            tried = Tried(login.key, login.whole)
            known = partial(self._known, handler, tried, partial(ask, groups=not self.access.tells_groups))
            identity = await self.access.check_login(known, handler.find_user)
            if identity is None:  # the site's account says nothing: what the person sees of her groups counts
                identity = await self._verify(tried, address, ask)
                self.access.people.forget(identity.name)
        except DirectoryError as error:
            shown = login.whole if login and self._is_known(login, address, error, handler) else ""
            if not shown:  # is not told: people type passwords into the wrong field, and attackers type novels
                kind = "that is not known here" if login else "not spelled like one"
                shown = f"a name {kind} ({len(str(fields.get('username') or ''))} characters)"
            self.log.warning("No login of %s from %s: %s (%s)", shown, address, error.reason, error.detail)
            raise Refusal(error) from None
        return {"name": identity.name, "admin": None, "groups": sorted(identity.groups)}  # a role makes administrators

    def _is_known(self, login: LoginName, address: str, error: DirectoryError, handler: Any) -> bool:
        """Whether a name is somebody's, by the directory's word or because she was here."""
        if isinstance(error, NotAllowed) or getattr(error, "is_somebody", False):
            return True
        if self.attempts.knows(Tried(login.key, login.whole), address):
            return True
        return any(handler.find_user(name) for name in (login.name, login.key))

    async def _known(self, handler: Any, name: Tried, ask: Ask) -> Identity:
        found = await self._verify(name, self._address(handler.request), ask)
        check_account(found.name, await self.account_of(found.name))
        await self.hold(handler, found.name)
        return found

    async def refresh_user(self, user: Any, handler: Any = None, **_more: Any) -> bool | dict[str, object]:
        """Whether somebody who is logged in may go on; groups and administration follow the directory."""
        if user.name in self.blocked_users or self.is_seen_of_before(user.name):
            return False
        return await self.access.refresh(user)

    async def standings(self, names: Collection[str]) -> Mapping[str, Standing]:
        """What is known of these people, for the hub's own look at all of them."""
        return await self.access.people.standings(names)

    def new_passwords(self, standings: Mapping[str, Standing], end: Callable[[str], None]) -> set[str]:
        """Those whose password was set since the last look, when ``end`` has ended their logins."""
        return self.access.passwords.new(standings, end)

    @property
    def left(self) -> Kept:
        """Whose sessions go on though they left, which is known after a restart, too; the hub keeps it."""
        return self.access.left

    async def verify(self, handler: Any, name: str, password: str) -> None:
        """Check the password of somebody who is logged in; it counts like any other attempt.

        Raises:
            DirectoryError: it is wrong, or nobody can say.
        """
        ask = partial(self.directory.confirm, name, check_password(password))
        await self._verify(Tried(name.lower(), name), self._address(handler.request), ask)

    async def _verify(self, name: Tried, address: str, ask: Ask) -> Identity:
        """Ask LDAP, unless this name was tried too often from this address."""
        self.attempts.begin(name, address)
        answer_at = self.clock() + REFUSED_AFTER_S
        try:
            async with self._gate(name, address):
                identity = await self._in_thread(name, address, ask)
        except TooManyAttempts:
            self.attempts.take_back(name, address)
            raise
        except LoginRefused:
            await self.pause(answer_at - self.clock())
            raise
        except BaseException:
            self.attempts.take_back(name, address)
            raise
        self.attempts.forget(name, address, identity.name)
        return identity

    @asynccontextmanager
    async def _gate(self, name: Tried, address: str) -> AsyncIterator[None]:
        """While very many fail, strangers are few at a time: LDAP and our threads stay free for people we know."""
        if not self.attempts.is_flooded or self.attempts.knows(name, address):
            yield
            return
        try:
            async with asyncio.timeout(QUEUE_LIMIT_S):
                await self._few_strangers.acquire()
        except TimeoutError:
            raise DirectoryUnavailable(BUSY, detail="very many logins fail; strangers wait") from None
        try:
            yield
        finally:
            self._few_strangers.release()

    async def _in_thread(self, name: Tried, address: str, ask: Ask) -> Identity:
        """Ask LDAP in a thread of our own: a silent server stops neither the hub nor what else uses threads."""
        await self._acquire_thread()
        try:
            self.attempts.check(name, address)
        except TooManyAttempts:
            self._free_threads.release()
            raise
        verified = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, ask)
        verified.add_done_callback(partial(self._answered, name, address))
        try:
            # The thread ends by its own limits; nobody waits longer than that.
            return await asyncio.wait_for(asyncio.shield(verified), self.directory.limit_s + 1)
        except TimeoutError:
            raise DirectoryUnavailable(UNAVAILABLE, detail="no verdict in time") from None

    async def _acquire_thread(self) -> None:
        """Wait for a free thread, but not for one that only waits for silent servers."""
        waits = self._free_threads.locked()
        limit_s = 0 if waits and self.directory.is_silent else QUEUE_LIMIT_S
        try:
            async with asyncio.timeout(limit_s):
                await self._free_threads.acquire()
        except TimeoutError:
            message = UNAVAILABLE if self.directory.is_silent else BUSY
            raise DirectoryUnavailable(message, detail="no free thread for this login") from None
        if waits and self.directory.is_silent:
            self._free_threads.release()
            raise DirectoryUnavailable(UNAVAILABLE, detail="every server is silent; this login did not ask again")

    def _answered(self, name: Tried, address: str, verified: asyncio.Future[Identity]) -> None:
        """A thread is free again; what failed counts before the next one asks, also where nobody waits any more."""
        self._free_threads.release()
        if not verified.cancelled() and isinstance(verified.exception(), LoginRefused):
            self.attempts.failed(name, address)
