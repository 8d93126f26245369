"""A new template: what is written, what is refused; and the list of those that there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portal import cli
from portal.homes import own_folder
from portal.notebooks import catalogue, style
from portal.notebooks.new import Kernelspec, NotCreated, choose, create
from portal.notebooks.table import table
from portal.notebooks.template import Template

SOMEBODY_ELSE = 4_000_000  # no account of this machine
PYTHON = Kernelspec("tensorflow", "TensorFlow", "python")
KERNELS = {"tensorflow": PYTHON, "ir": Kernelspec("ir", "R", "R")}
SITE = """
[kernels]
folder = "{folder}/jupyter"
[[kernel]]
name = "tensorflow"
title = "TensorFlow"
[[kernel]]
name = "ir"
title = "R"
language = "R"
"""


@pytest.fixture
def site(tmp_path: Path) -> str:
    """A settings file with two kernels, and a third kernelspec that an administrator put beside them."""
    spec = tmp_path / "jupyter/kernels/julia/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["julia"], "display_name": "Julia", "language": "julia"}))
    (tmp_path / "jupyter/kernels/broken").mkdir()
    (tmp_path / "jupyter/kernels/broken/kernel.json").write_text("{")
    file = tmp_path / "site.toml"
    file.write_text(SITE.format(folder=tmp_path))
    return str(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder of templates."""
    (tmp_path / "templates").mkdir()
    return tmp_path / "templates"


def portal(*words: str) -> int:
    """The exit status of a command of ``portal notebooks``."""
    return cli.main(["notebooks", *words])


