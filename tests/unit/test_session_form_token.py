"""A session takes the token of its own login, whatever number of the browser's session other hosts have left."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from jupyterhub import _xsrf_utils
from jupyterhub.services.auth import HubOAuth
from jupyterhub.singleuser import extension
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application, HTTPError, RequestHandler

from portal.singleuser.hub_token import HubToken

SECRET = b"k" * 32
OF_THE_HUB = "a" * 32
FROM_A_PAGE = {"Host": "carol.portal.example.org", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def auth(monkeypatch: pytest.MonkeyPatch) -> Any:
    """JupyterHub's part of a session's server, as the portal gives it."""
    monkeypatch.setattr(extension, "HubOAuth", HubOAuth)
    HubToken().give_to_server()
    names = {"base_url": "/user/carol/", "oauth_client_id": "jupyterhub-user-carol"}
    return extension.HubOAuth(api_token="x", api_url="http://hub/hub/api", **names)


def asking(auth: Any, method: str, login: str, *cookies: str, token: str = "") -> Any:
    """Who asks a session with these cookies, and with a token of a page."""
    headers = HTTPHeaders({"Cookie": "; ".join(cookies), "X-XSRFToken": token, **FROM_A_PAGE})
    line = RequestStartLine(method, "/user/carol/api/contents/x", "HTTP/1.1")
    request = HTTPServerRequest(start_line=line, headers=headers, connection=mock.Mock())
    request.remote_ip = "192.0.2.1"
    handler: Any = RequestHandler(Application([], cookie_secret=SECRET), request)
    handler._hub_auth_token_cookie = login
    handler._xsrf_token_id = auth._get_xsrf_token_id(handler)
    return handler


def numbers(*given: str) -> list[str]:
    return [f"jupyterhub-session-id={number}" for number in given]


def token_of(auth: Any, login: str, *given: str) -> str:
    """The token of a page that was opened with these numbers."""
    made: bytes = _xsrf_utils.get_xsrf_token(asking(auth, "GET", login, *numbers(*given)), auth.base_url)
    return made.decode()


def is_taken(auth: Any, login: str, token: str, *given: str) -> bool:
    """Whether somebody saves with that token, and with these numbers."""
    handler = asking(auth, "PUT", login, *numbers(*given), f"_xsrf={token}", token=token)
    return bool(_xsrf_utils.get_xsrf_token(handler, auth.base_url) == token.encode())


@pytest.mark.parametrize("first", [[OF_THE_HUB], [OF_THE_HUB, "1" * 32], ["1" * 32], []])
@pytest.mark.parametrize("then", [[OF_THE_HUB], [OF_THE_HUB, "2" * 32], ["2" * 32], ["x:y"], []])
def test_no_number_that_a_page_leaves_or_takes_away_keeps_anybody_from_saving(
    auth: Any, first: list[str], then: list[str]
) -> None:
    assert is_taken(auth, "the login", token_of(auth, "the login", *first), *then)


@pytest.mark.parametrize("other", ["another login", ""])
def test_the_token_of_another_login_or_of_none_saves_nothing(auth: Any, other: str) -> None:
    assert not is_taken(auth, "the login", token_of(auth, other, OF_THE_HUB), OF_THE_HUB)


def test_a_token_that_another_server_has_signed_saves_nothing(auth: Any) -> None:
    with mock.patch(f"{__name__}.SECRET", b"m" * 32):
        others = token_of(auth, "the login", OF_THE_HUB)
    assert not is_taken(auth, "the login", others, OF_THE_HUB)


def test_a_request_without_a_token_is_refused_as_before(auth: Any) -> None:
    handler = asking(auth, "PUT", "the login", *numbers(OF_THE_HUB), f"_xsrf={token_of(auth, 'the login', OF_THE_HUB)}")
    with pytest.raises(HTTPError) as refused:
        _xsrf_utils.check_xsrf_cookie(handler)
    assert refused.value.status_code == 403
