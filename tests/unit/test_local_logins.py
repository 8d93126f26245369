"""In the local mode a login ends with the start that it belongs to, as the password does."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from traitlets.config import Config

from portal.hub import config
from portal.site import Site
from tests.unit.served_hub import served_hub


def test_the_local_mode_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "default_handlers", [])
    c = Config()

    config.configure_local(c, Site(), str(tmp_path), "of this start")

    assert c.PortalHub.logins_end_at_start is True


@pytest.mark.parametrize("ends", [True, False], ids=["local", "cluster"])
async def test_who_had_the_port_meanwhile_and_was_told_a_cookie_is_not_let_in_at_the_next_start(
    tmp_path: Path, ends: bool
) -> None:
    async with served_hub(tmp_path) as before:
        browser = await before.browser("alice")
        cookies = dict(browser.cookies)
        token = before.token("alice")

    async with (
        served_hub(tmp_path, logins_end_at_start=ends) as after,
        httpx.AsyncClient(base_url=after.url, cookies=cookies) as client,
    ):
        assert (await client.get("/hub/home")).status_code == (302 if ends else 200)
        client.cookies.clear()
        program = await client.get("/hub/api/user", headers={"Authorization": f"token {token}"})
        assert program.json()["name"] == "alice", "what somebody has made for a program goes on"
