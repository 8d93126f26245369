"""In a folder that others can change no name that the environment has, or that Python itself asks for, is theirs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from portal.kernels import python_start
from tests.unit.test_python_start import SPAWN, kernel, printed

# As setuptools writes it for `pip install -e`: it stands behind Python's own finders. And one that asks those itself.
EDITABLE = """
import importlib.util, sys
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "own_lib":
            return importlib.util.spec_from_file_location(name, {own!r})
class Asking:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return PathFinder.find_spec(name, path)
from importlib.machinery import PathFinder
sys.meta_path += [Finder, Asking]
"""
OF_ENVIRONMENT = """
import own_lib, own_space.deep
from importlib.metadata import entry_points
found = entry_points(group="a.group")
for entry in found:
    entry.load()
import copy, pickle, pathlib, platform, shutil, subprocess, multiprocessing.connection
for name in ("org", "_winapi", "msvcrt", "colorsys"):
    try:
        __import__(name)
    except ImportError:
        pass
print(own_lib.whose, own_space.deep.whose, *(entry.name for entry in found))
"""
TAKEN = ("own_lib", "own_space", "loaded", "org", "java", "nt", "msvcrt", "_winapi", "winreg", "colorsys", "_wmi")


class Folders:
    """An environment, and a folder of a notebook in which others have left files of all of its names."""

    def __init__(self, tmp_path: Path) -> None:
        self.beside, self.env, self.ran = (tmp_path / name for name in ("beside", "env", "ran"))
        (self.env / "own_space").mkdir(parents=True)
        (self.env / "own_space/deep.py").write_text("whose = 'environment'")
        (self.env / "own_lib_itself.py").write_text("whose = 'environment'")
        (self.env / "sitecustomize.py").write_text(EDITABLE.format(own=str(self.env / "own_lib_itself.py")))
        self.beside.mkdir()
        for name in TAKEN:
            self.leave(name)
        self._info("theirs", "theirs = loaded")
        self.beside.chmod(0o777)

    def leave(self, name: str) -> None:
        (self.beside / name).mkdir()
        (self.beside / name / "__init__.py").write_text(f"open({str(self.ran)!r}, 'a').write('{name} ')\n")

    def _info(self, name: str, line: str) -> None:
        info = self.beside / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[a.group]\n{line}\n")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


WAYS = {
    "a cell": OF_ENVIRONMENT,
    "-c": '!{python} -c "$(cat of_environment.py)"',
    "-m": "!{python} -m of_environment",
    "-": "!{python} - < of_environment.py",
    "input": "!{python} < of_environment.py",
}


@pytest.mark.parametrize("way", WAYS)
def test_names_that_the_environment_has_or_python_asks_for_are_not_taken_from_others(
    tmp_path: Path, folders: Folders, way: str
) -> None:
    """As packages without a file, of an editable install, by entry points; and what Python looks for in vain."""
    (folders.beside / "of_environment.py").write_text(OF_ENVIRONMENT)
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        said = printed(client, WAYS[way].replace("{python}", sys.executable))
    assert said == "environment environment"
    assert not folders.ran.exists(), folders.ran.read_text()


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_what_a_pool_starts_runs_nothing_that_python_asks_for_in_vain(
    tmp_path: Path, folders: Folders, way: str
) -> None:
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        assert printed(client, SPAWN.format(way)).split() == ["done"]
    assert not folders.ran.exists(), folders.ran.read_text()


def test_where_a_cell_goes_later_no_name_of_the_environment_is_theirs_either(tmp_path: Path, folders: Folders) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    with kernel(own, tmp_path, str(folders.env)) as client:
        said = printed(client, f"import os; os.chdir({str(folders.beside)!r})\n{OF_ENVIRONMENT}")
    assert said == "environment environment"
    assert not folders.ran.exists(), folders.ran.read_text()


def test_what_somebody_puts_first_comes_first(tmp_path: Path, folders: Folders) -> None:
    """``%run``, a program, and a cell that puts a folder before the environment's."""
    (folders.beside / "program.py").write_text("import own_lib, colorsys")
    for number in (1, 2):
        another = tmp_path / f"another{number}"
        another.mkdir()
        another.chmod(0o777)
        (another / "named_twice.py").write_text(f"whose = {number}")
    append = f"sys.path += [{str(tmp_path / 'another1')!r}, {str(tmp_path / 'another2')!r}]"
    insert = f"import sys; sys.path.insert(1, {str(folders.beside)!r}); import own_space; del sys.path[1]"
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        printed(client, "%run program.py")
        assert folders.ran.read_text() == "own_lib colorsys "
        printed(client, f"!{sys.executable} program.py")
        assert folders.ran.read_text() == "own_lib colorsys " * 2
        printed(client, insert)
        assert folders.ran.read_text() == "own_lib colorsys " * 2 + "own_space "
        assert printed(client, f"{append}; import named_twice; print(named_twice.whose)") == "1"


POOL = """
import datasets, multiprocessing as m
if __name__ == '__main__':
    with m.get_context('spawn').Pool(1) as p: print(p.map_async(datasets.where, [1]).get(10))
"""


def two_of_one_name(tmp_path: Path) -> tuple[Path, Path]:
    """A notebook's folder and one of the environment with a module of the same name, for a pool's worker."""
    beside, env = tmp_path / "beside", tmp_path / "env"
    for folder in (beside, env):
        folder.mkdir()
        (folder / "datasets.py").write_text(f"def where(_): return {folder.name!r}")
    return beside, env


