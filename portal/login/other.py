"""Another authenticator of JupyterHub than the portal's: its names become UNIX names by the site's rule.

A session runs as the UNIX account that has the person's name. So what an authenticator answers is a name of this host,
or nobody is let in::

    class SiteLogin(SiteRules, GenericOAuthenticator):
        pass
"""

from __future__ import annotations

from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.utils import maybe_future
from traitlets import CaselessStrEnum, List, Unicode

from portal.directory.names import NameRule, login_name
from portal.errors import DirectoryError, NotAllowed
from portal.login.auth import Refusal
from portal.login.system_accounts import account_of, check_account


class SiteRules(Authenticator):  # type: ignore[misc]
    """Stands before an authenticator; groups are that one's (``manage_groups``, ``allowed_groups``)."""

    login_domains = List(Unicode(), help="Domains that are taken off: corp.example of alice@corp.example.").tag(
        config=True
    )
    capitals = CaselessStrEnum(["refuse", "lower"], "refuse", help="What becomes of a name with capitals.").tag(
        config=True
    )
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
            return {**model, "name": await self._unix_name(str(model["name"]))}
        except DirectoryError as error:
            self.log.warning("No login: %s (%s)", error.reason, error.detail)
            raise Refusal(error) from None

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> Any:
        """What the authenticator answers of somebody who is logged in, with the UNIX name; one without it has left."""
        answer = await maybe_future(super().refresh_user(user, handler, **more))
        if not isinstance(answer, dict) or not answer.get("name"):
            return answer
        try:
            return {**answer, "name": await self._unix_name(str(answer["name"]))}
        except DirectoryError as error:
            self.log.warning("%s may not go on: %s", user.name, error.detail)
            return False

    async def _unix_name(self, name: str) -> str:
        found = login_name(NameRule(tuple(self.login_domains), self.capitals), name)
        if found is None:
            why = f"{name[:80]!r} cannot be the name of an account on this cluster"
            raise NotAllowed(f"You are known, but {why}. Tell your administrator.", detail=why)
        check_account(found.name, await self.account_of(found.name))
        return found.name
