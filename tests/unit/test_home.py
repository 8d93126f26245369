"""What a session makes of a home: the catalogue of templates, always as it is now, and the links to the storage."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from portal.gallery import shelf, units
from portal.gallery.files import HeldFolder
from portal.gallery.stamp import STAMP
from portal.notebooks.files import read_file
from portal.session_settings import SessionSettings, StorageFolder
from portal.singleuser.home import MANIFEST, notes_of, prepare_home, preparing
from tests.lessons import lesson, ran, write

LESSON = "templates/tensorflow/mnist.ipynb"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A folder of templates."""
    folder = tmp_path / "ours"
    write(folder / "README.md", "read me")
    publish(folder, "version 1")
    write(folder / "tensorflow/.hidden", "no")
    (folder / "tensorflow/.ipynb_checkpoints").mkdir()
    return folder


def publish(folder: Path, words: str) -> None:
    """The template as its authors have it now."""
    write(folder / "tensorflow/mnist.ipynb", lesson(f"import module\nprint('{words}')"))
    write(folder / "tensorflow/module.py", f"VERSION = '{words}'\n")


def shown(home: Path) -> str:
    """What the catalogue in the home says."""
    assert (home / "templates/tensorflow/module.py").read_text().split("'")[1] in (home / LESSON).read_text()
    return (home / "templates/tensorflow/module.py").read_text().split("'")[1]


def as_before(home: Path, ours: Path) -> None:
    """A home as up to 0.1: copies to work in."""
    prepare_home(home, [ours], [])
    for path in (home / "templates").rglob("*"):
        if path.is_file():
            path.chmod(0o644)


