"""What an authenticator of a site's keeps in a browser: no other host of the site can put its own there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.handlers.base import BaseHandler

from tests.unit.served_hub import PASSWORD, served_hub

NAME = "oauthenticator-state"


class Begins(BaseHandler):  # type: ignore[misc]
    """As oauthenticator (17.4) keeps the state of a login that is begun."""

    def get(self) -> None:
        self._set_cookie(NAME, self.get_argument("state"), expires_days=1, httponly=True)


class Ends(BaseHandler):  # type: ignore[misc]
    """And as it reads it when the browser comes back."""

    def get(self) -> None:
        found = self.get_secure_cookie(NAME) or b""
        self.clear_cookie(NAME)
        self.finish(found)


class Elsewhere(SharedPasswordAuthenticator):  # type: ignore[misc]
    """A login at a provider."""

    def get_handlers(self, app: Any) -> list[Any]:
        return [*super().get_handlers(app), ("/begin", Begins), ("/end", Ends)]


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
