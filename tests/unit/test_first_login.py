"""What the hub's database is told of a login, on a served hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from jupyterhub import orm
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from sqlalchemy import event

from portal.login.auth import ExactLoginHandler
from tests.unit.served_hub import PASSWORD, served_hub


class OnOurPage(SharedPasswordAuthenticator):  # type: ignore[misc]
    """JupyterHub's login of one password for all, on the portal's login page."""

    page: ClassVar[Any] = ExactLoginHandler

    def get_handlers(self, app: Any) -> list[Any]:
        return [("/login", self.page)]


async def test_a_first_login_is_noted_without_a_change_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(hub: Any) -> None:
        hub.config.OnOurPage.user_password = PASSWORD

    done: list[str] = []

    class Noted(ExactLoginHandler):
        def set_login_cookie(self, user: Any) -> None:
            done.append("cookie")
            super().set_login_cookie(user)

    monkeypatch.setattr(OnOurPage, "page", Noted)
    async with served_hub(tmp_path, prepare, authenticator_class=OnOurPage) as served:
        event.listen(served.hub.db, "after_commit", lambda _: done.append("kept"))
        asked: list[str] = []
        event.listen(served.hub.db.get_bind(), "before_cursor_execute", lambda *told: asked.append(told[2]))
        browser = await served.browser()
        await browser.get("/hub/login")
        fields = {"username": "alice", "password": PASSWORD, "_xsrf": browser.cookies["_xsrf"]}

        assert (await browser.post("/hub/login", data=fields, follow_redirects=False)).status_code == 302

        assert "kept" in done[: done.index("cookie")] and done[-1] == "cookie"
        assert [words for words in asked if words.startswith("INSERT INTO users")]
        assert [words for words in asked if words.startswith("UPDATE users SET encrypted_auth_state")] == []
        served.hub.db.rollback()
        assert orm.User.find(served.hub.db, "alice").last_activity
