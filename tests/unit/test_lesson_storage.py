"""Lessons on the storage of a group: nobody else gets a program run there, a folder removed, or a lesson to wait."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from portal.lessons import lesson_folders
from portal.lessons.lesson_folders import FolderOfOthers
from tests.lessons import NOTEBOOKS
from tests.unit.test_lesson_folders import mode, project

__all__ = ["project"]  # a fixture
MADE_ELSEWHERE = ("mkdtemp(", "TemporaryDirectory(", "NamedTemporaryFile(")


def cell(lesson: str, name: str) -> str:
    """The source of one cell."""
    cells = json.loads((NOTEBOOKS / f"{lesson}.ipynb").read_bytes())["cells"]
    (found,) = ("".join(one["source"]) for one in cells if one["id"] == name)
    return found


class AtExit:
    """What is to be done when the kernel ends."""

    def __init__(self) -> None:
        self.works: list[Any] = []

    def register(self, work: Any, *args: Any, **options: Any) -> None:
        self.works.append(lambda: work(*args, **options))

    def end(self) -> None:
        for work in reversed(self.works):
            work()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, in which the notebook lies and temporary files, too."""
    folder = tmp_path / "home"
    (folder / "tmp").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def larger() -> dict[str, Any]:
    """What the lesson on large tables knows before it chooses a folder."""
    known = {name: __import__(name) for name in ("os", "shutil", "subprocess", "tempfile")}
    values = {"rows": 1440, "gpus": 1, "small_files": 1, "folder": "", "keep": False}
    return {**known, **values, "atexit": AtExit(), "Path": Path, "lesson_folders": lesson_folders}


def choose(space: dict[str, Any]) -> Path:
    """The folder that the lesson on large tables makes for its data."""
    exec(cell("data/bigger_than_memory", "choose-folder"), space)  # noqa: S102  the lesson's own source
    return Path(space["data"])


def test_a_large_table_is_not_written_where_others_can_exchange_its_folder(
    home: Path, project: Path, larger: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "climate").symlink_to(project)

    data = choose(larger)

    assert (data.parent, mode(data)) == (home, 0o700)
    assert list(project.iterdir()) == []
    assert f"Somebody else can change {project}" in capsys.readouterr().out


def test_a_large_table_still_goes_to_a_storage_where_ones_own_stays(
    home: Path, project: Path, larger: dict[str, Any]
) -> None:
    project.chmod(0o1777)
    (home / "climate").symlink_to(project)

    assert choose(larger).parent.resolve() == project


def test_a_folder_that_is_named_is_refused_in_words(home: Path, project: Path, larger: dict[str, Any]) -> None:
    with pytest.raises(FolderOfOthers, match=f"Somebody else can change {project}"):
        choose(larger | {"folder": str(project)})
    assert list(project.iterdir()) == []


def test_the_program_that_asks_lies_where_nobody_else_writes_and_goes_with_the_kernel(
    home: Path, project: Path, larger: dict[str, Any]
) -> None:
    project.chmod(0o1777)
    (home / "climate").symlink_to(project)
    data = choose(larger)

    first_line, _, program = cell("data/bigger_than_memory", "write-program").partition("\n")
    place = Path(first_line.removeprefix("%%writefile ").format(**larger))
    place.write_text(program)

    assert place.parent.parent == home / "tmp"
    assert mode(place.parent) == 0o700
    assert "ask.py" in cell("data/bigger_than_memory", "ask")
    assert 'data / "ask.py"' not in cell("data/bigger_than_memory", "ask")
    larger["atexit"].end()
    assert not place.parent.exists()
    assert not data.exists()


def test_data_that_others_can_exchange_by_now_is_not_removed(home: Path, project: Path, larger: dict[str, Any]) -> None:
    project.chmod(0o1777)
    (home / "climate").symlink_to(project)
    data = choose(larger)
    (data / "hers").write_text("a month of work")
    project.chmod(0o2770)

    tidy = larger | {"high_water_mb": lambda _: 0.0}
    with pytest.raises(FolderOfOthers, match=f"change {project}"):
        exec(cell("data/bigger_than_memory", "tidy"), tidy)  # noqa: S102  the lesson's own source
    with pytest.raises(FolderOfOthers):
        larger["atexit"].end()
    assert (data / "hers").exists()


