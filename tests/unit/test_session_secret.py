"""A session's token in what the hub saves and shows: closed with a key of the hub's own."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from jupyterhub import orm
from traitlets.config import Config

from portal.errors import SiteError
from portal.hub import config
from portal.hub.context import SETTING, HubContext, state_of
from portal.session_state import SessionState, TokenSeal
from spawners.slurm import SlurmSessionSpawner
from tests.unit.test_session_environment import spawner_with

TOKEN = "0123456789abcdef0123456789abcdef"
RUNNING = SessionState("abc1230123456789", "17", TOKEN, 40123)


@pytest.fixture
def spawner() -> Any:
    """Alice's spawner, whose session runs."""
    (made,) = spawner_with(Config())
    made.session.load(RUNNING)
    return made


def test_what_an_administrator_reads_of_a_session_holds_nothing_that_opens_it(spawner: SlurmSessionSpawner) -> None:
    shown = json.dumps(spawner.get_state())
    spawner._save(RUNNING)

    assert "abc1230123456789" in shown
    assert TOKEN not in shown
    assert TOKEN not in json.dumps(spawner.orm_spawner.state)


def test_a_hub_that_comes_back_has_the_sessions_token_again(spawner: SlurmSessionSpawner) -> None:
    saved = json.loads(json.dumps(spawner.get_state()))
    spawner.session.load(SessionState())

    spawner.load_state(saved)

    assert spawner.session.state == RUNNING
    assert spawner.api_token == TOKEN


def test_a_state_of_before_there_was_a_key_is_read(spawner: SlurmSessionSpawner) -> None:
    spawner.load_state(RUNNING.to_json())

    assert spawner.api_token == TOKEN


def test_with_another_key_the_session_is_known_and_its_token_is_not() -> None:
    closed = TokenSeal().closed(RUNNING.to_json())

    opened = SessionState.from_json(TokenSeal().opened(closed))

    assert (opened.key, opened.job_id, opened.port, opened.token) == (RUNNING.key, "17", 40123, "")


def test_a_row_of_the_database_is_read_with_the_hubs_key() -> None:
    db = orm.new_session_factory("sqlite:///:memory:")()
    context = HubContext("abc123", None)
    row = orm.Spawner(name="", user=orm.User(name="alice"), state=context.seal.closed(RUNNING.to_json()))
    db.add(row)
    db.commit()

    without_hub = state_of(row)
    db.info[SETTING] = context

    assert (without_hub.key, without_hub.token) == (RUNNING.key, "")
    assert state_of(row) == RUNNING
    db.close()


def test_the_key_is_shown_by_nothing() -> None:
    context = HubContext("abc123", None)

    assert context.seal.key.decode() not in repr(context)


def test_the_key_is_made_once_and_only_the_hubs_account_reads_it(tmp_path: Path) -> None:
    key = config._session_key(tmp_path).read_bytes()

    assert config._session_key(tmp_path).read_bytes() == key
    assert stat.S_IMODE((tmp_path / "session_key").stat().st_mode) == 0o600
    assert TokenSeal(key).opened(TokenSeal(key).closed({"token": TOKEN})) == {"token": TOKEN}


def test_a_key_that_is_none_is_refused_with_what_to_do_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "session_key").write_text("half a key")

    with pytest.raises(SiteError, match="restore it from a backup") as refused:
        config._session_key(tmp_path)

    assert "half a key" not in str(refused.value)