def test_the_workers_of_a_program_have_its_modules_and_those_of_a_library_the_environments(tmp_path: Path) -> None:
    """What multiprocessing spawns gets the path of its parent; a library's own begins with the folder, too."""
    beside, env = two_of_one_name(tmp_path)
    (beside / "train.py").write_text(POOL)
    (env / "library.py").write_text(POOL)
    (beside / "calls.py").write_text(
        f"import subprocess; print(subprocess.check_output([{sys.executable!r}, '-m', 'library'], text=True))"
    )
    beside.chmod(0o777)
    with kernel(beside, tmp_path, str(env)) as client:
        assert printed(client, f"!timeout 20 {sys.executable} train.py") == "['beside']"
        assert printed(client, f"!timeout 20 {sys.executable} -m library") == "['env']"
        assert printed(client, f"!timeout 20 {sys.executable} calls.py") == "['env']", "whatever called it"


@pytest.mark.parametrize("put", ["'../src'", "os.path.join(os.getcwd(), '..', 'src')", "'{src}/'", "'{src}'"])
def test_a_folder_that_a_cell_puts_first_comes_first_however_it_is_written(tmp_path: Path, put: str) -> None:
    """As who develops a package does, a release of which is installed."""
    beside, src, env = tmp_path / "project/notebooks", tmp_path / "project/src", tmp_path / "env"
    for folder in (beside, src, env):
        folder.mkdir(parents=True)
        (folder / "own_package.py").write_text(f"whose = {folder.name!r}")
    for folder in (beside, src):
        folder.chmod(0o777)
    insert = f"import os, sys; sys.path.insert(0, {put.format(src=src)})"
    with kernel(beside, tmp_path, str(env)) as client:
        assert printed(client, f"{insert}; import own_package; print(own_package.whose)") == "src"


def test_a_folder_behind_the_environment_is_not_before_it_when_that_is_named_once_more(
    tmp_path: Path, folders: Folders
) -> None:
    append = f"import os, sys; sys.path += [os.getcwd(), {str(folders.env)!r}]"
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        assert printed(client, f"{append}\n{OF_ENVIRONMENT}") == "environment environment"
    assert not folders.ran.exists(), folders.ran.read_text()


def test_a_folder_of_data_is_no_module_of_the_environment(tmp_path: Path, folders: Folders) -> None:
    (folders.env / "data").mkdir()
    (folders.env / "data/table.csv").touch()
    (folders.beside / "data.py").write_text("whose = 'beside'")
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        assert printed(client, "import data; print(data.whose)") == "beside"


@pytest.mark.parametrize("first", ["%run datasets_of.py", "import sys; sys.path.insert(0, {beside!r})"])
def test_what_a_cell_spawns_has_the_modules_of_the_cell(tmp_path: Path, first: str) -> None:
    beside, env = two_of_one_name(tmp_path)
    (beside / "datasets_of.py").write_text(POOL)
    beside.chmod(0o777)
    code = first.format(beside=str(beside)) + ("" if first.startswith("%") else f"\n{POOL}")
    with kernel(beside, tmp_path, str(env)) as client:
        assert printed(client, code) == "['beside']"


def test_a_program_lists_what_lies_beside_it(tmp_path: Path, folders: Folders) -> None:
    (folders.beside / "plugin.py").touch()
    (folders.beside / "program.py").write_text(
        "import os, pkgutil; print(*(one.name for one in pkgutil.iter_modules([os.path.dirname(__file__) or '.'])))"
    )
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        assert "plugin" in printed(client, f"!{sys.executable} program.py").split()


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_a_job_that_a_cell_submits_keeps_its_temporary_files_when_the_session_is_gone(
    tmp_path: Path, mode: int
) -> None:
    """With its variables (``sbatch --export=ALL``), on the session's own node."""
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "train.py").write_text(
        "import os, sys, tempfile\nprint(tempfile.gettempdir(), flush=True)\n"
        "sys.stdin.readline()\ntempfile.TemporaryFile().close()\nprint('trained on')\n"
    )
    beside.chmod(mode)
    start = f"import subprocess; job = subprocess.Popen([{sys.executable!r}, 'train.py'], stdin=-1, stdout=-1, "
    start += "stderr=subprocess.STDOUT, text=True); print(job.stdout.readline())"
    with kernel(beside, tmp_path, "") as client:
        where = printed(client, start)
        assert printed(client, "import tempfile; print(tempfile.gettempdir())").endswith("/run/tmp")
        shutil.rmtree(tmp_path / "run/tmp")  # at the session's end
        assert printed(client, "print(job.communicate('\\n')[0])") == "trained on", where


def test_a_kernel_starts_and_has_what_lies_beside_where_a_server_from_before_has_not_put_the_finders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "mine.py").write_text("print('beside')")
    beside.chmod(0o777)
    monkeypatch.setattr(python_start, "OWN", python_start.FIRST)
    with kernel(beside, tmp_path, "") as client:
        assert printed(client, "import mine, importlib.metadata; importlib.metadata.entry_points()") == "beside"
        assert printed(client, f"!{sys.executable} -c 'import json; print(1)'") == "1"


def test_where_the_folder_is_gone_a_cell_imports_and_reads_of_packages_as_ever(
    tmp_path: Path, folders: Folders
) -> None:
    gone = "import os, shutil, sys; sys.path.append('src'); shutil.rmtree(os.getcwd())"
    code = f"{gone}\nimport importlib.metadata as m, own_lib; print(bool(m.version('ipykernel')), own_lib.whose)"
    with kernel(folders.beside, tmp_path, str(folders.env)) as client:
        assert printed(client, code) == "True environment"
