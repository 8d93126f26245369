"""A folder of a lesson's keys: the person's own, and nobody else can change it or exchange it for another one."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import TypeGuard

import pytest

from portal.lessons import lesson_folders
from portal.lessons.lesson_folders import FolderOfOthers, own, private, temporary, unshared

LESSONS = Path(__file__).parents[2] / "notebooks"
SOMEBODY_ELSE = 4_000_000  # no account of this machine
PERSON = 4_000_001  # nor this


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that everybody in a project can change."""
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o2770)
    return folder


def mode(place: Path) -> int:
    return stat.S_IMODE(place.lstat().st_mode)


def test_a_new_folder_and_those_on_the_way_are_the_persons_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private(tmp_path / "work" / ".." / "work" / "cluster")
    finally:
        os.umask(before)
    assert made == tmp_path / "work/cluster"
    assert [mode(made), mode(made.parent)] == [0o700, 0o700]
    assert private(made) == made, "it may be there"


def test_a_folder_is_named_from_where_the_notebook_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert private("cluster") == tmp_path / "cluster"


def test_a_link_of_ones_own_is_followed_once_and_for_all(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute")
    assert private(tmp_path / "relative") == tmp_path / "real"


def test_a_link_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(FolderOfOthers, match="more than 40 links"):
        private(tmp_path / "round")


@pytest.mark.parametrize("rights", [0o2770, 0o777, 0o775])
@pytest.mark.parametrize("below", ["cluster", "team/cluster", "there"])
def test_a_place_that_others_can_exchange_is_refused_and_nothing_is_made_there(
    project: Path, rights: int, below: str
) -> None:
    (project / "there").mkdir(mode=0o700)
    project.chmod(rights)
    with pytest.raises(FolderOfOthers, match=rf"^Somebody else can change {project}, .*home.* chmod go-w {project}\.$"):
        private(project / below)
    assert [one.name for one in project.iterdir()] == ["there"]


def test_a_way_through_a_link_that_others_can_exchange_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (project / "mine").symlink_to(tmp_path / "mine")
    with pytest.raises(FolderOfOthers, match=f"change {project},"):
        private(project / "mine")


def test_a_link_of_others_that_was_moved_into_ones_own_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "work").symlink_to(tmp_path / "mine")
    os.lchown(tmp_path / "work", SOMEBODY_ELSE, SOMEBODY_ELSE)
    with pytest.raises(FolderOfOthers, match=f"^{tmp_path}/work is somebody else's link: name a folder in your home"):
        private(tmp_path / "work/cluster")
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("owner", [0, PERSON])
def test_a_link_of_others_that_root_alone_can_have_put_there_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    """As /scratch is, where an administrator brought the links along with their owners."""
    (tmp_path / "mine").mkdir(mode=0o700)
    os.chown(tmp_path / "mine", PERSON, PERSON)
    (tmp_path / "scratch").symlink_to("mine")
    os.lchown(tmp_path / "scratch", SOMEBODY_ELSE, SOMEBODY_ELSE)
    os.chown(tmp_path, owner, owner)
    monkeypatch.setattr("os.geteuid", lambda: PERSON)
    if owner == 0:
        assert private(tmp_path / "scratch") == tmp_path / "mine"
    else:
        with pytest.raises(FolderOfOthers, match="somebody else's link"):
            private(tmp_path / "scratch")


def test_a_link_into_a_place_that_others_can_exchange_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "team").mkdir(mode=0o700)
    (tmp_path / "shortcut").symlink_to(project)
    with pytest.raises(FolderOfOthers, match=f"change {project},"):
        private(tmp_path / "shortcut" / "team")


@pytest.mark.parametrize("rights", [0o750, 0o701, 0o770])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, rights: int) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster").chmod(rights)
    with pytest.raises(FolderOfOthers, match=f"^{tmp_path}/cluster is open to others: name a new folder"):
        private(tmp_path / "cluster")
    assert own(tmp_path / "cluster") == tmp_path / "cluster", "what its person closes later"


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_folders, "ROOT", os.geteuid())
    (tmp_path / "cluster").mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(FolderOfOthers, match=f"^{tmp_path}/cluster belongs to somebody else: name a folder"):
        private(tmp_path / "cluster")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_text("")
    with pytest.raises(FolderOfOthers, match="is no folder"):
        private(tmp_path / "cluster")


def test_in_a_sticky_folder_only_ones_own_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project.chmod(0o1777)
    made = private(project / "cluster")
    assert private(made, make=False) == made
    monkeypatch.setattr(lesson_folders, "_is_of_others", lambda found: found.st_ino == made.stat().st_ino)
    with pytest.raises(FolderOfOthers, match=f"change {project},"):
        private(made)


