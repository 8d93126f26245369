"""`portal notebooks run` as people call it, on the hub's host and on compute nodes."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from portal import cli
from portal.homes.held_place import LinkOfOthers
from portal.notebooks import run as run_module


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one kernel, ``mine``; nothing of this machine's is looked at."""
    spec = tmp_path / "jupyter/kernels/mine/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Mine", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(run_module, "refuse_root", lambda: None)  # these tests may run as root
    monkeypatch.chdir(tmp_path)
    return spec.parent


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    """A folder of templates with one that adds."""
    cell: dict[str, Any] = {"cell_type": "code", "id": "add", "metadata": {}, "outputs": [], "execution_count": None}
    values = {**cell, "id": "parameters", "metadata": {"tags": ["parameters"]}, "source": "a = 1"}
    spec = {"name": "mine", "display_name": "Mine", "language": "python"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": spec}}
    path = tmp_path / "templates/maths/add.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**notebook, "cells": [values, {**cell, "source": "print(a + 1)"}]}))
    return path.parent.parent


def test_root_runs_no_notebook_here(
    lesson: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever can change a template, or the environment of its kernel, would have root's rights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    started = Mock()
    monkeypatch.setattr("papermill.execute_notebook", started)

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson)]) == 1

    assert not started.called
    assert "root runs no notebooks: " in capsys.readouterr().err


def test_on_a_compute_node_without_the_settings_file_the_kernels_of_the_session_are_used(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--set", "a=41"]) == 0
    cells = json.loads((tmp_path / "add-run.ipynb").read_bytes())["cells"]
    assert "".join(cells[-1]["outputs"][0]["text"]) == "42\n"


def test_no_name_of_a_cell_steers_the_terminal(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    path = lesson / "maths/add.ipynb"
    notebook = json.loads(path.read_bytes())
    notebook["cells"][-1]["id"] = "\x1b]0;theirs\x07"  # nbformat reads it, and says that it is none in a log
    path.write_text(json.dumps(notebook))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson)]) == 0

    assert "\x1b" not in capsys.readouterr().out


NOTEBOOK: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
CELL: dict[str, Any] = {
    "cell_type": "code",
    "id": "a",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
    "source": "",
}


@pytest.mark.parametrize(
    "content",
    [
        [],
        "a text",
        {},
        {"nbformat": 99},
        {"cells": 3},
        {**NOTEBOOK, "cells": [3]},
        {**NOTEBOOK, "cells": [{"cell_type": "code"}]},
        {**NOTEBOOK, "cells": [{**CELL, "source": 5}]},
        {**NOTEBOOK, "cells": [{**CELL, "metadata": {"tags": 3}}]},
        {**NOTEBOOK, "metadata": {"kernelspec": 3}},
        {**NOTEBOOK, "metadata": {"kernelspec": {"name": [1]}}},
    ],
    ids=str,
)
def test_what_is_no_notebook_is_told_in_one_line(
    content: object, lesson: Path, kernels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lesson / "maths/add.ipynb").write_text(json.dumps(content))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson)]) == 1

    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("add.ipynb ")]
    assert re.fullmatch(r"add\.ipynb cannot be read as a notebook: .{3,300}", line)


def test_what_a_run_does_not_read_may_be_odd(lesson: Path, kernels: Path) -> None:
    path = lesson / "maths/add.ipynb"
    notebook = json.loads(path.read_bytes())
    notebook["metadata"] |= {"authors": "Bob", "title": 3}
    notebook["cells"][-1] |= {"execution_count": "3", "metadata": {"collapsed": "no"}}
    path.write_text(json.dumps(notebook))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson)]) == 0


def test_a_notebook_of_an_older_format_runs(lesson: Path, kernels: Path, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "language": "python", "metadata": {}, "outputs": [], "input": "print(6 * 7)"}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "old"}, "worksheets": [{"cells": [cell]}]}
    (lesson / "maths/add.ipynb").write_text(json.dumps(old))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--kernel", "mine"]) == 0
    assert "42" in (tmp_path / "add-run.ipynb").read_text()


def test_a_notebook_without_a_kernel_needs_one_that_is_chosen(
    lesson: Path, kernels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lesson / "maths/add.ipynb").write_text(json.dumps({**NOTEBOOK, "cells": [{**CELL, "source": "print(1)"}]}))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "add.ipynb names no kernel: choose one with --kernel."
    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--kernel", "mine"]) == 0


def test_a_kernel_that_ends_at_its_start_is_told_in_one_line(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    argv = ["/bin/sh", "-c", "echo 'odd: error: no licence' >&2; exit 3", "{connection_file}"]
    spec = json.dumps({"argv": argv, "display_name": "Mine", "language": "odd"})
    (kernels / "kernel.json").write_text(spec)
    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--set", "a=41"]) == 1
    said = capsys.readouterr().err
    assert "add.ipynb: The kernel mine cannot start: odd: error: no licence. More: portal kernels explain mine" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("others", ["may write there", "may rename it"])
def test_in_a_folder_of_others_the_kernel_is_not_one_that_somebody_left_there(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    project = tmp_path / "project"
    place = project / "own"
    place.mkdir(parents=True)
    ran = tmp_path / "ran"
    for name in ("ipykernel_launcher", "ipykernel", "traitlets", "json"):
        (place / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    spec = {"argv": ["touch", str(ran)], "display_name": "Theirs", "language": "python"}
    (place / "kernels/mine").mkdir(parents=True)
    (place / "kernels/mine/kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", f":{os.environ['JUPYTER_PATH']}")
    (project if others == "may rename it" else place).chmod(0o777)
    monkeypatch.chdir(place)
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--set", "a=41"]) == 0

    assert not ran.exists()


def test_what_others_left_beside_a_template_comes_behind_all_that_the_kernel_has(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = lesson / "maths"
    ran = tmp_path / "ran"
    for name in ("encodings", "sitecustomize", "usercustomize", "ipykernel", "traitlets", "json", "fractions"):
        (place / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (place / "of_the_lesson.py").write_text("a = 40\n")
    notebook = json.loads((place / "add.ipynb").read_bytes())
    notebook["cells"][-1]["source"] = "import fractions, of_the_lesson\nprint(of_the_lesson.a + a)"
    (place / "add.ipynb").write_text(json.dumps(notebook))
    place.chmod(0o1777)
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--set", "a=2"]) == 0

    assert not ran.exists()
    cells = json.loads((tmp_path / "add-run.ipynb").read_bytes())["cells"]
    assert "".join(cells[-1]["outputs"][0]["text"]) == "42\n"


def test_a_template_behind_a_link_of_others_is_run_as_one_that_they_can_change(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "held", Mock(side_effect=LinkOfOthers(errno.EACCES, "is somebody else's link")))
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))

    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--set", "a=2"]) == 0

    assert os.environ["PORTAL_KERNEL_TEMPLATE"] == str(lesson / "maths")


def test_a_settings_file_that_is_named_must_be_there(
    lesson: Path, kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = str(tmp_path / "no/site.toml")
    assert cli.main(["notebooks", "run", "maths/add", "--folder", str(lesson), "--site", named]) == 1
    assert "cannot be read: No such file or directory" in capsys.readouterr().err


def test_a_kernel_that_no_folder_has_is_told_with_those_that_there_are(
    lesson: Path, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "DEFAULT_SITE", str(tmp_path / "no/site.toml"))
    arguments = ["notebooks", "run", "maths/add", "--folder", str(lesson), "--kernel", "other"]
    assert cli.main(arguments) == 1
    told = capsys.readouterr().err
    assert "There is no kernel 'other'; there are " in told
    assert kernels.name in told
