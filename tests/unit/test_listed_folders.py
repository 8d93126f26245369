"""Folders that JupyterLab lists: what is in them, as Jupyter itself shows it, up to so many names."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from portal.downloads import listed_folders
from portal.singleuser.own_files import OwnFiles


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / "shared"
    made.mkdir()
    return made


def files(folder: Path, kind: Any = OwnFiles) -> Any:
    return kind(root_dir=str(folder.parent))


async def names(folder: Path) -> list[str]:
    return sorted(child["name"] for child in (await files(folder).get("shared"))["content"])


async def test_a_folder_of_all_kinds_of_things_is_listed_as_jupyter_lists_it(folder: Path) -> None:
    (folder / "file.txt").write_text("text")
    (folder / "notebook.ipynb").write_text("{}")
    (folder / ".hidden").touch()
    (folder / "~backup").touch()
    (folder / "below").mkdir()
    (folder / "below" / "deeper").touch()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    for name, target in (("link", "file.txt"), ("into", "below"), ("nowhere", "none"), ("loop", "loop")):
        (folder / name).symlink_to(target)
    (folder / "too-long").symlink_to("a" * 300)
    (folder / "no-folder").symlink_to("file.txt/a")
    os.link(folder / "file.txt", os.fsencode(folder) + b"/\xff")

    ours, theirs = [await files(folder, kind).get("shared") for kind in (OwnFiles, AsyncLargeFileManager)]

    for model in (ours, theirs):
        model["content"].sort(key=lambda child: child["name"])
    assert ours == theirs
    shown = {child["name"]: child["type"] for child in ours["content"]}
    assert shown.keys() >= {"file.txt", "notebook.ipynb", "below", "link", "into"}
    assert shown["into"] == "directory"
    assert not shown.keys() & {".hidden", "pipe", "socket", "loop", "too-long"}


async def test_links_that_lead_nowhere_leave_no_line_in_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever can write there makes as many as they like, and each look would log them all."""
    for name, target in (("nowhere", "none"), ("loop", "loop"), ("long", "a" * 300), ("of-file", "/etc/passwd/a")):
        (folder / name).symlink_to(target)
    (folder / "file").touch()

    with caplog.at_level(logging.WARNING):
        assert "file" in await names(folder)

    assert caplog.records == []


async def test_a_folder_of_very_many_names_is_refused_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_folders, "LISTED_MAX", 3)
    for name in ("one", "two", "three"):
        (folder / name).touch()
    assert await names(folder) == ["one", "three", "two"]

    (folder / ".four").touch()  # what is not shown is in memory, too
    with pytest.raises(HTTPError) as refused:
        await names(folder)

    assert refused.value.status_code == 413
    assert "The folder shared holds more than 3 names" in str(refused.value.log_message)
    assert (await files(folder).get("shared", content=False))["type"] == "directory"
    assert [child["name"] for child in (await files(folder).get(""))["content"]] == ["shared"]


@pytest.mark.parametrize("letter", ["\N{GRINNING FACE}", "\x01", "\N{EURO SIGN}"])
async def test_names_count_as_they_are_written_in_json_with_the_way_to_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    """JSON has twelve bytes for some letters of four, and six for some of one."""
    monkeypatch.setattr(listed_folders, "LISTED_BYTES", 2**16)
    for way in ("a" * 60, letter * 60):
        (folder / way).mkdir()
        for number in range(200):
            (folder / way / f"{way[:20]}{number}").touch()
    assert len((await files(folder).get(f"shared/{'a' * 60}"))["content"]) == 200

    with pytest.raises(HTTPError) as refused:
        await files(folder).get(f"shared/{letter * 60}")

    assert refused.value.status_code == 413
    assert "with the way to each" in str(refused.value.log_message)


async def test_what_goes_while_a_folder_is_listed_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("goes", "stays"):
        (folder / name).touch()
    listed = OwnFiles._listed

    def looked(self: OwnFiles, os_path: str, path: str) -> list[str]:
        found = listed(self, os_path, path)
        (folder / "goes").unlink()
        return found

    monkeypatch.setattr(OwnFiles, "_listed", looked)

    assert await names(folder) == ["stays"]


async def test_a_folder_that_is_none_is_not_found(folder: Path) -> None:
    (folder / "file").touch()
    for place in ("shared/none", ".hidden"):
        with pytest.raises(HTTPError) as refused:
            await files(folder).get(place)
        assert refused.value.status_code == 404


async def test_a_folder_that_its_storage_keeps_from_whom_its_mode_lets_in_is_refused_in_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS with root_squash or lists of its own does; a mode that lets nobody in makes it hidden (404)."""

    def refuses(_folder: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuses)

    with pytest.raises(HTTPError) as refused:
        await names(folder)

    assert refused.value.status_code == 403
    assert "The folder shared may not be read" in str(refused.value.log_message)
