"""Templates as things one uses: what belongs to one, a copy of it with a stamp, and what becomes of the copy."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from portal.gallery import copies, sources, told, units
from portal.gallery.compare import compare
from portal.gallery.copies import CopyState, Outcome
from portal.gallery.files import HeldFolder
from portal.gallery.stamp import STAMP, TemplateRefused
from tests.lessons import lesson, ran, write

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder of templates with one lesson, its module, and something that is not its own."""
    folder = tmp_path / "shelf"
    write(
        folder / "tf/first.ipynb", lesson("import helper\nhelper.read('numbers.csv')", "See [the next](second.ipynb).")
    )
    write(folder / "tf/second.ipynb", lesson("print(2)"))
    write(folder / "tf/helper.py", "from common import x\n")
    write(folder / "tf/other.py", "y = 1\n")
    write(folder / "tf/numbers.csv", "1,2\n")
    write(folder / "base/common.py", "x = 1\n").chmod(0o644)
    (folder / "base").chmod(0o755)  # else it belongs to no other framework's lesson
    return folder


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """A person's folder."""
    folder = tmp_path / "home/projects"
    folder.mkdir(parents=True)
    return folder


def catalogue(*folders: Path) -> dict[str, units.Unit]:
    return units.find(folders)


def first(shelf: Path) -> units.Unit:
    return catalogue(shelf)["tf/first"]


@pytest.fixture
def copied(shelf: Path, projects: Path) -> Path:
    """A copy of the first lesson."""
    return copies.make(first(shelf), projects, "../../templates/tf")


@contextmanager
def held(copy: Path) -> Iterator[HeldFolder]:
    with HeldFolder.at(copy) as folder:
        yield folder


def state(copy: Path, shelf: Path) -> CopyState:
    with held(copy) as folder:
        return copies.state(folder, catalogue(shelf))


def update(copy: Path, shelf: Path) -> Outcome:
    with held(copy) as folder:
        return copies.update(folder, catalogue(shelf))


def reset(copy: Path, shelf: Path) -> Outcome:
    with held(copy) as folder:
        return copies.reset(folder, catalogue(shelf))


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# -- what belongs to a template -------------------------------------------------------------------------


def test_a_template_has_the_modules_and_data_that_it_names_and_what_those_import(shelf: Path) -> None:
    assert set(first(shelf).files) == {"first.ipynb", "helper.py", "numbers.csv", "common.py"}


def test_a_template_whose_card_names_files_and_folders_has_them_too(shelf: Path) -> None:
    write(shelf / "tf/data/a/1.txt", "1")
    write(shelf / "tf/data/.hidden", "no")
    write(shelf / "tf/third.ipynb", lesson("open(name)", files=["other.py", "data"]))
    assert set(catalogue(shelf)["tf/third"].files) == {"third.ipynb", "other.py", "data/a/1.txt"}


def test_a_folder_belongs_to_a_template_where_a_path_names_it(shelf: Path) -> None:
    write(shelf / "tf/data/1.txt", "1")
    write(shelf / "tf/third.ipynb", lesson("data = 1"))
    write(shelf / "tf/fourth.ipynb", lesson("open('data/1.txt')"))
    assert set(catalogue(shelf)["tf/third"].files) == {"third.ipynb"}
    assert set(catalogue(shelf)["tf/fourth"].files) == {"fourth.ipynb", "data/1.txt"}


def test_much_data_is_no_part_of_a_template(shelf: Path) -> None:
    for number in range(6):
        write(shelf / f"tf/data/{number}", " " * units.FILE_MAX)
    write(shelf / "tf/data/long", " " * (units.FILE_MAX + 1))
    write(shelf / "tf/third.ipynb", lesson("open('data/1')"))
    assert set(catalogue(shelf)["tf/third"].files) == {"third.ipynb", "data/0", "data/1", "data/2"}


@pytest.mark.parametrize("name", ["../base/common.py", "/etc/passwd", "none.txt"])
def test_a_card_brings_nothing_from_outside_its_folder(name: str, shelf: Path) -> None:
    write(shelf / "tf/third.ipynb", lesson("1", files=[name]))
    assert "tf/third" not in catalogue(shelf) or set(catalogue(shelf)["tf/third"].files) == {"third.ipynb"}


