"""The session's token: kept for the server, and in no environment that a child of it gets."""

from __future__ import annotations

from portal.singleuser.hub_token import HubToken


def test_the_token_is_kept_and_leaves_the_environment_under_every_name() -> None:
    environ = {"JUPYTERHUB_API_TOKEN": "secret", "JPY_API_TOKEN": "secret", "JUPYTERHUB_USER": "alice"}
    token = HubToken()

    token.take(environ)

    assert token.text == "secret"
    assert environ == {"JUPYTERHUB_USER": "alice"}


def test_the_token_under_its_old_name_alone_is_taken_too() -> None:
    token = HubToken()
    token.take(environ := {"JPY_API_TOKEN": "secret"})
    assert (token.text, environ) == ("secret", {})


def test_a_token_that_is_taken_twice_stays() -> None:
    token = HubToken()
    token.take({"JUPYTERHUB_API_TOKEN": "secret"})
    token.take({})
    assert token.text == "secret"


def test_the_token_is_not_shown_where_the_object_is_printed() -> None:
    token = HubToken()
    token.take({"JUPYTERHUB_API_TOKEN": "secret"})
    assert "secret" not in f"{token} {token!r}"
