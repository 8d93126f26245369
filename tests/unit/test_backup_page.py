"""The lines of the page on backups, which root runs in a folder of the hub's account."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "backup.md"


def lines(state: Path, backups: Path) -> str:
    """The lines that copy files, for other folders."""
    section = PAGE.read_text().partition("## Back up\n")[2].partition("\n## ")[0]
    typed = [line.removeprefix("# ") for line in section.splitlines() if line.startswith("# ")]
    copies = "\n".join(line for line in typed if "cp " in line or line.startswith(("find ", "rm ")))
    return copies.replace("/var/lib/dsportal", str(state)).replace("/var/backups/dsportal", str(backups))


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


def test_root_opens_no_database_that_the_hubs_account_writes() -> None:
    opening = [line for line in PAGE.read_text().splitlines() if line.startswith("# ") and "sqlite3 " in line]

    assert opening
    assert [line for line in opening if not line.startswith("# runuser --pty -u portal -- sqlite3 ")] == []