def test_pictures_that_the_text_shows_belong_to_a_template(shelf: Path) -> None:
    write(shelf / "tf/picture.svg", "<svg/>")
    write(shelf / "tf/third.ipynb", lesson("1", "![a picture](picture.svg) and [the web](https://example.org/a.html)"))
    assert set(catalogue(shelf)["tf/third"].files) == {"third.ipynb", "picture.svg"}


def test_the_first_folder_counts_where_two_have_a_template_of_one_name(shelf: Path, tmp_path: Path) -> None:
    write(tmp_path / "site/tf/first.ipynb", lesson("print('of the site')"))
    write(tmp_path / "site/own/start.ipynb", lesson("print('of the site')"))
    found = catalogue(shelf, tmp_path / "site", tmp_path / "none")
    assert list(found) == ["own/start", "tf/first", "tf/second"]
    assert found["tf/first"].root == shelf


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"metadata": {"dsportal": {}}, "cells": []}'])
def test_a_spoiled_notebook_is_left_out_and_harms_no_other(content: str, shelf: Path) -> None:
    write(shelf / "tf/spoiled.ipynb", content)
    os.mkfifo(shelf / "tf/pipe.ipynb")
    assert set(catalogue(shelf)) == {"tf/first", "tf/second"}


def test_a_pipe_a_device_or_a_long_file_in_the_place_of_a_module_keeps_nobody_waiting(shelf: Path) -> None:
    common = shelf / "base/common.py"
    common.unlink()
    os.mkfifo(common)
    assert set(first(shelf).files) == {"first.ipynb", "helper.py", "numbers.csv"}
    common.unlink()
    common.symlink_to("/dev/zero")
    assert set(first(shelf).files) == {"first.ipynb", "helper.py", "numbers.csv"}
    common.unlink()
    write(common, " " * (units.FILE_MAX + 1))
    assert set(first(shelf).files) == {"first.ipynb", "helper.py", "numbers.csv"}


def test_a_spoiled_notebook_that_a_card_names_harms_no_other_template(shelf: Path) -> None:
    write(shelf / "tf/deep.ipynb", "[" * 100_000)
    write(shelf / "tf/third.ipynb", lesson("1", files=["deep.ipynb"]))
    assert {"tf/first", "tf/second"} <= set(catalogue(shelf))


def test_a_folder_in_the_place_of_a_file_of_a_copy_is_told_and_leaves_nothing_open(copied: Path) -> None:
    (copied / "helper.py").unlink()
    (copied / "helper.py").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with held(copied) as folder, pytest.raises(OSError, match="is no regular file"):
        folder.read("helper.py")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """What belongs to the person whose session looks, and to nobody else."""
    folder = tmp_path / "home/private"
    write(folder / "key.csv", "secret")
    write(folder / "first.ipynb", lesson("print('secret')"))
    return folder


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("tf/numbers.csv", "key.csv"),
        ("tf/helper.py", "key.csv"),
        ("base/common.py", "key.csv"),
        ("tf/data/1.csv", "key.csv"),
        ("tf/inner", ""),
        ("tf/first.ipynb", "first.ipynb"),
        ("private", ""),
    ],
)
def test_a_link_that_leads_out_of_the_templates_brings_nothing(
    place: str, target: str, shelf: Path, private: Path
) -> None:
    write(shelf / "tf/data/2.csv", "2")
    write(shelf / "tf/third.ipynb", lesson("import helper", files=["data", "numbers.csv", "inner/key.csv"]))
    (shelf / place).unlink(missing_ok=True)
    (shelf / place).symlink_to(private / target)

    found = catalogue(shelf)

    assert {"tf/second", "tf/third"} <= set(found), "the others are there"
    assert not [name for unit in found.values() for name, content in unit.contents.items() if b"secret" in content]
    assert "data/2.csv" in found["tf/third"].files


def test_links_within_the_folders_of_templates_bring_what_they_lead_to(shelf: Path, tmp_path: Path) -> None:
    """A site may have a whole folder behind a link, a framework's other name, or a file that two of them have."""
    (shelf / "tf2").symlink_to("tf")
    (shelf / "tf/numbers.csv").rename(shelf / "base/numbers.csv")
    (shelf / "tf/numbers.csv").symlink_to("../base/numbers.csv")
    write(tmp_path / "site/own/start.ipynb", lesson("1"))
    (tmp_path / "site/tf3").symlink_to(shelf / "tf")
    (tmp_path / "linked").symlink_to("shelf")

    found = catalogue(tmp_path / "linked", tmp_path / "site")

    assert list(found) == [f"{folder}/{name}" for folder in ("own", "tf", "tf2", "tf3") for name in NAMES[folder]]
    assert set(found["tf/first"].files) == {"first.ipynb", "helper.py", "numbers.csv", "common.py"}
    assert "numbers.csv" in found["tf3/first"].files


