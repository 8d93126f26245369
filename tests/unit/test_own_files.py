"""What JupyterLab saves, uploads, renames, deletes and puts back, in a folder that others can change."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from portal.downloads import own_checkpoints, read_files
from portal.downloads.own_checkpoints import OwnCheckpoints
from portal.homes import own_folder
from portal.singleuser.own_files import OwnFiles

NOTEBOOK: dict[str, Any] = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
SOMEBODY_ELSE = 4_000_000


class Lab:
    """A home with a folder that others can change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.shared = home / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self.hers = home / "hers.txt"
        self.hers.write_text("hers")
        self.files: Any = OwnFiles(root_dir=str(home), checkpoints_class=OwnCheckpoints, delete_to_trash=False)

    async def save(self, name: str, text: str, **model: Any) -> None:
        """Save a file of text, as JupyterLab does."""
        await self.files.save({"type": "file", "format": "text", "content": text, **model}, f"shared/{name}")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Lab(tmp_path)


@pytest.fixture
def others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links in the shared folder are of somebody else."""
    (lab.shared / "link.txt").symlink_to(lab.hers)
    (lab.home / "hers").mkdir()
    (lab.home / "hers/file.txt").write_text("hers")
    (lab.shared / "folder").symlink_to(lab.home / "hers")
    (lab.shared / "theirs").mkdir()
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)


async def test_what_lies_beside_a_notebook_is_not_written_through(lab: Lab) -> None:
    await lab.files.save({"type": "notebook", "format": "json", "content": NOTEBOOK}, "shared/lesson.ipynb")
    (lab.shared / ".~lesson.ipynb").symlink_to(lab.hers)
    changed = {**NOTEBOOK, "metadata": {"mine": 1}}
    await lab.files.save({"type": "notebook", "format": "json", "content": changed}, "shared/lesson.ipynb")
    assert lab.hers.read_text() == "hers"
    assert (await lab.files.get("shared/lesson.ipynb"))["content"]["metadata"]["mine"] == 1
    assert {path.name for path in lab.shared.iterdir()} == {".~lesson.ipynb", "lesson.ipynb"}


async def test_text_is_saved_with_its_ends_of_lines(lab: Lab) -> None:
    await lab.save("train.py", "a\nü\r\n")
    assert (lab.shared / "train.py").read_bytes() == "a\nü\r\n".encode()


async def test_a_save_that_fails_leaves_what_was_there(lab: Lab) -> None:
    await lab.save("notes.txt", "before")
    with pytest.raises(ZeroDivisionError), lab.files.atomic_writing(str(lab.shared / "notes.txt")) as file:
        file.write("after")
        1 / 0  # noqa: B018
    assert (lab.shared / "notes.txt").read_text() == "before"


async def test_an_upload_in_parts_arrives(lab: Lab) -> None:
    for number, part in ((1, b"one "), (2, b"two "), (-1, b"three")):
        await lab.save("up.bin", base64.b64encode(part).decode(), format="base64", chunk=number)
    assert (lab.shared / "up.bin").read_bytes() == b"one two three"
    with pytest.raises(HTTPError, match="Encoding error"):
        await lab.save("up.bin", "é", format="base64", chunk=2)


async def test_a_checkpoint_is_put_back(lab: Lab) -> None:
    await lab.save("notes.txt", "before")
    await lab.files.create_checkpoint("shared/notes.txt")
    await lab.save("notes.txt", "after")
    (lab.shared / ".~notes.txt").symlink_to(lab.hers)
    await lab.files.restore_checkpoint("checkpoint", "shared/notes.txt")
    assert (lab.shared / "notes.txt").read_text() == "before"
    assert lab.hers.read_text() == "hers"


@pytest.mark.parametrize(
    ("act", "arguments"),
    [
        ("save", ({"type": "file", "format": "text", "content": "theirs"}, "shared/link.txt")),
        ("save", ({"type": "file", "format": "text", "content": "theirs"}, "shared/folder/file.txt")),
        ("save", ({"type": "file", "format": "text", "content": "theirs", "chunk": 2}, "shared/link.txt")),
        ("save", ({"type": "directory"}, "shared/folder/new")),
        ("rename_file", ("shared/folder/file.txt", "shared/mine.txt")),
        ("rename_file", ("hers.txt", "shared/folder/other.txt")),
        ("delete_file", ("shared/folder/file.txt",)),
        ("copy", ("shared/theirs", "shared/folder")),
        ("copy", ("shared/folder", "shared/theirs")),
    ],
)
async def test_links_of_others_are_refused_in_plain_words(
    lab: Lab, others: None, act: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(HTTPError) as refused:
        await getattr(lab.files, act)(*arguments)
    assert refused.value.status_code == 403
    assert "is a link that somebody else made, or may have put there" in str(refused.value)
    assert {path.name: path.read_text() for path in (lab.home / "hers").iterdir()} == {"file.txt": "hers"}
    assert lab.hers.read_text() == "hers"


async def test_a_link_itself_can_be_renamed_and_deleted(lab: Lab, others: None) -> None:
    await lab.files.rename_file("shared/link.txt", "shared/renamed.txt")
    await lab.files.delete_file("shared/renamed.txt")
    assert lab.hers.read_text() == "hers"


async def test_a_file_that_somebody_elses_link_leads_to_is_not_duplicated(lab: Lab, others: None) -> None:
    with pytest.raises(HTTPError, match="is a link that somebody else made"):
        await lab.files.copy("shared/link.txt")
    assert [path.name for path in lab.shared.iterdir() if "Copy" in path.name] == []


async def test_a_file_of_ones_own_is_duplicated(lab: Lab) -> None:
    await lab.save("notes.txt", "mine")
    assert (await lab.files.copy("shared/notes.txt"))["name"] == "notes-Copy1.txt"
    assert (lab.shared / "notes-Copy1.txt").read_text() == "mine"


async def test_checkpoints_of_a_folder_that_others_can_exchange_are_in_the_home(lab: Lab) -> None:
    (lab.shared / "mine").mkdir(0o755)
    await lab.save("mine/notes.txt", "before")
    await lab.files.create_checkpoint("shared/mine/notes.txt")
    assert [path.name for path in (lab.shared / "mine").iterdir()] == ["notes.txt"]
    (kept,) = (lab.home / ".local/share/dsportal/checkpoints").rglob("notes-checkpoint.txt")
    assert kept.read_text() == "before"


async def test_checkpoints_of_ones_own_folder_lie_where_jupyter_has_them(lab: Lab) -> None:
    await lab.files.save({"type": "file", "format": "text", "content": "before"}, "mine.txt")
    await lab.files.create_checkpoint("mine.txt")
    assert (lab.home / ".ipynb_checkpoints/mine-checkpoint.txt").read_text() == "before"


@pytest.mark.parametrize("metadata", [{}, {"language_info": []}, {"language_info": {"nbconvert_exporter": 1}}])
async def test_metadata_of_any_shape_is_opened(lab: Lab, metadata: dict[str, Any]) -> None:
    (lab.shared / "odd.ipynb").write_text(json.dumps({**NOTEBOOK, "metadata": metadata}))

    assert (await lab.files.get("shared/odd.ipynb"))["content"]["metadata"] == metadata
    assert (await lab.files.get("shared/odd.ipynb", content=False))["content"] is None


async def test_a_link_of_ones_own_that_others_may_have_moved_is_not_written_through(lab: Lab) -> None:
    (lab.home / "thesis.csv").write_text("months")
    (lab.shared / "latest.csv").symlink_to(lab.home / "thesis.csv")
    await lab.save("notes.txt", "mine")
    (lab.shared / "latest.csv").rename(lab.shared / "notes.txt")  # as everybody may who can change that folder

    with pytest.raises(HTTPError, match="may have put there"):
        await lab.save("notes.txt", "theirs")

    assert (lab.home / "thesis.csv").read_text() == "months"


async def test_a_link_in_a_folder_of_ones_own_is_written_through(lab: Lab) -> None:
    (lab.home / "link.txt").symlink_to(lab.hers)

    await lab.files.save({"type": "file", "format": "text", "content": "new"}, "link.txt")

    assert lab.hers.read_text() == "new"
    assert (lab.home / "link.txt").is_symlink()


async def test_a_checkpoint_of_what_a_link_leads_to_is_not_put_back_into_what_took_its_place(lab: Lab) -> None:
    (lab.shared / "data.txt").symlink_to(lab.hers)
    assert await lab.files.create_checkpoint("shared/data.txt")
    assert await lab.files.list_checkpoints("shared/data.txt")
    (lab.shared / "data.txt").unlink()
    (lab.shared / "data.txt").write_text("theirs")

    assert await lab.files.list_checkpoints("shared/data.txt") == []
    with pytest.raises((HTTPError, FileNotFoundError)):
        await lab.files.restore_checkpoint("checkpoint", "shared/data.txt")
    assert (lab.shared / "data.txt").read_text() == "theirs"


async def test_a_checkpoint_is_kept_under_the_name_of_what_was_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await lab.save("data.txt", "mine")
    opened = own_checkpoints._opened

    def exchanged(place: Any, os_path: str) -> Any:
        Path(os_path).unlink()
        Path(os_path).symlink_to(lab.hers)
        return opened(place, os_path)

    monkeypatch.setattr(own_checkpoints, "_opened", exchanged)
    with pytest.raises(HTTPError, match="may have put there"):
        await lab.files.create_checkpoint("shared/data.txt")
    (lab.shared / "data.txt").unlink()
    (lab.shared / "data.txt").write_text("theirs")

    assert await lab.files.list_checkpoints("shared/data.txt") == []


async def test_a_duplicate_has_what_was_held_whatever_takes_its_place(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.save("data.txt", "mine")
    get = AsyncLargeFileManager.get

    async def exchanged(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        if path == "shared/data.txt" and not (lab.shared / path).is_symlink():
            (lab.shared / "data.txt").unlink()
            (lab.shared / "data.txt").symlink_to(lab.hers)
        return await get(self, path, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(AsyncLargeFileManager, "get", exchanged)
    await lab.files.copy("shared/data.txt")

    assert (lab.shared / "data-Copy1.txt").read_text() == "mine"


@pytest.mark.parametrize("folder", ["", "shared"])
async def test_what_is_made_at_the_same_time_has_a_name_each(lab: Lab, folder: str) -> None:
    """As folders are that are dropped on JupyterLab together."""
    made = await asyncio.gather(*(lab.files.new_untitled(folder, type="directory") for _ in range(6)))

    assert len({model["path"] for model in made}) == 6


async def test_what_is_too_long_to_be_opened_has_no_checkpoint(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "OPENED_MAX", 100)
    with (lab.shared / "grown.txt").open("w") as file:
        file.truncate(101)  # others made it so long behind the moment in which it was opened
    with pytest.raises(HTTPError) as caught:
        await lab.files.create_checkpoint("shared/grown.txt")
    assert caught.value.status_code == 413
    assert list(lab.home.rglob("*-checkpoint.txt")) == []


async def test_a_pipe_has_no_checkpoint_and_keeps_nobody_waiting(lab: Lab) -> None:
    os.mkfifo(lab.shared / "pipe")

    with pytest.raises(HTTPError, match="no regular file"):
        await lab.files.create_checkpoint("shared/pipe")


@pytest.mark.parametrize("folder", ["", "shared/"])
async def test_a_checkpoint_is_as_private_as_its_file(lab: Lab, folder: str) -> None:
    file = lab.home / folder / "key.txt"
    file.write_text("mine")
    for mode in (0o600, 0o644, 0o600):
        file.chmod(mode)
        await lab.files.create_checkpoint(f"{folder}key.txt")
        (kept,) = lab.home.rglob("key-checkpoint.txt")
        assert kept.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("model", [{"type": "file"}, {"type": "file", "format": "base64"}, {"type": "notebook"}])
async def test_a_file_that_memory_does_not_bear_is_refused_before_it_is_read(lab: Lab, model: dict[str, str]) -> None:
    with (lab.shared / "much").open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(
        HTTPError, match=r"much is longer than 256 MB.*Read it in a notebook, download it, or copy it"
    ) as refused:
        await lab.files.get("shared/much", **model)

    assert refused.value.status_code == 413
    assert (await lab.files.get("shared/much", content=False))["size"] == 2**40


async def test_a_file_that_grows_while_it_is_read_is_refused_as_well(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "OPENED_MAX", 100)
    await lab.save("data.txt", "x" * 101)
    empty = os.stat_result((stat.S_IFREG, *(0,) * 9))  # when it was looked at
    monkeypatch.setattr("portal.downloads.read_files.os.fstat", lambda _: empty)

    with pytest.raises(HTTPError, match=r"data\.txt is longer"):
        await lab.files.get("shared/data.txt")


async def test_a_long_file_of_others_is_not_duplicated(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "OPENED_MAX", 100)
    monkeypatch.setattr(read_files, "is_of_others", lambda _: True)
    (lab.shared / "data.txt").write_text("x" * 101)

    with pytest.raises(HTTPError, match=r"data\.txt is longer than 0 MB.*in a terminal"):
        await lab.files.copy("shared/data.txt")


@pytest.mark.parametrize("place", ["of ones own", "that others can change"])
async def test_a_long_file_is_duplicated_where_nobody_else_can_have_made_it_so_long(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "of ones own":
        lab.shared.chmod(0o700)
    monkeypatch.setattr(read_files, "OPENED_MAX", 100)
    await lab.save("data.txt", "x" * 100)
    assert (await lab.files.get("shared/data.txt"))["content"] == "x" * 100
    await lab.save("data.txt", "x" * 1000)

    if place == "of ones own":
        await lab.files.copy("shared/data.txt")
        assert (lab.shared / "data-Copy1.txt").read_text() == "x" * 1000
    else:
        with pytest.raises(HTTPError, match=r"data\.txt is longer than 0 MB.*in a terminal"):
            await lab.files.copy("shared/data.txt")
        assert not (lab.shared / "data-Copy1.txt").exists()
