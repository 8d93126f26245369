"""What the hub's database is told of a login, on a served hub."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from jupyterhub import orm
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from sqlalchemy import event

from portal.login.auth import ExactLoginHandler
from tests.unit.served_hub import PASSWORD, served_hub


class OnOurPage(SharedPasswordAuthenticator):  # type: ignore[misc]
    """JupyterHub's login of one password for all, on the portal's login page."""

    page: ClassVar[Any] = ExactLoginHandler

    manage_groups = True

    def get_handlers(self, app: Any) -> list[Any]:
        return [("/login", self.page)]

    async def authenticate(self, handler: Any, data: Any) -> dict[str, Any] | None:
        found = await super().authenticate(handler, data)
        return {**found, "groups": ["staff"]} if found else None


async def sends(browser: httpx.AsyncClient) -> int:
    """Alice's name and password, and the status of what answers."""
    await browser.get("/hub/login")
    fields = {"username": "alice", "password": PASSWORD, "_xsrf": browser.cookies["_xsrf"]}
    return (await browser.post("/hub/login", data=fields, follow_redirects=False)).status_code


def prepare(hub: Any) -> None:
    """The password for all."""
    hub.config.OnOurPage.user_password = PASSWORD


async def test_a_first_login_is_one_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Noted(ExactLoginHandler):
        def set_login_cookie(self, user: Any) -> None:
            done.append("cookie")
            super().set_login_cookie(user)

    monkeypatch.setattr(OnOurPage, "page", Noted)
    async with served_hub(tmp_path, prepare, authenticator_class=OnOurPage) as served:
        event.listen(served.hub.db, "after_commit", lambda _: done.append("kept"))
        event.listen(served.hub.db.get_bind(), "before_cursor_execute", lambda *told: done.append(told[2]))

        assert await sends(await served.browser()) == 302

        done = [" ".join(words.split()[:3]) for words in done if not words.startswith("SELECT")]
        first, after = done.index("INSERT INTO users"), done[: done.index("cookie")]
        assert "kept" in after
        assert "INSERT INTO user_group_map" in done[first : done.index("kept", first)]
        assert set(after[after.index("kept", first) :]) == {"kept"}
        assert done[-1] == "cookie"
        served.hub.db.rollback()
        alice = orm.User.find(served.hub.db, "alice")
        assert alice.last_activity
        assert [row.name for row in (*alice.roles, *alice.groups)] == ["user", "staff"]
        assert list(alice.orm_spawners) == [""]


@pytest.mark.parametrize("what", ["INSERT INTO user_group_map", "INSERT INTO spawners"])
async def test_a_first_login_that_cannot_be_kept_leaves_nobody_behind(tmp_path: Path, what: str) -> None:
    def is_full(*told: Any) -> None:
        if told[2].startswith(what):
            raise sqlite3.OperationalError("database or disk is full")

    async with served_hub(tmp_path, prepare, authenticator_class=OnOurPage) as served:
        event.listen(served.hub.db.get_bind(), "before_cursor_execute", is_full)
        assert await sends(await served.browser()) == 503
        event.remove(served.hub.db.get_bind(), "before_cursor_execute", is_full)

        assert (orm.User.find(served.hub.db, "alice"), len(served.hub.users)) == (None, 0)
        assert await sends(await served.browser()) == 302
        assert [row.name for row in orm.User.find(served.hub.db, "alice").groups] == ["staff"]
