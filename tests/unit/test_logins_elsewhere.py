"""Logins at a provider: what is begun and ended there is the browser's own, as with the portal's login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.handlers import LogoutHandler
from jupyterhub.handlers.base import BaseHandler
from traitlets import Unicode

from tests.unit.served_hub import PASSWORD, served_hub

NAME = "oauthenticator-state"


class Begins(BaseHandler):  # type: ignore[misc]
    """As oauthenticator (17.4) keeps the state of a login that is begun."""

    def get(self) -> None:
        self._set_cookie(NAME, self.get_argument("state"), expires_days=1, httponly=True)
        self.set_cookie("at-the-provider", "yes", "localhost", None, "/hub/")


class Ends(BaseHandler):  # type: ignore[misc]
    """And as it reads it when the browser comes back."""

    def get(self) -> None:
        found = self.get_secure_cookie(NAME) or b""
        self.clear_cookie(NAME)
        self.finish(found)


class Leaves(LogoutHandler):  # type: ignore[misc]
    """And its logout, which leads to the provider's where the site has named that."""

    async def handle_logout(self) -> None:
        self.clear_cookie(NAME)

    async def render_logout_page(self) -> None:
        if self.authenticator.logout_redirect_url:
            self.redirect(self.authenticator.logout_redirect_url)
            return
        await super().render_logout_page()


class Elsewhere(SharedPasswordAuthenticator):  # type: ignore[misc]
    """A login at a provider."""

    logout_redirect_url = Unicode().tag(config=True)

    def get_handlers(self, app: Any) -> list[Any]:
        return [*super().get_handlers(app), ("/begin", Begins), ("/end", Ends), ("/logout", Leaves)]


@pytest.mark.parametrize("has_domain", [False, True])
async def test_a_login_that_is_begun_is_that_of_the_browser_where_it_was_begun(
    tmp_path: Path, has_domain: bool
) -> None:
    def prepare(hub: Any) -> None:
        hub.config.Elsewhere.user_password = PASSWORD

    kept = {"authenticator_class": Elsewhere, "cookie_host_prefix_enabled": has_domain}
    async with served_hub(tmp_path, prepare, **kept) as hub:
        alice, mallory = await hub.browser(), await hub.browser()
        https = {"X-Forwarded-Proto": "https"}

        async def begun(state: str) -> tuple[str, str]:
            set_there = (await mallory.get(f"/hub/begin?state={state}", headers=https)).headers.get_list("Set-Cookie")
            return next((one, one.partition(";")[0]) for one in set_there if NAME in one)

        async def ended(cookies: str) -> tuple[str, list[str]]:
            answer = await alice.get("/hub/end", headers={"Cookie": cookies, **https})
            return answer.text, [one for one in answer.headers.get_list("Set-Cookie") if NAME in one]

        (line, theirs), own = await begun("mallorys"), (await begun("alices"))[1]
        planted = f"{NAME}={theirs.partition('=')[2]}"  # for all of the domain

        assert (await ended(own))[0] == "alices"
        assert (await ended(f"{own}; {planted}"))[0] == ("alices" if has_domain else "mallorys")
        found, taken_away = await ended(planted)
        assert found == ("" if has_domain else "mallorys")
        for one in (line, *taken_away) if has_domain else ():
            assert one.startswith(f"__Host-{NAME}=")
            assert {"Path=/", "Secure", "HttpOnly"} <= set(one.split("; "))
            assert "Domain" not in one
        assert taken_away


@pytest.mark.parametrize("has_domain", [False, True])
async def test_a_cookie_of_an_authenticators_may_be_said_in_words_or_by_their_order(
    tmp_path: Path, has_domain: bool
) -> None:
    kept = {"authenticator_class": Elsewhere, "cookie_host_prefix_enabled": has_domain}
    async with served_hub(tmp_path, lambda hub: hub.config.Elsewhere.update(user_password=PASSWORD), **kept) as hub:
        answer = await (await hub.browser()).get("/hub/begin?state=x", headers={"X-Forwarded-Proto": "https"})

    (line,) = (one for one in answer.headers.get_list("Set-Cookie") if "at-the-provider" in one)
    name = "__Host-at-the-provider" if has_domain else "at-the-provider"
    place = {"Path=/"} if has_domain else {"Path=/hub/", "Domain=localhost"}
    assert set(line.split("; ")) == {f"{name}=yes", "HttpOnly", "SameSite=Lax", "Secure", *place}


@pytest.mark.parametrize(
    ("settings", "led_to", "words"),
    [
        ({}, "/hub/login", ""),
        ({"logout_redirect_url": "https://id.example.org/out"}, "https://id.example.org/out", ""),
        ({"auto_login": True}, None, "You are logged out"),
    ],
)
async def test_a_logout_of_an_authenticators_own_is_the_portals_first(
    tmp_path: Path, settings: dict[str, Any], led_to: str | None, words: str
) -> None:
    def prepare(hub: Any) -> None:
        hub.config.Elsewhere.update({"user_password": PASSWORD, **settings})

    async with served_hub(tmp_path, prepare, authenticator_class=Elsewhere) as hub:
        alice = await hub.browser("alice")
        alice.follow_redirects = False
        copied = {"Cookie": "; ".join(f"{name}={value}" for name, value in alice.cookies.items())}

        async def status() -> int:
            return (await (await hub.browser()).get("/hub/token", headers=copied, follow_redirects=False)).status_code

        asked = await alice.get("/hub/logout", headers={"Sec-Fetch-Site": "cross-site"})
        assert (asked.status_code, "Log out?" in asked.text, asked.headers.get_list("Set-Cookie")) == (200, True, [])
        assert await status() == 200, "a link ends nothing"

        ended = await alice.post("/hub/logout", data={"_xsrf": alice.cookies["_xsrf"]})

        assert (ended.headers.get("Location"), words in ended.text) == (led_to, True)
        assert any(NAME in one for one in ended.headers.get_list("Set-Cookie")), "what its own does is done, too"
        assert await status() == 302, "what was copied of the login is worth nothing"


class WithSlash(Elsewhere):
    """Its logout has another pattern than JupyterHub's."""

    def get_handlers(self, app: Any) -> list[Any]:
        return [*super().get_handlers(app)[:-1], (app.config.WithSlash.pattern, Leaves)]


@pytest.mark.parametrize("pattern", ["/logout/?", "/logout(?:/|/all)?", "/logout/"])
async def test_a_logout_of_an_authenticators_own_is_the_portals_first_whatever_its_pattern(
    tmp_path: Path, pattern: str
) -> None:
    def prepare(hub: Any) -> None:
        hub.config.WithSlash.update({"user_password": PASSWORD, "pattern": pattern})

    async with served_hub(tmp_path, prepare, authenticator_class=WithSlash) as hub:
        alice = await hub.browser("alice")
        alice.follow_redirects = False
        for place in ("/hub/logout", "/hub/logout/"):
            asked = await alice.get(place, headers={"Sec-Fetch-Site": "cross-site"})
            assert ("Log out?" in asked.text, asked.headers.get_list("Set-Cookie")) == (True, []), place

        ended = await alice.post("/hub/logout/", data={"_xsrf": alice.cookies["_xsrf"]})

        assert any(NAME in one for one in ended.headers.get_list("Set-Cookie")), "what its own does is done, too"
        assert (await alice.get("/hub/token")).status_code == 302
