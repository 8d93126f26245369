"""``portal chmod``: as chmod -R, but that no link is followed, whenever somebody puts it there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import portal
from portal.cli import main
from portal.commands.file_commands import Walk, parsed

ROOT_OF_CODE = Path(portal.__file__).parents[1]
AS_SOMEBODY = """
import os, sys
from portal.cli import main
os.chdir(os.path.dirname(sys.argv[1]))
os.setgroups([])
os.setgid(20001)
os.setuid(20001)
sys.exit(main(["chmod", "g-w", os.path.basename(sys.argv[1])]))
"""
MODES = (0o700, 0o600, 0o640, 0o755, 0o4755, 0o2770, 0o664, 0o444, 0o001)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path / "team")


def filled(folder: Path) -> Path:
    """Files and folders of all modes."""
    for mode in MODES:
        inner = folder / f"folder-{mode:o}"
        inner.mkdir(parents=True)
        (inner / "file").write_text("")
        (inner / "file").chmod(mode)
        inner.chmod(mode | 0o700)
    return folder


def modes(folder: Path) -> dict[str, int]:
    """Of all that is in a folder, and of itself."""
    return {str(path.relative_to(folder)): path.lstat().st_mode for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("changes", ["g+rwX", "go-w", "o+rX", "a-X", "go-rwX,g+rX", "ug+w", "go+w"])
def test_rights_are_changed_as_by_chmod(tmp_path: Path, folder: Path, changes: str) -> None:
    other = filled(tmp_path / "other")
    subprocess.run(["chmod", "-R", changes, other], check=True)

    assert main(["chmod", changes, str(folder)]) == 0

    assert modes(folder) == modes(other)


def test_it_says_how_many_have_other_rights_now(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = sum(bool(mode & 0o007) for mode in modes(folder).values())
    assert main(["chmod", "o-rwX", str(folder)]) == 0
    assert f"portal: {changed} of 19 files and folders have other rights now" in capsys.readouterr().out
    assert main(["chmod", "o-rwX", str(folder)]) == 0
    assert "portal: 0 of 19 files" in capsys.readouterr().out


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_somebody_puts_there_meanwhile_is_not_followed(
    tmp_path: Path, folder: Path, is_folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").touch(0o600)
    listdir = os.listdir

    def exchanged_then(place: Any) -> list[str]:
        found = listdir(place)
        exchanged = folder / "folder-755" if is_folder else folder / "folder-755" / "file"
        if not exchanged.is_symlink():
            exchanged.rename(tmp_path / "away")
            exchanged.symlink_to(closed if is_folder else closed / "file")
        return found

    monkeypatch.setattr(os, "listdir", exchanged_then)
    assert main(["chmod", "go+rwX", str(folder)]) == 0
    assert [stat.S_IMODE(path.stat().st_mode) for path in (closed, closed / "file")] == [0o700, 0o600]
    assert stat.S_IMODE((folder / "folder-640" / "file").stat().st_mode) == 0o666


def test_what_it_leaves_it_names(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "elsewhere").touch(0o600)
    (folder / "linked\x1b").hardlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe", 0o600)

    assert main(["chmod", "g+rX", str(folder)]) == 1

    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o600
    assert (folder / "pipe").stat().st_mode & 0o777 == 0o600
    said = capsys.readouterr().err
    assert "left as it is" in said
    assert "it has another name, too" in said
    assert "\x1b" not in said


def test_what_is_too_deep_is_left_and_the_rest_is_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who may put folders there may put thousands in one another."""
    deep = folder / "a"
    for _ in range(40):
        deep = deep / "/".join("a" * 50)
        deep.mkdir(parents=True)
    assert main(["chmod", "o-X", str(folder)]) == 1
    assert "it is more than 200 folders deep" in capsys.readouterr().err
    assert (folder / "folder-755").stat().st_mode & 0o777 == 0o754
    subprocess.run(["rm", "-r", folder / "a"], check=True)


def test_by_another_name_nobody_keeps_what_is_taken_away(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have made it; what is given, they would get elsewhere."""
    (folder / "open").touch()
    (folder / "open").chmod(0o664)
    (tmp_path / "kept").hardlink_to(folder / "open")
    assert main(["chmod", "g-w", str(folder)]) == 1, "by root, who could reach any file so"
    monkeypatch.setattr(os, "geteuid", lambda: 20001)
    given, taken = Walk(parsed("go+w")), Walk(parsed("go-w"))
    here = os.open(folder, os.O_RDONLY)
    for walk in (given, taken):
        walk._go_in(here, "open", "open", 1)
    os.close(here)
    assert (given.left, taken.left, (tmp_path / "kept").stat().st_mode & 0o777) == (1, 0, 0o644)


@pytest.fixture
def reached() -> Iterator[Path]:
    """A folder that everybody comes to: those of pytest are for one person."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_what_cannot_be_looked_at_is_named(reached: Path) -> None:
    """Tried as somebody who is not root: a folder that may be read and not entered, and files of others."""
    top = reached / "top"
    (top / "closed").mkdir(parents=True)
    for name in ("closed/hers", "hers", "theirs"):
        (top / name).touch()
        (top / name).chmod(0o664)
        os.chown(top / name, 20001 if "hers" in name else 20002, 0)
    (top / "closed").chmod(0o744)
    done = subprocess.run(
        [sys.executable, "-c", AS_SOMEBODY, top], capture_output=True, text=True, check=False, cwd=ROOT_OF_CODE
    )
    assert (done.returncode, "1 of 4 files and folders" in done.stdout) == (1, True), done.stderr
    for said in ("closed/hers: Permission denied", "theirs: Operation not permitted"):
        assert said in done.stderr
    assert (top / "hers").stat().st_mode & 0o777 == 0o644


def test_of_very_much_that_is_left_the_first_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").touch(0o600)
    for number in range(12):
        (folder / f"linked-{number}").hardlink_to(folder / "file")
    assert main(["chmod", "g+r", str(folder)]) == 1
    said = capsys.readouterr().err
    assert (said.count("another name"), said.endswith("portal: and 3 more\n")) == (10, True)


@pytest.mark.parametrize("changes", ["", "755", "g+s", "+w", "g=r", "u+x", "g+r,", "g+rw o-w"])
def test_other_changes_are_refused_and_nothing_is_changed(
    folder: Path, changes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = modes(folder)
    assert main(["chmod", changes, str(folder)]) == 1
    assert "changes such as g+rwX or go-w,o+rX" in capsys.readouterr().err
    assert modes(folder) == before


def test_a_folder_that_is_none_is_named(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(folder)
    os.lchown(tmp_path / "link", 54321, 54321)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "shared/own").symlink_to(folder)  # of one's own, which others may have renamed
    for odd, why in (
        ("shared/own", "link"),
        ("shared/own/folder-755", "link"),
        ("none", "No such file"),
        ("link", "link"),
        ("team/folder-755/file", "Not a directory"),
    ):
        assert main(["chmod", "g+r", str(tmp_path / odd)]) == 1
        said = capsys.readouterr()
        assert (said.out, why in said.err) == ("", True)