NAMES = {"own": ["start"]} | {folder: ["first", "second"] for folder in ("tf", "tf2", "tf3")}


def test_a_file_that_becomes_such_a_link_before_it_is_read_is_not_read(shelf: Path, private: Path) -> None:
    listed = dataclasses.replace(first(shelf))  # nothing of it is read yet
    (shelf / "tf/numbers.csv").unlink()
    (shelf / "tf/numbers.csv").symlink_to(private / "key.csv")
    with pytest.raises(OSError, match="leads out of the folders of templates"):
        _ = listed.contents


def test_the_portals_own_templates_bring_every_module_that_they_import() -> None:
    found = catalogue(ROOT / "notebooks")
    assert len(found) == len(list((ROOT / "notebooks").glob("*/*.ipynb")))
    assert {"trained_model.py", "fast_layers.py"} <= set(found["inference/server"].files)
    modules = {path.name for path in (ROOT / "notebooks").glob("*/*.py")}
    assert modules == {name for unit in found.values() for name in unit.files if name.endswith(".py")}


def test_a_version_changes_with_the_sources_alone(shelf: Path) -> None:
    before = first(shelf).version
    ran(shelf / "tf/first.ipynb")
    assert first(shelf).version == before
    write(shelf / "base/common.py", "x = 2\n")
    assert first(shelf).version != before


# -- sources --------------------------------------------------------------------------------------------


def test_a_notebook_reads_as_its_kernel_and_its_cells() -> None:
    text = sources.source("a.ipynb", json.dumps(lesson("n = 1")).encode())
    assert "kernel: tensorflow\n" in text
    assert "---- code: work ----\nn = 1\n" in text


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"cells": 3, "metadata": {}}', b"[" * 100_000])
def test_what_is_no_notebook_is_compared_byte_by_byte(content: bytes) -> None:
    assert sources.fingerprint("a.ipynb", content) == sources.fingerprint("a.txt", content)


# -- a copy ---------------------------------------------------------------------------------------------


def test_a_notebook_with_more_than_jupyterlab_opens_is_compared_as_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.dumps(lesson("n = 1")).encode()
    monkeypatch.setattr(sources, "has_too_much", lambda _: True)
    assert sources.source("a.ipynb", content) == content.decode()
    assert sources.fingerprint("a.ipynb", content) == sources.fingerprint("a.txt", content)


def test_a_copy_is_one_folder_with_all_that_belongs_to_it_and_a_stamp(copied: Path, projects: Path) -> None:
    assert copied == projects / "tf-first"
    assert files_of(copied) == {"first.ipynb", "helper.py", "numbers.csv", "common.py", STAMP}
    assert list(projects.iterdir()) == [copied]


def test_a_copy_has_the_mode_that_the_person_gives_new_files(shelf: Path, projects: Path) -> None:
    before = os.umask(0o027)
    try:
        copy = copies.make(first(shelf), projects)
    finally:
        os.umask(before)
    assert copy.stat().st_mode & 0o777 == 0o750
    assert (copy / "first.ipynb").stat().st_mode & 0o777 == 0o640


def test_nobody_else_changes_a_copy_where_new_folders_are_a_groups(shelf: Path, projects: Path) -> None:
    before = os.umask(0o002)
    try:
        copy = copies.make(first(shelf), projects)
    finally:
        os.umask(before)
    assert copy.stat().st_mode & 0o777 == 0o755


def test_a_second_copy_gets_a_number_and_touches_nothing(copied: Path, shelf: Path, projects: Path) -> None:
    (projects / "tf-first-2").symlink_to("nowhere")
    assert copies.make(first(shelf), projects) == projects / "tf-first-3"
    assert state(copied, shelf).word == "same"


