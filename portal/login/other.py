"""Another authenticator of JupyterHub than the portal's: its names become UNIX names by the site's rule.

A session runs as the UNIX account that has the person's name. So what an authenticator answers is a name of this host,
or nobody is let in::

    class SiteLogin(SiteRules, GenericOAuthenticator):
        pass
"""

from __future__ import annotations

from typing import Any

from jupyterhub.auth import LocalAuthenticator
from jupyterhub.utils import maybe_future
from tornado import web
from traitlets import Bool, CaselessStrEnum, List, Unicode

from portal.directory.names import NameRule, login_name
from portal.errors import DirectoryError, NotAllowed
from portal.language.texts import _
from portal.login.attempts import Refusal
from portal.login.holders import OneAccount
from portal.login.system_accounts import account_of, check_account, in_time

VERDICTS = (401, 403)  # with which an authenticator itself refuses somebody, as it does at a login


class SiteRules(OneAccount):
    """Stands before an authenticator; groups are that one's (``manage_groups``, ``allowed_groups``)."""

    login_domains = List(Unicode(), help="Domains that are taken off: corp.example of alice@corp.example.").tag(
        config=True
    )
    capitals = CaselessStrEnum(["refuse", "lower"], "refuse", help="What becomes of a name with capitals.").tag(
        config=True
    )
    auth_refresh_strict = Bool(True, help="Tokens of who may not go on are refused, too.").tag(config=True)
    account_of = staticmethod(account_of)

    def normalize_username(self, username: str) -> str:
        """Names are taken as the rule makes them; no other spelling is the same person."""
        return username

    async def authenticate(self, handler: Any, data: Any = None, **more: Any) -> Any:
        """What the authenticator answers, with the UNIX name; somebody without one is refused."""
        answer = await maybe_future(super().authenticate(handler, data, **more))
        if not answer:
            return answer
        model = dict(answer) if isinstance(answer, dict) else {"name": answer}
        try:
            name = await self._unix_name(str(model["name"]))
            await self.hold(handler, name)
            return {**model, "name": name}
        except DirectoryError as error:
            self.log.warning("No login: %s (%s)", error.reason, error.detail)
            raise Refusal(error) from None

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
        """Whether somebody who is logged in may go on: what the authenticator answers, by the rules of a login.

        JupyterHub asks each ``auth_refresh_age``, and compares groups and accounts with nothing itself.
        """
        try:
            answer = await maybe_future(super().refresh_user(user, handler, **more))
        except Exception as error:  # a provider that does not answer says nothing about anybody
            if isinstance(error, web.HTTPError) and error.status_code in VERDICTS:
                self.log.warning("%s may not go on: %s", user.name, error)
                return False
            self.log.warning("Nobody says whether %s may go on, so they do: %s", user.name, error)
            return True
        if not answer:
            return False
        try:
            return await self._going_on(user, answer)
        except (DirectoryError, web.HTTPError) as error:
            self.log.warning("%s may not go on: %s", user.name, getattr(error, "detail", error))
            return False

    async def _going_on(self, user: Any, answer: Any) -> Any:
        if not isinstance(answer, dict):  # nothing new is known; this host may have changed
            check_account(user.name, await self.account_of(user.name))
            if isinstance(self, LocalAuthenticator):
                return await self._is_allowed(user.name, {})
            return bool(await maybe_future(self.check_blocked_users(user.name, {})))
        model = {**answer, "name": await self._unix_name(str(answer.get("name") or user.name))}
        if model["name"] != user.name:
            raise NotAllowed("", detail=f"the authenticator calls them {model['name'][:80]!r} now")
        return model if await self._is_allowed(user.name, model) else False

    async def _is_allowed(self, name: str, model: dict[str, Any]) -> bool:
        """What JupyterHub asks at a login; a name service that is silent keeps nobody out."""
        if not await maybe_future(self.check_blocked_users(name, model)):
            return False
        if self.allow_all:
            return True
        if isinstance(self, LocalAuthenticator):  # the groups of this host: it blocks
            return bool(await in_time(lambda: self._is_member(name, model)) is not False)
        return bool(await maybe_future(self.check_allowed(name, model)))

    def _is_member(self, name: str, model: dict[str, Any]) -> bool:
        try:
            return bool(self.check_allowed(name, model))
        except KeyError:  # no account any more
            return False

    async def _unix_name(self, name: str) -> str:
        found = login_name(NameRule(tuple(self.login_domains), self.capitals), name)
        if found is None:
            why = f"{name[:80]!r} cannot be the name of an account on this cluster"
            told = _(
                "You are known, but {name} cannot be the name of an account on this cluster. Tell your administrator."
            )
            raise NotAllowed(told.format(name=repr(name[:80])), detail=why)
        check_account(found.name, await self.account_of(found.name))
        return found.name
