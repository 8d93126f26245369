"""Files and folders that are dropped on the list of files, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.forms import of_long_form
from tests.session.file_desk import Desk, fill, opened, small_disk
from tests.session.session_server import Server

LARGE = 16_000_000  # bytes: it goes in parts
ODD = ("50% #1? & a=b;+.txt", " ü 'é' \"x\" [1] {2} 🙂", "back\\slash.bin", "no, not: a drive", "x" * 255)
Picture = Callable[[Page, str], None]


@pytest.fixture(params=["lab/tree", of_long_form("tree")])
def desk(browser: Browser, server: Server, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """An empty folder in JupyterLab, and in Notebook 7."""
    with opened(browser, server, request.param) as one:
        yield one


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder on the disk of the person."""
    folder = tmp_path / "a project"
    for name in (".git", "inner", "nothing"):
        (folder / name).mkdir(parents=True)
    for number, name in enumerate(ODD):
        (folder / name).write_text(f"odd {number}")
    (folder / "empty.bin").touch()
    (folder / ".DS_Store").write_text("hidden")
    (folder / ".git/config").write_text("hidden")
    (folder / "inner/deep.txt").write_text("new")
    (folder / "inner/large.bin").write_bytes(os.urandom(LARGE))
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """What lies in a folder and below, but for what is hidden."""
    found = [path for path in folder.rglob("*") if "/." not in str(path.relative_to(folder.parent))]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def test_a_folder_comes_whole_but_for_what_is_hidden_and_says_so(desk: Desk, project: Path, picture: Picture) -> None:
    (desk.folder / "empty.bin").write_text("another empty.bin, above that of the project")
    there = desk.folder / project.name
    (there / "inner").mkdir(parents=True)
    (there / "inner/deep.txt").write_text("old")
    desk.open()

    desk.drop(project)

    expect(desk.page.locator(".jp-Dialog", has_text="deep.txt")).to_be_visible()
    assert (there / "inner/deep.txt").read_text() == "old"
    desk.answer("Overwrite")
    desk.says("large.bin is uploaded")
    desk.waits("all of the project", lambda: contents(there) == contents(project))
    desk.says("2 files are not uploaded")
    desk.press("Show")
    dialog = desk.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("a project/.git/config: What begins with a dot is hidden, and is not uploaded.")
    picture(desk.page, "left-out")
    assert (desk.folder / "empty.bin").read_text().startswith("another")
    assert sorted(path.name for path in desk.folder.glob("[!.]*")) == ["a project", "empty.bin"]
    assert desk.partial() + [path for path in there.rglob(".*") if path.name != ".ipynb_checkpoints"] == []


def test_several_folders_and_files_come_at_once(desk: Desk, tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"run {number}").mkdir()
        (tmp_path / f"run {number}/result.txt").write_text(str(number))
    for name in ODD:
        (tmp_path / name).write_text(name)
    (tmp_path / "none").touch()

    desk.drop(*tmp_path.iterdir())

    desk.waits("all of them", lambda: contents(desk.folder) == contents(tmp_path))
    desk.has("run 5")
    desk.has(ODD[0])


def test_what_finds_no_room_is_named_and_leaves_nothing(desk: Desk, tmp_path: Path, picture: Picture) -> None:
    for name in ("first.bin", "second.bin"):
        (tmp_path / name).write_bytes(bytes(2_000_000))
    with small_disk(desk.folder, 4_000_000):
        fill(desk.folder / "old results", left=500_000)
        desk.open()

        desk.drop(*tmp_path.iterdir())

        desk.says("2 files are not uploaded")
        desk.press("Show")
        expect(desk.page.locator(".jp-Dialog")).to_contain_text("second.bin: No more fits: the disk is full.")
        expect(desk.page.locator(".jp-Dialog")).not_to_contain_text("are there and stay")
        picture(desk.page, "no-room")
        assert [path.name for path in desk.folder.glob("[!.]*")] == ["old results"]
        assert desk.partial() == []