def source(path: Path) -> dict[str, str]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text())["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_a_new_template_has_no_fault_and_stands_in_the_catalogue(kernel: Kernelspec, folder: Path) -> None:
    path = create(folder, "mine/first_try", kernel)
    assert style.check(path, KERNELS) == []
    (template,) = catalogue.templates(folder)
    assert (template.name, template.title, template.kernel) == ("mine/first_try", "First try", kernel.name)


def run(cells: dict[str, str]) -> tuple[int, str]:
    """Run the cells from top to bottom: the exit status, and what was printed."""
    argv = [sys.executable, "-c", "\n".join(cells.values())]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_new_python_template_runs_and_its_checks_can_fail(folder: Path) -> None:
    cells = source(create(folder, "mine/first", PYTHON))
    status, said = run(cells)
    assert (status, "As expected: 3.1" in said) == (0, True), said
    status, said = run({**cells, "work": cells["work"].replace("< 1", "< 0.9")})
    assert (status, "but 3.1416 with at most 0.0179 beside it was expected; look at what" in said) == (1, True), said
    status, said = run({**cells, "parameters": "points, seed = 10, 0"})
    assert (status, "10 points are too few to tell anything: give 1,000 or more" in said) == (1, True), said


def test_a_template_that_exists_stays_as_it_is(folder: Path) -> None:
    path = create(folder, "mine/first", PYTHON)
    path.write_text("my work")
    with pytest.raises(NotCreated, match="There is a template mine/first already, and it stays as it is"):
        create(folder, "mine/first", PYTHON, "Another")
    assert path.read_text() == "my work"


BAD_NAMES = ["first", "a/b/c", "../a/b", "/a/b", "A/b", "a/b.ipynb", "a/", "", "a/b c", "a/.b", "a/ö"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_another_name_than_framework_and_lesson_is_refused_with_what_is_allowed(name: str, folder: Path) -> None:
    with pytest.raises(NotCreated, match="write <framework>/<lesson> with small letters, digits and '_'"):
        create(folder, name, PYTHON)
    assert list(folder.rglob("*")) == []


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / "mine").write_text("a file in the way")
    with pytest.raises(NotCreated, match=r"mine(/first.ipynb)? cannot be written .*--folder"):
        create(folder, "mine/first", PYTHON)


def test_the_kernel_is_the_wanted_one_or_the_folders_or_that_of_its_brothers() -> None:
    assert choose(KERNELS, "ir", "tensorflow").name == "ir"
    assert choose(KERNELS, "", "tensorflow", "ir").name == "tensorflow"
    assert choose(KERNELS, "", "r", "ir").name == "ir"
    with pytest.raises(NotCreated, match="There is no kernel 'jax'; there are ir, tensorflow"):
        choose(KERNELS, "jax", "tensorflow")
    with pytest.raises(NotCreated, match=r"called like the folder 'jax': name one \(--kernel\); there are ir"):
        choose(KERNELS, "", "jax")


def test_the_command_writes_checks_and_refuses(folder: Path, site: str, capsys: Any) -> None:
    where = ["--folder", str(folder), "--site", site]
    assert portal("new", "tensorflow/mine", "--title", "My lesson", *where) == 0
    assert f"written: {folder}/tensorflow/mine.ipynb" in capsys.readouterr().out
    assert portal("check", *where) == 0
    assert "1 checked, no fault" in capsys.readouterr().out
    assert portal("new", "tensorflow/mine", *where) == 1
    assert "There is a template tensorflow/mine already" in capsys.readouterr().err
    assert portal("new", "My lesson", *where) == 1
    assert "'My lesson' is no name for a template: write <framework>/<lesson>" in capsys.readouterr().err
    assert portal("new", "jax/mine", *where) == 1
    assert "there are ir, julia, tensorflow" in capsys.readouterr().err
    assert portal("list", "--folder", str(folder)) == 0
    assert "My lesson" in capsys.readouterr().out
    assert portal("list", "--folder", str(folder / "none")) == 1
    assert "There is no folder" in capsys.readouterr().err


def test_a_kernel_of_another_language_than_ours_is_refused(folder: Path, site: str, capsys: Any) -> None:
    assert portal("new", "julia/mine", "--folder", str(folder), "--site", site) == 1
    assert "The kernel julia speaks julia; this starts lessons in python and R." in capsys.readouterr().err
    assert list(folder.rglob("*")) == []


def test_a_kernel_exists_when_the_settings_or_the_kernels_folder_have_it(folder: Path, site: str, capsys: Any) -> None:
    where = ["--folder", str(folder), "--site", site]
    assert portal("new", "tensorflow/mine", *where) == 0
    path = folder / "tensorflow/mine.ipynb"
    for name, status in {"julia": 0, "broken": 1, "pytorch": 1}.items():
        notebook = json.loads(path.read_text())
        notebook["metadata"]["dsportal"]["kernel"] = notebook["metadata"]["kernelspec"]["name"] = name
        path.write_text(json.dumps(notebook))
        capsys.readouterr()
        assert portal("check", *where) == status
        told = "there is no kernel" in capsys.readouterr().out
        assert told == bool(status)


def test_without_settings_the_kernels_are_those_of_the_example(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(cli, "DEFAULT_SITE", "/nowhere/site.toml")
    assert portal("check", "r/mnist", "mxnet/mnist", "pytorch/mnist") == 0
    assert "3 checked, no fault" in capsys.readouterr().out


TITLE, DATA = "MNIST: train your first image classifier", "none " * 20
CARDS = [
    Template("tensorflow/mnist", Path("a"), TITLE, "", "TensorFlow", "tensorflow", 1, 12, "MNIST", 3),
    Template("r/a", Path("b"), "A long title " * 6, "", "R", "ir", 0, 1, DATA),
]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_list_keeps_within_the_terminal_and_leaves_no_word_out(width: int) -> None:
    lines = table(CARDS, width).splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("title") == 6 + (width >= 120)
    assert "".join(lines).count("none") == 20
    assert lines[0].split()[:3] == ["template", "kernel", "GPUs"]
    assert {line.split()[0] for line in lines if "tensorflow  " in line} == {"tensorflow/mnist"}


def test_an_empty_list_has_its_titles() -> None:
    assert table([], 80).splitlines()[0].startswith("template  kernel")


def test_the_list_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for width in ("80", "120"):
        monkeypatch.setitem(os.environ, "COLUMNS", width)
        assert portal("list") == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= int(width)
        assert any(line.startswith("tensorflow/mnist") for line in lines)


def test_a_link_of_others_is_not_followed_to_where_a_template_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hers").mkdir()
    folder.chmod(0o777)
    (folder / "tensorflow").symlink_to(tmp_path / "hers")
    monkeypatch.setattr(own_folder, "ROOT", SOMEBODY_ELSE)
    monkeypatch.setattr("os.geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(NotCreated, match="tensorflow: is somebody else's link"):
        create(folder, "tensorflow/mine", PYTHON)
    assert list((tmp_path / "hers").iterdir()) == []