def kept(home: Path) -> set[str]:
    return {str(path.relative_to(home / "templates-kept")) for path in (home / "templates-kept").rglob("*.*")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def copies(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in (home / "templates").rglob("*") if path.is_file())


def test_a_new_home_gets_the_catalogue_to_read_and_the_storage(home: Path, ours: Path, tmp_path: Path) -> None:
    assert prepare_home(str(home), [str(ours)], [("isilon", str(tmp_path))]) == []
    assert copies(home) == ["templates/README.md", LESSON, "templates/tensorflow/module.py"]
    assert (home / "isilon").resolve() == tmp_path.resolve()
    assert (home / LESSON).stat().st_mode & 0o777 == 0o444
    (home / "templates/tensorflow/logs").mkdir()  # a run in the catalogue has a place for its logs


def test_a_second_start_writes_nothing(home: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = [("isilon", "/mnt/isilon")]
    prepare_home(home, [ours], storage)
    monkeypatch.setattr(HeldFolder, "write", lambda *_, **__: pytest.fail("something was written"))
    monkeypatch.setattr(HeldFolder, "set_mode", lambda *_: pytest.fail("a mode was changed"))
    assert prepare_home(home, [ours], storage) == []


def test_the_catalogue_follows_the_templates_notebook_and_module_together(home: Path, ours: Path) -> None:
    prepare_home(home, [ours], [])
    publish(ours, "version 2")
    prepare_home(home, [ours], [])
    assert shown(home) == "version 2"


def test_a_run_in_a_home_of_before_freezes_nothing_and_is_kept_with_its_module(home: Path, ours: Path) -> None:
    as_before(home, ours)
    ran(home / LESSON)
    mine = (home / LESSON).read_bytes()
    publish(ours, "version 2")
    (note,) = prepare_home(home, [ours], [])
    assert (
        note
        == "~/templates/tensorflow/mnist was changed by you: your copy is now in ~/templates-kept/tensorflow-mnist."
    )
    assert shown(home) == "version 2"
    copy = home / "templates-kept/tensorflow-mnist"
    assert (copy / "mnist.ipynb").read_bytes() == mine
    assert "version 1" in (copy / "module.py").read_text()
    assert json.loads((copy / STAMP).read_text())["template"] == "tensorflow/mnist"
    assert prepare_home(home, [ours], []) == []


def test_a_changed_module_is_kept_with_every_lesson_that_uses_it(home: Path, ours: Path) -> None:
    write(ours / "tensorflow/other.ipynb", lesson("import module"))
    as_before(home, ours)
    write(home / "templates/tensorflow/module.py", "mine = 1\n")
    write(home / "templates/README.md", "my notes")
    assert len(prepare_home(home, [ours], [])) == 2
    assert kept(home) == {
        "README.md", f"tensorflow-mnist/{STAMP}", "tensorflow-mnist/mnist.ipynb", "tensorflow-mnist/module.py",
        f"tensorflow-other/{STAMP}", "tensorflow-other/other.ipynb", "tensorflow-other/module.py",
    }  # fmt: skip
    assert shown(home) == "version 1"
    assert (home / "templates-kept/README.md").read_text() == "my notes"
    assert (home / "templates/README.md").read_text() == "read me"


def test_an_unchanged_home_of_before_becomes_the_catalogue_without_a_word(home: Path, ours: Path) -> None:
    as_before(home, ours)
    publish(ours, "version 2")
    assert prepare_home(home, [ours], []) == []
    assert shown(home) == "version 2"
    assert (home / LESSON).stat().st_mode & 0o222 == 0
    assert not (home / "templates-kept").exists()


def test_what_was_written_in_the_catalogue_by_force_is_kept_too(home: Path, ours: Path) -> None:
    prepare_home(home, [ours], [])
    (home / LESSON).chmod(0o644)
    ran(home / LESSON, "print('mine')")
    prepare_home(home, [ours], [])
    assert "print('mine')" in (home / "templates-kept/tensorflow-mnist/mnist.ipynb").read_text()
    assert shown(home) == "version 1"


def test_a_template_that_is_no_more_leaves_the_catalogue(home: Path, ours: Path) -> None:
    write(ours / "r/mnist.ipynb", lesson("1"))
    write(ours / "r/other.ipynb", lesson("2"))
    prepare_home(home, [ours], [])
    (home / "templates/r/other.ipynb").chmod(0o644)
    ran(home / "templates/r/other.ipynb")
    for path in (ours / "r").iterdir():
        path.unlink()
    prepare_home(home, [ours], [])
    assert copies(home)[1:] == ["templates/r/other.ipynb", LESSON, "templates/tensorflow/module.py"]
    (home / "templates/r/other.ipynb").unlink()
    prepare_home(home, [ours], [])
    assert not (home / "templates/r/other.ipynb").exists()


def test_templates_for_kernels_that_are_not_offered_are_not_shown(home: Path, ours: Path, tmp_path: Path) -> None:
    write(ours / "mxnet/mnist.ipynb", lesson("1", kernel="mxnet"))
    assert shelf.offered([str(tmp_path / "none")]) is None
    write(tmp_path / "kernels/TensorFlow/kernel.json", "{}")
    prepare_home(home, [ours], [], shelf.offered([str(tmp_path / "kernels"), "/none"]))
    assert copies(home) == ["templates/README.md", LESSON, "templates/tensorflow/module.py"]
    prepare_home(home, [ours], [], None)
    assert (home / "templates/mxnet/mnist.ipynb").exists()
    prepare_home(home, [ours], [], {"tensorflow"})
    assert not (home / "templates/mxnet").exists()


def test_the_sites_own_templates_stand_beside_the_portals(home: Path, ours: Path, tmp_path: Path) -> None:
    write(tmp_path / "site/own/start.ipynb", lesson("import tool"))
    write(tmp_path / "site/own/tool.py", "t = 1\n")
    write(tmp_path / "site/tensorflow/mnist.ipynb", lesson("print('of the site')"))
    (note,) = prepare_home(home, [ours, tmp_path / "site", tmp_path / "none"], [])
    assert f"there is no folder {tmp_path / 'none'}" in note
    assert {"templates/own/start.ipynb", "templates/own/tool.py"} <= set(copies(home))
    assert shown(home) == "version 1"


def test_a_file_of_theirs_that_was_there_first_is_kept(home: Path, ours: Path) -> None:
    write(home / LESSON, "mine")
    prepare_home(home, [ours], [])
    assert (home / "templates-kept/tensorflow-mnist/mnist.ipynb").read_text() == "mine"
    assert shown(home) == "version 1"


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"copies": 3, "links": {}}', b'{"copies": {"a": 1}}'])
def test_a_spoiled_manifest_is_not_trusted(content: bytes, home: Path, ours: Path) -> None:
    as_before(home, ours)
    (home / MANIFEST).write_bytes(content)
    write(home / "templates/tensorflow/module.py", "mine = 1\n")
    prepare_home(home, [ours], [])
    assert (home / "templates-kept/tensorflow-mnist/module.py").read_text() == "mine = 1\n"


def test_a_manifest_that_names_other_files_removes_none(home: Path, ours: Path, tmp_path: Path) -> None:
    precious = write(tmp_path / "precious", "precious")
    (home / "linked").symlink_to(tmp_path)
    digest = "7a2f6b8ee9b5b1a5f2d3c3f0e4a6bd4f"
    names = [str(precious), "../precious", "linked/precious", "", ".", "/"]
    known = {name: shelf.digest_of(b"precious") for name in names} | {"templates/none": digest}
    write(home / MANIFEST, json.dumps({"copies": known, "links": {}}))
    assert prepare_home(home, [ours], []) == []
    assert precious.read_text() == "precious"


def test_nothing_is_written_through_a_link_in_the_way(home: Path, ours: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "templates").symlink_to(elsewhere)
    notes = prepare_home(home, [ours], [])
    assert list(elsewhere.iterdir()) == []
    assert "~/templates is not a folder of yours" in notes[0]


@pytest.mark.parametrize("make", ["symlink_to", "write_text"])
def test_what_cannot_be_kept_stays_where_it_is(make: str, home: Path, ours: Path, tmp_path: Path) -> None:
    as_before(home, ours)
    getattr(home / "templates-kept", make)(str(tmp_path))
    ran(home / LESSON, "print('mine')")
    publish(ours, "version 2")
    (note,) = prepare_home(home, [ours], [])
    assert "stays as it is" in note
    assert "print('mine')" in (home / LESSON).read_text()


def test_a_copy_that_is_a_link_or_a_folder_is_left_alone(home: Path, ours: Path, tmp_path: Path) -> None:
    target = write(tmp_path / "target", "precious")
    (home / "templates/tensorflow").mkdir(parents=True)
    (home / LESSON).symlink_to(target)
    (home / "templates/README.md").mkdir()
    prepare_home(home, [ours], [])
    assert target.read_text() == "precious"
    assert (home / LESSON).is_symlink()
    assert (home / "templates/README.md").is_dir()


def test_a_manifest_behind_a_link_is_not_written(home: Path, ours: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / ".local").symlink_to(elsewhere)
    assert prepare_home(home, [ours], []) == []
    assert list(elsewhere.iterdir()) == []
    assert copies(home)


def test_a_home_that_is_itself_a_link_is_followed(home: Path, ours: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(home)
    prepare_home(tmp_path / "linked", [ours], [])
    assert len(copies(home)) == 3


def test_a_file_server_that_is_silent_keeps_nobody_from_working() -> None:
    done: Future[list[str]] = Future()
    assert "The session goes on without" in notes_of(done, 0.01)[0]
    done.set_result(["a note"])
    assert notes_of(done, 0.01) == ["a note"]


def test_a_home_that_fails_in_a_way_that_nobody_thought_of_starts_all_the_same(home: Path) -> None:
    settings = SessionSettings(storage=(StorageFolder("a\0b", "/mnt"),))
    (note,) = notes_of(preparing(settings, home), 10)
    assert note.startswith("Your home could not be prepared: ValueError")


def test_a_file_server_that_is_away_takes_no_template_out_of_the_catalogue(
    home: Path, ours: Path, tmp_path: Path
) -> None:
    site = write(tmp_path / "site/own/start.ipynb", lesson("1")).parents[1]
    prepare_home(home, [ours, site], [])
    site.rename(tmp_path / "away")
    prepare_home(home, [ours, site], [])
    assert (home / "templates/own/start.ipynb").exists()


@pytest.mark.parametrize("card", [{"kernel": 3}, {"files": 3}, {"files": [3]}, {"files": ["\0"]}, {"gpus": []}])
def test_a_card_that_is_spoiled_spoils_nothing_else(card: dict[str, Any], home: Path, ours: Path) -> None:
    write(ours / "own/start.ipynb", lesson("1", **card))
    assert prepare_home(home, [ours], [], {"tensorflow"}) == []
    assert shown(home) == "version 1"


def test_nothing_of_the_persons_comes_into_the_catalogue_by_a_link_of_somebody_elses(home: Path, ours: Path) -> None:
    key = write(home / ".ssh/key", "secret")
    (ours / "README.md").unlink()
    (ours / "README.md").symlink_to(key)
    (ours / "tensorflow/key.csv").symlink_to("/proc/self/cwd/.ssh/key")
    write(ours / "tensorflow/start.ipynb", lesson("open('key.csv')"))

    with contextlib.chdir(home):
        assert prepare_home(home, [ours], []) == []

    assert shown(home) == "version 1"
    assert (home / "templates/tensorflow/start.ipynb").exists()
    assert not [file for file in (home / "templates").rglob("*") if file.is_file() and "secret" in file.read_text()]


def test_a_module_that_cannot_be_read_hides_its_own_lesson_alone(
    home: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ours / "own/start.ipynb", lesson("import closed"))
    write(ours / "own/closed.py", "")

    def read(path: Path, *limits: Any) -> bytes:
        if path.name == "closed.py":
            raise PermissionError(errno.EACCES, "no", str(path))
        return read_file(path, *limits)

    monkeypatch.setattr(units, "read_file", read)
    assert prepare_home(home, [ours], []) == []
    assert shown(home) == "version 1"
    assert not (home / "templates/own").exists()


@pytest.mark.parametrize("make", ["write_text", "mkdir", "symlink_to"])
def test_something_of_theirs_with_the_storages_name_stays(make: str, home: Path, ours: Path) -> None:
    place = home / "isilon"
    getattr(place, make)(*([] if make == "mkdir" else ["theirs"]))
    (note,) = prepare_home(home, [ours], [("isilon", "/mnt/isilon")])
    assert "~/isilon is something of yours" in note
    assert not place.is_symlink() or str(place.readlink()) == "theirs"


def test_our_own_link_follows_the_storage_when_it_moves(home: Path, ours: Path) -> None:
    prepare_home(home, [ours], [("isilon", "/mnt/old")])
    assert prepare_home(home, [ours], [("isilon", "/mnt/new")]) == []
    assert str((home / "isilon").readlink()) == "/mnt/new"


def test_a_full_disk_is_one_note_and_leaves_no_half_file(
    home: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    (note,) = prepare_home(home, [ours], [("isilon", "/mnt/isilon")])
    assert "No space left on device" in note
    assert copies(home) == []
    assert (home / "isilon").is_symlink()


def test_a_home_that_does_not_exist_is_one_note(tmp_path: Path, ours: Path) -> None:
    (note,) = prepare_home(tmp_path / "none", [ours], [])
    assert "The session works without it" in note


def test_missing_templates_are_one_note_and_the_storage_is_linked(home: Path, tmp_path: Path) -> None:
    (note,) = prepare_home(home, [tmp_path / "none"], [("isilon", "/mnt/isilon")])
    assert "there is no folder" in note
    assert (home / "isilon").is_symlink()
