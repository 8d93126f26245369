"""A state folder that is not where its portal was: refused until somebody says what it is."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from jupyterhub import orm

from portal import cli
from portal.errors import PortalError
from portal.hub import database
from portal.hub.state_place import StateElsewhere, adopt, check, check_account, fault, number, separate


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The folder of a portal with three people: a session that runs, one that waits, and one that is over."""
    folder = tmp_path / "first"
    folder.mkdir()
    number(folder)
    db = orm.new_session_factory(f"sqlite:///{folder / database.FILE}")()
    states = {"runs": {"key": "abc", "job_id": "1"}, "waits": {"key": "def"}, "over": {"last_end": "It ended."}}
    for name, state in states.items():
        user = orm.User(name=name)
        session = orm.Spawner(name="", user=user, state=state)
        if name == "runs":
            session.server = orm.Server(proto="http", ip="gpu01", port=7000, base_url="/user/runs/")
        db.add_all([user, session])
    db.commit()
    db.close()
    db.get_bind().dispose()
    (folder / "proxy").mkdir()
    (folder / "proxy" / "plan.json").write_text("{}")
    return folder


@pytest.fixture
def copy(first: Path) -> Path:
    """A copy of it beside."""
    made = first.with_name("copy")
    shutil.copytree(first, made)
    return made


def rows(folder: Path) -> list[tuple[str, bool, object]]:
    """Each person, whether there is a server, and the state of the session."""
    db = orm.new_session_factory(f"sqlite:///{folder / database.FILE}")()
    found = [(row.user.name, row.server is not None, row.state) for row in db.query(orm.Spawner).all()]
    db.close()
    db.get_bind().dispose()
    return found


def site_of(folder: Path) -> Path:
    """A settings file for it."""
    file = folder.with_suffix(".toml")
    file.write_text(f'[portal]\nstate_folder = "{folder}"\n')
    return file


def test_a_restart_changes_nothing(first: Path) -> None:
    assert number(first) == number(first)
    assert fault(first) == ""


def test_a_folder_that_is_new_or_empty_has_no_fault(tmp_path: Path) -> None:
    check(tmp_path)
    check(tmp_path / "missing")


@pytest.mark.parametrize("command", ["up", "down", "proxy"])
def test_nothing_is_done_on_a_copy_and_both_ways_out_are_told(
    copy: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in copy.iterdir()}

    assert cli.main([command, "--site", str(site_of(copy))]) == 1

    said = capsys.readouterr().err
    assert f"is that of a portal at {os.uname().nodename}:{copy.with_name('first')}, and is at" in said
    assert "portal state adopt" in said
    assert "portal state separate" in said
    assert {file.name: file.stat().st_mtime_ns for file in copy.iterdir()} == before


def test_another_host_with_the_same_path_is_another_place(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.hub.state_place.os.uname", lambda: SimpleNamespace(nodename="elsewhere"))

    with pytest.raises(StateElsewhere, match=f"and is at elsewhere:{first} now"):
        number(first)


def test_a_portal_that_has_moved_keeps_its_number_and_its_sessions(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = number(first)
    moved = first.rename(first.with_name("moved"))

    assert cli.main(["state", "adopt", "--site", str(site_of(moved))]) == 0

    assert "its sessions go on" in capsys.readouterr().out
    assert number(moved) == before
    assert len([state for _, _, state in rows(moved) if isinstance(state, dict) and "key" in state]) == 2


def test_a_copy_is_not_adopted_while_its_portal_runs(first: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first / "hub.pid").write_text(str(os.getpid()))
    monkeypatch.setattr("portal.hub.state_place.runs", lambda folder: folder == first)

    with pytest.raises(StateElsewhere, match="still runs: end it first"):
        adopt(copy)
    with pytest.raises(StateElsewhere):
        check(copy)


def test_a_copy_becomes_a_portal_of_its_own_that_knows_no_session(
    first: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["state", "separate", "--site", str(site_of(copy))]) == 0

    assert "it has forgotten 2 sessions" in capsys.readouterr().out
    assert number(copy) != number(first)
    assert rows(copy) == [("runs", False, None), ("waits", False, None), ("over", False, None)]
    assert [has_server for _, has_server, _ in rows(first)] == [True, False, False]
    assert not (copy / "proxy").exists()


def test_a_portal_that_is_at_home_is_not_separated_by_mistake(first: Path) -> None:
    before = rows(first)

    with pytest.raises(StateElsewhere, match="it is no copy, and nothing was changed"):
        separate(first, f"sqlite:///{first / database.FILE}")
    assert rows(first) == before


@pytest.mark.parametrize("act", ["adopt", "separate", "down", "proxy", "upgrade"])
def test_root_does_nothing_in_a_folder_of_another_account(
    first: Path, act: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = first.with_name("elsewhere.txt")
    elsewhere.write_text("root's own")
    (first / "hub_place.new").symlink_to(elsewhere)
    (first / database.FILE).chmod(0o600)
    site = site_of(first)
    own = pwd.getpwuid(first.stat().st_uid or pwd.getpwnam("nobody").pw_uid)
    if os.geteuid() == 0:
        os.chown(first, own.pw_uid, -1)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    verbs = {"adopt": ["state", "adopt"], "separate": ["state", "separate"], "upgrade": ["database", "upgrade"]}
    argv = [*verbs.get(act, [act]), "--site", str(site)]
    monkeypatch.setattr("sys.argv", ["/opt/dsportal/bin/portal", *argv])

    assert cli.main(argv) == 1

    said = capsys.readouterr().err
    assert f"{first} belongs to {own.pw_name}, and this is root" in said
    assert f"runuser --pty -u {own.pw_name} -- /opt/dsportal/bin/portal {' '.join(argv)}" in said
    assert elsewhere.read_text() == "root's own"


def test_root_is_told_of_a_folder_whose_account_has_no_name(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    monkeypatch.setattr(Path, "stat", lambda *_, **__: Mock(st_uid=4_000_000))

    with pytest.raises(PortalError, match=r"account number 4000000, which has no name .* portal.s account"):
        check_account(first)


def test_who_may_not_read_a_state_folder_is_told_whose_it_is(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o000)
    was = os.geteuid()
    if was == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    own = pwd.getpwuid(os.geteuid()).pw_name
    try:
        with pytest.raises(PortalError, match=f"/root belongs to root, and this is {own}"):
            check_account(Path("/root"))
        with pytest.raises(PortalError, match=f"cannot be reached by {own}"):
            check_account(closed / "state")
    finally:
        os.seteuid(was)
