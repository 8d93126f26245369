"""The lines of the page on backups, which root runs in a folder of the hub's account."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "backup.md"
AS_THE_ACCOUNT = "runuser --pty -u portal -- "
STATE = "/var/lib/dsportal"
BACKUPS = "/var/backups/dsportal"
SOMEBODY_ELSE = 65534


def typed(title: str) -> list[str]:
    """The lines of one section that root types, but those for systemd."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    commands = [line.removeprefix("# ") for line in section.splitlines() if line.startswith("# ")]
    return [command for command in commands if not command.startswith("systemctl ")]


def elsewhere(command: str, state: Path, backups: Path, account: int) -> str:
    """A line for other folders and another account; nothing is to become where that is our own."""
    person = pwd.getpwuid(account)
    group = grp.getgrgid(person.pw_gid).gr_name
    become = AS_THE_ACCOUNT.replace("portal", person.pw_name) if account != os.geteuid() else ""
    changes = {
        AS_THE_ACCOUNT: become,
        " portal:portal ": f" {person.pw_name}:{group} ",
        " -user portal ": f" -user {person.pw_name} ",
        STATE: str(state),
        BACKUPS: str(backups),
    }
    for word, ours in changes.items():
        command = command.replace(word, ours)
    return command


def lines(state: Path, backups: Path) -> str:
    """The lines that copy files, for other folders."""
    copies = [line for line in typed("Back up") if "cp " in line or line.startswith(("find ", "rm "))]
    return "\n".join(elsewhere(line, state, backups, os.geteuid()) for line in copies)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A state folder, one for backups, and one of root's with a file that is nobody else's business."""
    state, backups, roots = tmp_path / "state", tmp_path / "backups", tmp_path / "roots"
    for folder in (state, backups, roots):
        folder.mkdir()
    (roots / "secret").write_text("root's")
    return state, backups, roots


def back_up(state: Path, backups: Path) -> None:
    """Run the lines, after that which makes a copy of the database."""
    if not (state / "backup.sqlite").is_symlink():
        (state / "backup.sqlite").write_text("the hub's")
    subprocess.run(["sh", "-ec", lines(state, backups)], check=True)


def test_a_backup_follows_no_link_that_the_hubs_account_has_left(folders: tuple[Path, Path, Path]) -> None:
    state, backups, roots = folders
    (state / "cookie_secret").write_text("the hub's")
    for name in ("session_key", "hub_id", "internal-ssl"):
        (state / name).symlink_to(roots if name == "internal-ssl" else roots / "secret")

    back_up(state, backups)

    assert (backups / "cookie_secret").read_text() == "the hub's"
    assert sorted(path.name for path in backups.rglob("*")) == ["cookie_secret", "jupyterhub.sqlite"]


@pytest.mark.parametrize("kept", [True, False], ids=["of an earlier way", "of this one"])
def test_the_next_backup_writes_through_no_link_that_the_one_before_has_brought(
    folders: tuple[Path, Path, Path], kept: bool
) -> None:
    state, backups, roots = folders
    names = ("cookie_secret", "session_key", "hub_id", "internal-ssl/certipy.json", "backup.sqlite")
    (state / "internal-ssl").mkdir()
    for name in names:
        (state / name).symlink_to(roots / "secret")
    back_up(state, backups)
    if kept:  # as a line without the last one would have left them
        for name in (*names[:4], "jupyterhub.sqlite"):
            (backups / name).symlink_to(roots / "secret")

    for name in names:
        (state / name).unlink(missing_ok=True)
        (state / name).write_text("the hub's")
    back_up(state, backups)

    assert (roots / "secret").read_text() == "root's"
    assert {file.read_text() for file in backups.rglob("*") if file.is_file()} == {"the hub's"}


def test_a_copy_that_fails_ends_the_script(folders: tuple[Path, Path, Path]) -> None:
    state, backups, _ = folders
    (state / "backup.sqlite").mkdir()
    (backups / "jupyterhub.sqlite").write_text("the one before")

    done = subprocess.run(["sh", "-ec", lines(state, backups)], capture_output=True, text=True, check=False)

    assert done.returncode, done.stderr
    assert (backups / "jupyterhub.sqlite").read_text() == "the one before"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to somebody else")
def test_a_backup_keeps_no_key_that_is_not_the_accounts_own(folders: tuple[Path, Path, Path]) -> None:
    state, backups, _ = folders
    (state / "internal-ssl").mkdir()
    for name in ("cookie_secret", "session_key", "hub_id", "internal-ssl/certipy.json", "internal-ssl/theirs"):
        (state / name).write_text("some words")
    os.chown(state / "internal-ssl" / "theirs", SOMEBODY_ELSE, -1)

    back_up(state, backups)

    kept = sorted(path.name for path in backups.rglob("*") if path.is_file())
    assert kept == ["certipy.json", "cookie_secret", "hub_id", "jupyterhub.sqlite", "session_key"]


def test_root_opens_no_database_that_the_hubs_account_writes() -> None:
    opening = [line for line in PAGE.read_text().splitlines() if line.startswith("# ") and "sqlite3 " in line]

    assert opening
    assert [line for line in opening if not line.startswith("# runuser --pty -u portal -- sqlite3 ")] == []


# -- the way back ---------------------------------------------------------------------------------------


def restore(title: str, state: Path, backups: Path) -> None:
    """Run the lines of a section, with nobody in the way."""
    for line in typed(title):
        subprocess.run(["sh", "-euc", elsewhere(line, state, backups, os.geteuid())], check=True)


def test_a_restored_database_is_the_backups_and_the_damaged_one_is_kept(folders: tuple[Path, Path, Path]) -> None:
    state, backups, _ = folders
    (backups / "jupyterhub.sqlite").write_bytes(b"whole\0")
    for name in ("jupyterhub.sqlite", "jupyterhub.sqlite-wal", "jupyterhub.sqlite-shm", "cookie_secret"):
        (state / name).write_text("damaged")

    restore("Restore", state, backups)

    assert (state / "jupyterhub.sqlite").read_bytes() == b"whole\0"
    assert (state / "jupyterhub.sqlite").stat().st_mode & 0o777 == 0o600
    assert (state / "jupyterhub.sqlite.damaged").read_text() == "damaged"
    left = {path.name for path in state.iterdir()}
    assert left == {"jupyterhub.sqlite", "jupyterhub.sqlite.damaged", "cookie_secret"}


def test_all_of_it_is_restored_where_nothing_is_yet(folders: tuple[Path, Path, Path]) -> None:
    state, backups, _ = folders
    (backups / "internal-ssl").mkdir()
    for name in ("jupyterhub.sqlite", "cookie_secret", "internal-ssl/certipy.json"):
        (backups / name).write_text(name)
    backups.chmod(0o700)

    restore("Restore all of it", state, backups)

    found = {str(path.relative_to(state)): path.read_text() for path in state.rglob("*") if path.is_file()}
    assert set(found) == set(found.values()) == {"jupyterhub.sqlite", "cookie_secret", "internal-ssl/certipy.json"}
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def beside_root() -> Iterator[tuple[Path, Path, Path]]:
    """As ``folders``; the state folder is another account's, where that comes to it."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    state, backups, roots = top / "state", top / "backups", top / "roots"
    for folder in (state, backups, roots):
        folder.mkdir(mode=0o755)
    os.chown(state, SOMEBODY_ELSE, -1)
    (roots / "secret").write_text("root's")
    (backups / "jupyterhub.sqlite").write_text("whole")
    (backups / "cookie_secret").write_text("whole")
    yield state, backups, roots
    shutil.rmtree(top)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