def test_links_to_other_lessons_lead_from_the_copy_to_the_catalogue(copied: Path) -> None:
    assert "[the next](../../templates/tf/second.ipynb)" in sources.source(
        "first.ipynb", (copied / "first.ipynb").read_bytes()
    )


@pytest.mark.timeout(PATIENCE_S)  # a regular expression may be at it for hours
@pytest.mark.parametrize("text", ["](", "](a#"])
def test_a_text_of_many_links_that_do_not_end_keeps_nobody_waiting(text: str) -> None:
    notebook = lesson("1", f"{text * 2**20} and [the next](second.ipynb#part)")
    assert list(sources.links(json.dumps(notebook).encode())) == ["second.ipynb"]


def test_a_full_disk_leaves_no_half_copy(shelf: Path, projects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space"):
        copies.make(first(shelf), projects)
    assert list(projects.iterdir()) == []


def test_a_copy_into_a_folder_that_is_not_there_is_refused(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(TemplateRefused, match="There is no folder"):
        copies.make(first(shelf), tmp_path / "none")


# -- what becomes of it ---------------------------------------------------------------------------------


def test_a_run_is_no_change(copied: Path, shelf: Path) -> None:
    ran(copied / "first.ipynb")
    assert state(copied, shelf).word == "same"


def test_a_change_of_the_person_is_hers(copied: Path, shelf: Path) -> None:
    ran(copied / "first.ipynb", "print('mine')")
    assert state(copied, shelf).files["first.ipynb"] == "yours"
    assert state(copied, shelf).word == "yours"


def test_a_newer_template_is_told_by_file(copied: Path, shelf: Path) -> None:
    write(shelf / "tf/helper.py", "from common import x as z\n")
    assert state(copied, shelf).files == {
        "first.ipynb": "same", "helper.py": "newer", "numbers.csv": "same", "common.py": "same",
    }  # fmt: skip
    assert state(copied, shelf).word == "newer"


def test_an_update_brings_notebook_and_modules_together(copied: Path, shelf: Path) -> None:
    write(shelf / "tf/first.ipynb", lesson("import helper, more"))
    write(shelf / "tf/more.py", "m = 1\n")
    outcome = update(copied, shelf)
    assert set(outcome.written) == {"first.ipynb", "more.py"}
    assert outcome.kept == ()
    assert state(copied, shelf).word == "same"
    assert "import helper, more" in (copied / "first.ipynb").read_text()


def test_an_update_keeps_the_outputs_of_a_run_beside(copied: Path, shelf: Path) -> None:
    ran(copied / "first.ipynb")
    with_outputs = (copied / "first.ipynb").read_bytes()
    write(shelf / "tf/first.ipynb", lesson("import helper  # better"))
    outcome = update(copied, shelf)
    (kept,) = outcome.kept
    assert kept.startswith("first-kept-2")
    assert (copied / kept).read_bytes() == with_outputs


def test_an_update_takes_the_module_and_leaves_the_notebook_that_only_the_person_changed(
    copied: Path, shelf: Path
) -> None:
    ran(copied / "first.ipynb", "import helper; epochs = 10")
    mine = (copied / "first.ipynb").read_bytes()
    write(shelf / "tf/helper.py", "from common import x as z\n")
    assert state(copied, shelf).word == "both"
    assert update(copied, shelf).written == ("helper.py",)
    assert (copied / "first.ipynb").read_bytes() == mine
    assert state(copied, shelf).word == "yours"


def test_where_both_changed_a_file_the_copy_stays_whole_and_the_new_version_is_beside(
    copied: Path, shelf: Path
) -> None:
    ran(copied / "first.ipynb", "epochs = 10")
    write(shelf / "tf/first.ipynb", lesson("import helper; epochs = 3"))
    write(shelf / "tf/helper.py", "from common import x as z\n")
    before = {name: (copied / name).read_bytes() for name in files_of(copied)}
    outcome = update(copied, shelf)
    assert outcome.beside == copied.parent / "tf-first-2"
    assert {name: (copied / name).read_bytes() for name in files_of(copied)} == before
    assert state(outcome.beside, shelf).word == "same"
    assert update(copied, shelf).beside == outcome.beside, "the one that is there is used"


def test_an_update_that_was_cut_off_is_finished_by_the_next(
    copied: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(shelf / "tf/first.ipynb", lesson("import helper; new()"))
    write(shelf / "tf/helper.py", "from common import new\n")
    rename = os.rename

    def killed(*names: Any, **folders: Any) -> None:
        if names[1] == "helper.py":
            raise KeyboardInterrupt
        rename(*names, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            update(copied, shelf)
    assert state(copied, shelf).word == "newer"
    update(copied, shelf)
    assert state(copied, shelf).word == "same"
    assert files_of(copied) == {"first.ipynb", "helper.py", "numbers.csv", "common.py", STAMP}


def test_a_file_that_the_person_took_away_comes_back_with_an_update(copied: Path, shelf: Path) -> None:
    (copied / "helper.py").unlink()
    assert state(copied, shelf).files["helper.py"] == "missing"
    assert update(copied, shelf).written == ("helper.py",)


def test_a_reset_is_the_template_as_it_is_and_keeps_what_was_there(copied: Path, shelf: Path) -> None:
    ran(copied / "first.ipynb", "print('mine')")
    write(copied / "helper.py", "mine = 1\n")
    mine = (copied / "first.ipynb").read_bytes()
    outcome = reset(copied, shelf)
    assert set(outcome.written) == {"first.ipynb", "helper.py"}
    assert (copied / outcome.kept[0]).read_bytes() == mine
    assert state(copied, shelf).word == "same"
    ran(copied / "first.ipynb")
    assert len({*outcome.kept, *reset(copied, shelf).kept}) == 3, "the second one of a day gets a number"


def test_a_link_in_a_copy_is_not_written_through(copied: Path, shelf: Path, tmp_path: Path) -> None:
    precious = write(tmp_path / "precious", "precious")
    (copied / "helper.py").unlink()
    (copied / "helper.py").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        reset(copied, shelf)
    (copied / "helper.py").unlink()
    (copied.parent / "linked").symlink_to(copied)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"), held(copied.parent / "linked"):
        pass
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b'{"files": {"a": 1}}', b"[" * 100_000])
def test_a_spoiled_stamp_is_told_and_nothing_is_done(content: bytes, copied: Path, shelf: Path) -> None:
    (copied / STAMP).write_bytes(content)
    with pytest.raises(TemplateRefused, match="is no copy of a template"):
        reset(copied, shelf)


def test_a_stamp_names_no_file_outside_its_folder(copied: Path, shelf: Path) -> None:
    stamp = json.loads((copied / STAMP).read_text())
    stamp["files"]["../../precious"] = "0" * 64
    (copied / STAMP).write_text(json.dumps(stamp))
    reset(copied, shelf)
    assert files_of(copied.parent) == {f"tf-first/{name}" for name in files_of(copied)}


def test_a_copy_of_a_template_that_is_no_more_stays(copied: Path, shelf: Path) -> None:
    (shelf / "tf/first.ipynb").unlink()
    with pytest.raises(TemplateRefused, match=r"no template 'tf/first' any more.*There are tf/second"):
        state(copied, shelf)


def test_a_copy_that_somebody_made_endless_is_not_compared_line_by_line(copied: Path, shelf: Path) -> None:
    line = (shelf / "tf/helper.py").read_text().splitlines(keepends=True)[0]
    (copied / "helper.py").write_text(line * 2_000_000)
    with held(copied) as folder:
        text = compare(folder, catalogue(shelf))
    assert text == "--- helper.py has more than 10000 lines in your copy, and is not compared\n"


def test_what_somebody_wrote_into_a_copy_steers_no_terminal(
    copied: Path, shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "helper.py").write_text("\x1b]0;taken\x07\x1b[2J # nice\n")
    assert told.main_compare([shelf], copied) == 1
    out = capsys.readouterr().out
    assert "-?]0;taken??[2J # nice\n" in out
    assert "\x1b" not in out


def test_a_comparison_shows_sources_and_no_outputs(copied: Path, shelf: Path) -> None:
    ran(copied / "first.ipynb", "epochs = 10")
    (copied / "numbers.csv").unlink()
    with held(copied) as folder:
        text = compare(folder, catalogue(shelf))
    assert "-epochs = 10\n+import helper\n" in text
    assert "--- numbers.csv is not in your copy" in text
    assert "0.91" not in text
    ran(shelf / "tf/first.ipynb")
    with held(copies.make(first(shelf), copied.parent)) as folder:
        assert compare(folder, catalogue(shelf)) == ""