def test_summaries_that_are_not_kept_lie_and_go_where_nobody_else_writes(
    home: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {name: __import__(name) for name in ("os", "shutil", "time")}
    values = {"log_folder": str(project), "name": "mnist", "keep": False, "Path": Path, "atexit": AtExit()}
    space: dict[str, Any] = {**known, **values, "lesson_folders": lesson_folders}
    exec(cell("tensorflow/tensorboard", "train").partition("\n\n")[0], space)  # noqa: S102  the lesson's own source
    lesson = Path(space["lesson"])

    assert lesson.parent == home / "tmp"
    assert mode(lesson) == 0o700
    exec(cell("tensorflow/tensorboard", "tensorboard-link"), space)  # noqa: S102  the lesson's own source
    assert not lesson.exists()
    space["atexit"].end()


def test_the_file_that_measures_a_storage_is_read_back_whatever_others_put_in_its_place(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are quick: they have exchanged what has a name by the time that it was thrown out of memory."""

    def exchanged(*_: Any) -> None:
        for there in project.iterdir():
            there.unlink()
            there.symlink_to("/dev/full")  # of which one reads for ever

    monkeypatch.setattr(os, "posix_fadvise", exchanged)
    known = {name: __import__(name) for name in ("os", "tempfile", "time", "zlib")}
    space: dict[str, Any] = {**known, "Path": Path, "storage_mib": 4, "read": lambda _: "read_bytes: 0"}
    source = cell("cluster/know_your_node", "storage-test").partition("\nhome = ")[0]
    exec(source, space)  # noqa: S102  the lesson's own source

    def bounded(piece: Any) -> int:
        assert len(sums) < 9, "it reads what others put there"
        sums.append(1)
        return zlib.crc32(piece)

    sums: list[int] = []
    space["zlib"] = type("Bounded", (), {"crc32": staticmethod(bounded)})
    found = space["storage_speed"](project)
    assert found["right"]
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("lesson", "made_by"), [("own_environment", "make-environment"), ("container", "make-image")])
def test_ones_own_kernel_is_not_made_where_others_can_exchange_it(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, lesson: str, made_by: str
) -> None:
    monkeypatch.setitem(sys.modules, "lesson_folders", lesson_folders)
    names = {"environment": "mine", "kernel": "mine", "image": "", "runtime": "sh"}
    space: dict[str, Any] = {**names, "folder": str(project)}

    with pytest.raises(FolderOfOthers, match=f"Somebody else can change .*{project}"):
        exec(cell(f"kernels/{lesson}", "imports"), space)  # noqa: S102  the lesson's own source
    assert list(project.iterdir()) == []
    assert "= lesson_folders.private(" in cell(f"kernels/{lesson}", made_by), "whatever the umask says"


@pytest.mark.parametrize("lesson", ["own_environment", "container"])
def test_a_kernel_that_is_there_already_leaves_no_empty_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, lesson: str
) -> None:
    monkeypatch.setitem(sys.modules, "lesson_folders", lesson_folders)
    (home / ".local/share/jupyter/kernels/mine").mkdir(parents=True)
    names = {"environment": "mine", "kernel": "mine", "image": "", "runtime": "sh"}

    with pytest.raises(AssertionError, match="is there already"):
        exec(cell(f"kernels/{lesson}", "imports"), {**names, "folder": str(home / "new")})  # noqa: S102  as above
    assert not (home / "new").exists()


def test_a_point_of_a_sweep_is_removed_where_nobody_else_writes() -> None:
    assert 'lesson_folders.unshared(folder / "points")' in cell("cluster/sweep", "imports")


def test_lessons_make_folders_for_a_while_in_one_way() -> None:
    """``tempfile``'s own folders lie where others can exchange them, when ``TMPDIR`` is a folder of a group."""
    looked_at = 0
    for file in [*NOTEBOOKS.glob("*/*.ipynb"), *NOTEBOOKS.glob("*/*.py")]:
        if file.name != "lesson_folders.py":
            looked_at += 1
            found = [word for word in MADE_ELSEWHERE if word in file.read_text()]
            assert found == [], file
    assert looked_at > 40


def test_a_temporary_folder_says_what_to_do_where_it_was_asked_for(project: Path) -> None:
    with pytest.raises(FolderOfOthers, match="exchange what lies below it: name another"):
        lesson_folders.temporary("data-", str(project), "name another")
    assert list(project.iterdir()) == []