@pytest.mark.parametrize("title", ["Restore", "Restore all of it"])
def test_a_restore_changes_nothing_of_roots_whatever_the_account_does_meanwhile(
    beside_root: tuple[Path, Path, Path], title: str
) -> None:
    state, backups, roots = beside_root
    names = ("jupyterhub.sqlite", "cookie_secret", "jupyterhub.sqlite-wal")
    (state / "jupyterhub.sqlite.damaged").symlink_to(roots)
    (state / "jupyterhub.sqlite").write_text("damaged")

    for line in typed(title):
        for name in names:  # put there between two lines, as quickly as can be
            if not (state / name).exists():
                (state / name).symlink_to(roots / "secret")
        command = elsewhere(line, state, backups, SOMEBODY_ELSE)
        subprocess.run(["sh", "-euc", command], capture_output=True, check=False)

    assert [path.name for path in roots.iterdir()] == ["secret"]
    assert (roots / "secret").read_text() == "root's"
    assert (roots / "secret").stat().st_uid == 0


def test_lines_that_are_pasted_all_at_once_are_not_taken_by_the_first_of_them() -> None:
    """``--pty`` gives a program all that is typed meanwhile."""
    taking = [line for title in ("Back up", "Restore") for line in typed(title) if line.startswith(AS_THE_ACCOUNT)]

    assert len(taking) == 4
    assert [line for line in taking if not line.endswith(" </dev/null")] == []


def test_root_changes_nothing_in_a_folder_of_the_hubs_account_but_takes_a_name_away() -> None:
    own = [line.removeprefix("# ") for line in PAGE.read_text().splitlines() if line.startswith("# ")]
    there = [line for line in own if f"{STATE}/" in line and not line.startswith(AS_THE_ACCOUNT)]

    assert there
    assert [line for line in there if not line.startswith(("rm /", "fuser ")) and BACKUPS not in line.split()[-1]] == []
