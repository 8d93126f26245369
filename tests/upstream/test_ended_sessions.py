"""The portal's own pages on the same hub: a session that is stopped is kept, and its person reads of it, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ChoiceLoader, FileSystemLoader
from jupyterhub.tests.utils import add_user, api_request, get_page

from portal.databases import ended_sessions as store

pytestmark = pytest.mark.usefixtures("our_pages")
TEMPLATES = Path(__file__).parents[2] / "templates" / "hub"


async def told(app: Any, name: str) -> list[dict[str, Any]]:
    """What REST tells somebody."""
    answer = await api_request(app, "dsportal/sessions", name=name)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["sessions"]
    return found


async def home(app: Any, name: str) -> str:
    """Somebody's home page, of the portal's own templates."""
    env = app.tornado_settings["jinja2_env"]
    if not isinstance(env.loader.loaders[0], FileSystemLoader):
        env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), env.loader])
    answer = await get_page("home", app, cookies=await app.login_user(name))
    assert answer.status_code == 200
    return str(answer.text)


async def test_a_session_that_its_person_stops_is_kept_once_and_told_to_nobody_else(app: Any) -> None:
    alice = add_user(app.db, app, name="alice")
    add_user(app.db, app, name="bob")
    started = await api_request(app, "users/alice/server", method="post", name="alice", data='{"gpus": 1, "hours": 2}')
    assert started.status_code == 201, started.text

    await api_request(app, "users/alice/server", method="delete", name="alice")
    async with asyncio.timeout(30):
        while alice.spawner.pending:  # noqa: ASYNC110  JupyterHub has no event for it
            await asyncio.sleep(0.1)

    (one,) = await told(app, "alice")
    assert one["reason"] == "You stopped the session."
    assert one["options"] == {"partition": "sxm2", "gpus": 1, "hours": 2}
    assert one["job_id"]
    assert one["started_at"]
    assert await told(app, "bob") == []
    page = await home(app, "alice")
    assert "You stopped the session." in page
    assert "spawn?opt-partition=sxm2&amp;opt-gpus=1&amp;opt-hours=2" in page
    assert "Ended sessions" not in await home(app, "bob")
    assert len(app.db.execute(store.TABLE.select()).all()) == 1

    app.db.delete(alice.orm_user)
    app.db.commit()
    assert app.db.execute(store.TABLE.select()).all() == []
