"""Addresses of JupyterHub (6.1) that fail, or work for long, where they are asked wrongly; two are of JupyterHub 1."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from jupyterhub import orm
from jupyterhub.apihandlers import APIHandler
from jupyterhub.apihandlers.auth import OAuthAuthorizeHandler, OAuthTokenHandler
from tornado import web

from portal.guard.texts import NO_BODY, check_bytes
from portal.language.texts import N_, _

WORDS = "This address is gone. Who somebody is says /hub/api/user; tokens are made at /hub/api/users/NAME/tokens."
SCOPES_MOST = 100
MANY_SCOPES = f"A login asks for {SCOPES_MOST} scopes at most."
BEGUN_MOST = 100  # logins of one person into one session, as of those that have ended (portal/databases/old_logins.py)
BODY_MAX = 2**14  # bytes of what was allowed
# RFC 6749, 4.1.1, and RFC 7636, 4.3; of any other the library makes an attribute of its request, such as its user
ASKED = ("response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method")
NOT_THERE = N_("There is nothing here that you may open: it has ended, or it is somebody else's.")
NO_QUERY = "What is asked for stands in the body here."


class GoneHandler(APIHandler):  # type: ignore[misc]
    """404 to every method."""

    def prepare(self) -> None:
        """Refuse."""
        raise web.HTTPError(404, WORDS)

    def get(self, *_: Any) -> None:
        """Not reached; it has JupyterHub take this for a page of its own."""


class AuthorizeHandler(OAuthAuthorizeHandler):  # type: ignore[misc]
    """Where a session or a service sends who logs in."""

    @web.authenticated
    async def get(self) -> None:
        """Ask who logs in, or send them back (RFC 6749, 4.1.1)."""
        self._check()
        self._check_may_enter()
        await super().get()
        self._keep_few()

    def post(self) -> None:
        """What was allowed."""
        self._check()
        self._check_may_enter()
        super().post()
        self._keep_few()

    def extract_oauth_params(self) -> tuple[str, str, str, Any]:
        """All of it stands in the address: oauthlib (3.3) would take it out of any body as well, whatever its type."""
        uri, method, _body, headers = super().extract_oauth_params()
        place = urlsplit(uri)
        asked = [one for one in parse_qsl(place.query, keep_blank_values=True) if one[0] in ASKED]
        return place._replace(query=urlencode(asked)).geturl(), method, "", headers

    def _check(self) -> None:
        if self.request.method == "GET" and self.request.body:
            raise web.HTTPError(400, NO_BODY)
        if len(self.request.body) > BODY_MAX:
            raise web.HTTPError(413)
        for asked in (self.get_query_arguments("scope"), self.get_arguments("scopes")):  # what was, and what is allowed
            if sum(len(one.split()) for one in asked) > SCOPES_MOST:
                raise web.HTTPError(400, MANY_SCOPES)

    def _check_may_enter(self) -> None:
        """Whether there is such a session, or service, who may not enter it is not told."""
        asked = self.get_query_argument("client_id", "")
        if self.current_user is None or not asked:
            return
        client = self.oauth_provider.fetch_by_client_id(asked)
        if client is None or not self._may_enter(client):
            raise web.HTTPError(403, _(NOT_THERE))

    def _may_enter(self, client: Any) -> bool:
        if client.spawner:
            return bool(self.get_scope_filter("access:servers")(client.spawner, kind="server"))
        return bool(client.service and self.get_scope_filter("access:services")(client.service, kind="service"))

    def _keep_few(self) -> None:
        """Of one person's logins into one session that are begun and not ended the newest count.

        JupyterHub (6.1) takes them away one by one when the session stops.
        """
        if self.current_user is None:
            return
        client = self.get_query_argument("client_id", "")
        theirs = self.db.query(orm.OAuthCode).filter_by(user_id=self.current_user.id, client_id=client)
        number = orm.OAuthCode.id
        old = theirs.order_by(number.desc()).with_entities(number).offset(BEGUN_MOST).limit(1).scalar()
        if old is not None:
            theirs.filter(number <= old).delete(synchronize_session=False)
            self.db.commit()


class LoginTokenHandler(OAuthTokenHandler):  # type: ignore[misc]
    """What a session asks for the token of who logs in."""

    def post(self) -> None:
        """Give it for a code, which stands in the body (RFC 6749, 4.1.3)."""
        check_bytes(self.request.body)
        if self.request.query:
            raise web.HTTPError(400, NO_QUERY)
        super().post()


HANDLERS = (
    (r"/api/authorizations/token", GoneHandler),
    (r"/api/authorizations/token/([^/]+)", GoneHandler),
    (r"/api/oauth2/authorize", AuthorizeHandler),
    (r"/api/oauth2/token", LoginTokenHandler),
)