@pytest.mark.parametrize("owner", [0, PERSON])
def test_others_may_have_moved_ones_own_link_into_a_sticky_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    """Under the name of a lesson's work folder, which the lesson removes; a link of root's is an administrator's."""
    (tmp_path / "thesis").mkdir(mode=0o700)
    os.chown(tmp_path / "thesis", PERSON, PERSON)
    (project / "know-your-node").symlink_to(tmp_path / "thesis")
    os.lchown(project / "know-your-node", owner, owner)
    project.chmod(0o1777)
    monkeypatch.setattr("os.geteuid", lambda: PERSON)
    if owner == 0:
        assert unshared(project / "know-your-node") == tmp_path / "thesis"
    else:
        with pytest.raises(FolderOfOthers, match=f"change {project},.*: name a folder in your home"):
            unshared(project / "know-your-node")


def test_a_folder_of_this_node_alone_is_not_made_on_another(tmp_path: Path) -> None:
    with pytest.raises(FolderOfOthers, match=f"^{tmp_path}/cluster is not on this node: name a folder that every"):
        private(tmp_path / "cluster", make=False)
    assert not (tmp_path / "cluster").exists()


def test_a_temporary_folder_is_private_or_refused(project: Path, tmp_path: Path) -> None:
    made = temporary("ray-", str(tmp_path))
    assert [made.parent, mode(made)] == [tmp_path, 0o700]
    with pytest.raises(FolderOfOthers, match=f"change {project}, .* TMPDIR"):
        temporary("ray-", str(project))
    assert list(project.iterdir()) == []


def test_what_cleans_tmp_leaves_a_temporary_folder(tmp_path: Path) -> None:
    cleaner = os.open(temporary("ray-", str(tmp_path)), os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(BlockingIOError):  # tmpfiles.d(5): what is locked stays, whatever its age
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)


def test_a_temporary_folder_is_never_made_where_others_can_exchange_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linked").symlink_to(project)
    (project / "below").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: pytest.fail("it was made"))
    for place in (project, tmp_path / "linked", project / "below"):
        with pytest.raises(FolderOfOthers, match=f"change {project}, .* TMPDIR"):
            temporary("ray-", str(place))


@pytest.mark.parametrize("rights", [0o700, 0o755])
def test_others_may_read_a_folder_that_is_not_shared(tmp_path: Path, rights: int) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(rights)
    assert unshared(tmp_path / "runs") == tmp_path / "runs"


@pytest.mark.parametrize("rights", [0o775, 0o757, 0o1777])
def test_nobody_else_may_write_into_a_folder_that_is_not_shared(tmp_path: Path, rights: int) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(rights)
    with pytest.raises(FolderOfOthers, match="chmod go-w"):
        unshared(tmp_path / "runs")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a link to somebody else")
def test_a_folder_in_which_others_left_something_is_not_taken(tmp_path: Path) -> None:
    """It was shared, and its person has taken the right away since, as the message says."""
    runs = unshared(tmp_path / "runs")
    (runs / "own").mkdir()
    (runs / "train.py").symlink_to(tmp_path / ".bashrc")
    assert unshared(runs) == runs
    os.lchown(runs / "train.py", SOMEBODY_ELSE, -1)
    with pytest.raises(
        FolderOfOthers, match=rf"^{runs}/train\.py is somebody else's: remove it, or name a new folder\.$"
    ):
        unshared(runs)


def test_a_new_folder_is_not_shared_and_none_is_made_in_a_project(project: Path) -> None:
    assert mode(unshared(project.parent / "runs")) == 0o700
    with pytest.raises(FolderOfOthers, match="name a folder in your home"):
        unshared(project / "runs")
    assert list(project.iterdir()) == []


def test_lessons_work_in_folders_that_nobody_else_can_change() -> None:
    looked_at = 0
    for lesson in LESSONS.glob("*/*.ipynb"):
        cells = json.loads(lesson.read_bytes())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        if "work_folder = " in code:
            looked_at += 1
            has_keys = "import private_" in code  # of a cluster of Dask or Ray: its folder is looked at with them
            assert has_keys or "= lesson_folders.unshared(work_folder)" in code, lesson
    assert looked_at == 16


def test_lessons_start_no_python_in_the_folder_of_the_notebook() -> None:
    """It, and those that its libraries start, would look for modules there first."""
    without_python = {"mine", "['nvidia-smi', '-L']", "[program, '--version']"}  # squeue; of containers
    for lesson in LESSONS.glob("*/*.ipynb"):
        notebook = json.loads(lesson.read_bytes())
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = [source for cell in cells if not (source := "".join(cell["source"])).startswith("%%")]
        if notebook["metadata"]["kernelspec"]["language"] != "python":
            continue
        for call in filter(is_start, ast.walk(ast.parse("\n".join(sources)))):
            first = ast.unparse(call.args[0]) if call.args else ""
            is_told = any(named.arg in ("cwd", None) for named in call.keywords)
            is_other = first in without_python or first.startswith(("['stat'", "['ldd'"))
            assert is_told or is_other, f"{lesson.name}: {ast.unparse(call)}"


def is_start(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a program is started there."""
    starts = ("subprocess.run", "subprocess.Popen", "manager.start_kernel")
    return isinstance(node, ast.Call) and ast.unparse(node.func) in starts
