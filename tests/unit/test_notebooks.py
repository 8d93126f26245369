"""The notebook templates: what is listed, what the house style refuses, and what a home gets."""

from __future__ import annotations

import copy
import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal.lessons import SHARED
from portal.notebooks import catalogue, run, style
from portal.notebooks.catalogue import main_check
from portal.notebooks.style import parameters
from portal.singleuser import home as home_module
from portal.singleuser.home import MANIFEST, prepare_home

ROOT = Path(__file__).parents[2]
Notebook = dict[str, Any]


def cell(name: str, source: str, **metadata: Any) -> dict[str, Any]:
    """A code cell."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run lets its kernel see is forgotten afterwards."""
    monkeypatch.setenv("JUPYTER_PATH", "")
    monkeypatch.setenv("PYTHONPATH", "")


@pytest.fixture
def good() -> Notebook:
    """A notebook without a fault."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A lesson\n\nWhat it teaches.\n"}
    card = {
        "framework": "TensorFlow", "kernel": "tensorflow", "gpus": 1, "minutes_cpu": 1,
        "dataset": "MNIST", "summary": "What it teaches.",
    }  # fmt: skip
    return {
        "cells": [title, cell("values", "n = 1  # how often", tags=["parameters"]), cell("work", "n + 1")],
        "metadata": {
            "dsportal": card,
            "kernelspec": {"name": "tensorflow", "display_name": "TF", "language": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def written(notebook: Notebook, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))
    return path


def faults(notebook: Notebook, folder: Path) -> str:
    path = written(notebook, folder / "templates/tensorflow/lesson.ipynb")
    return "\n".join(style.check(path, ["tensorflow", "python3"]))


def test_the_templates_of_the_portal_have_no_fault() -> None:
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        assert style.check(path) == [], path


def test_minutes_on_a_gpu_stand_on_a_card_only_where_they_were_measured(good: Notebook, tmp_path: Path) -> None:
    assert faults(good, tmp_path) == ""
    good["metadata"]["dsportal"]["minutes_gpu"] = 3
    assert faults(good, tmp_path) == ""
    good["metadata"]["dsportal"]["minutes_gpu"] = "3"
    assert "needs 'minutes_gpu', a whole number" in faults(good, tmp_path)


def sources() -> dict[str, str]:
    """The code of each template, by its name."""
    found = {}
    for path in (ROOT / "notebooks").glob("*/*.ipynb"):
        cells = json.loads(path.read_bytes())["cells"]
        code = ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
        found[f"{path.parent.name}/{path.stem}"] = "\n".join(code)
    return found


def test_a_job_of_a_template_gives_srun_the_cores_that_it_asked_for() -> None:
    """Since Slurm 22.05 srun has one core for each task, whatever ``#SBATCH --cpus-per-task`` says: sbatch(1)."""
    jobs = {name: code for name, code in sources().items() if "#SBATCH" in code and "srun" in code}
    assert len(jobs) >= 4
    assert [name for name, code in jobs.items() if "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" not in code] == []


def test_no_template_throws_the_errors_of_its_framework_away() -> None:
    """What a framework writes while it finds no driver is the only word of why there is no GPU."""
    assert [name for name, code in sources().items() if "os.devnull" in code] == []


def test_a_template_says_when_its_framework_sees_fewer_gpus_than_slurm_gave() -> None:
    looks = {name for name, code in sources().items() if "{gpus} GPUs" in code and "cores, gpus = " in code}
    assert len(looks) >= 5
    told = ("lesson_gpus.compare(", "SLURM_GPUS_ON_NODE")
    assert [name for name in looks if not any(words in sources()[name] for words in told)] == []


def test_a_template_has_the_shared_modules_that_it_imports_beside_it() -> None:
    for name, code in sources().items():
        used = {f"{module}.py" for module in re.findall(r"^import (lesson_\w+)", code, re.MULTILINE)}
        beside = {file.name for file in (ROOT / "notebooks" / name).parent.glob("*.py")}
        assert used <= beside, name


def test_a_shared_module_that_was_changed_in_one_folder_is_a_fault(
    good: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(good, tmp_path / "templates/tensorflow/lesson.ipynb").parent
    copy = shutil.copy(SHARED["lesson_images.py"], folder)
    (folder / "another.py").write_text("its own\n")
    assert main_check(tmp_path / "templates") == 0
    with Path(copy).open("a") as file:
        file.write("# changed\n")
    assert main_check(tmp_path / "templates", ["tensorflow/lesson"]) == 1
    said = capsys.readouterr().out
    original = ROOT / "portal/lessons/lesson_images.py"
    assert f"tensorflow: lesson_images.py is not the one that all lessons share: copy {original} over it" in said


def test_a_profile_that_names_operations_is_not_made_of_what_xla_has_fused() -> None:
    profiled = {name: code for name, code in sources().items() if "tf.profiler" in code}
    assert profiled
    assert [name for name, code in profiled.items() if "jit_compile=False" not in code] == []


def test_the_catalogue_names_a_template_by_its_folder_and_file() -> None:
    (mnist,) = (t for t in catalogue.templates(ROOT / "notebooks") if t.name == "tensorflow/mnist")
    assert (mnist.framework, mnist.kernel, mnist.path.name) == ("TensorFlow", "tensorflow", "mnist.ipynb")
    assert "MNIST" in mnist.title
    assert mnist.minutes_cpu >= 1


def test_an_unreadable_notebook_does_not_hide_the_others(good: Notebook, tmp_path: Path) -> None:
    written(good, tmp_path / "a" / "good.ipynb")
    (tmp_path / "a" / "broken.ipynb").write_bytes(b"\xff{")
    (tmp_path / "a" / "list.ipynb").write_text("[]")
    (tmp_path / "a" / "cardless.ipynb").write_text(json.dumps(good | {"metadata": {}}))
    assert [template.name for template in catalogue.templates(tmp_path)] == ["a/good"]


def test_a_folder_that_does_not_exist_has_no_templates(tmp_path: Path) -> None:
    assert catalogue.templates(tmp_path / "none") == ()


SPOILERS: dict[str, tuple[Callable[[Notebook], object], str]] = {
    "no title": (lambda n: n["cells"][0].update(source="A lesson"), "0 titles"),
    "a second title": (lambda n: n["cells"][0].update(source="# A\n\nb\n\n# C"), "2 titles"),
    "no summary": (lambda n: n["cells"][0].update(source="# A lesson"), "must say in one line"),
    "the title is not first": (lambda n: n["cells"].reverse(), "the first cell must be Markdown"),
    "no parameters": (lambda n: n["cells"][1].update(metadata={}), "0 cells have the tag 'parameters'"),
    "two parameters cells": (
        lambda n: n["cells"][2].update(metadata={"tags": ["parameters"]}), "2 cells have the tag 'parameters'"
    ),
    "parameters that are not first": (
        lambda n: n["cells"].insert(1, cell("before", "import os")), "must be the first code cell"
    ),
    "a parameter without a comment": (
        lambda n: n["cells"][1].update(source="n = 1  # how often\nm = '# no'"), "the parameter m has no comment"
    ),
    "parameters that are none": (lambda n: n["cells"][1].update(source="import os"), "gives no name a value"),
    "a kernel that does not exist": (
        lambda n: (n["metadata"]["dsportal"].update(kernel="jax"), n["metadata"]["kernelspec"].update(name="jax")),
        "there is no kernel 'jax'; there are python3, tensorflow",
    ),
    "a dead link": (
        lambda n: n["cells"][0].update(source="# A lesson\n\nMore in [the next](other.ipynb)."),
        "cell 1 (title): the link 'other.ipynb' leads to no file: there is no tensorflow/other.ipynb",
    ),
    "outputs": (
        lambda n: n["cells"][2].update(outputs=[{"output_type": "stream", "name": "stdout", "text": "2"}]),
        "cell 3 (work) has outputs",
    ),
    "a number": (lambda n: n["cells"][2].update(execution_count=7), "cell 3 (work) has outputs or a number"),
    "an editor's traces": (lambda n: n["cells"][2].update(metadata={"scrolled": True}), "left: scrolled"),
    "a random id": (lambda n: n["cells"][2].update(id="0f1e2d3c"), "random id 0f1e2d3c"),
    "an id twice": (lambda n: n["cells"][2].update(id="values"), "id values of an earlier cell"),
    "a cell without an id": (lambda n: n["cells"][2].pop("id"), "cell 3 has no id"),
    "an old format": (lambda n: n.update(nbformat_minor=4), "older than 4.5"),
    "a card with a gap": (lambda n: n["metadata"]["dsportal"].pop("dataset"), "needs 'dataset', a text"),
    "a card with an empty text": (lambda n: n["metadata"]["dsportal"].update(summary=""), "needs 'summary'"),
    "a card with a wrong kind": (lambda n: n["metadata"]["dsportal"].update(gpus="1"), "'gpus', a whole number"),
    "a card with an unknown key": (lambda n: n["metadata"]["dsportal"].update(gpu=1), "unknown key 'gpu'"),
    "no card": (lambda n: n["metadata"].pop("dsportal"), "needs 'framework'"),
    "another kernel": (lambda n: n["metadata"]["kernelspec"].update(name="python3"), "is 'python3'"),
    "no language": (lambda n: n["metadata"]["kernelspec"].pop("language"), "has no language"),
    "no cells": (lambda n: n.pop("cells"), "not a notebook"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILERS)
def test_each_fault_of_style_is_found(name: str, good: Notebook, tmp_path: Path) -> None:
    assert faults(good, tmp_path) == ""
    spoil, sentence = SPOILERS[name]
    spoil(good)
    assert sentence in faults(good, tmp_path)


def test_a_file_that_is_no_notebook_is_one_fault(tmp_path: Path) -> None:
    (tmp_path / "x.ipynb").write_text("not JSON")
    assert style.check(tmp_path / "x.ipynb")[0].startswith("not a notebook")
    assert style.check(tmp_path / "missing.ipynb")[0].startswith("not a notebook")


def test_a_shell_comment_in_a_code_block_is_no_title(good: Notebook, tmp_path: Path) -> None:
    good["cells"][0]["source"] += "\n```\n# module load shared\n```\n"
    assert faults(good, tmp_path) == ""


def test_main_check_tells_which_notebook_and_fails(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    written(good, tmp_path / "a" / "fine.ipynb")
    assert catalogue.main_check(tmp_path) == 0
    spoiled = copy.deepcopy(good)
    spoiled["cells"][2]["execution_count"] = 1
    written(spoiled, tmp_path / "a" / "run.ipynb")
    assert catalogue.main_check(tmp_path) == 1
    assert "a/run: cell 3 (work)" in capsys.readouterr().out
    assert catalogue.main_check(tmp_path, ["a/fine"]) == 0
    assert catalogue.main_check(tmp_path, ["a/nosuch"]) == 1
    assert "there are a/fine, a/run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = 1  # one\nb = 2", {"a": "one", "b": ""}),
        ("# above\na = 1\nb = 2  # two", {"a": "above", "b": "two"}),
        ("# not of a\n\na = 1", {"a": ""}),
        ('a = "# no"', {"a": ""}),
        ("a = [\n  1,  # in the middle\n  2,\n]\nb = 1  # one", {"a": "in the middle", "b": "one"}),
        ("a: list[int] = [1]  # typed", {"a": "typed"}),
        ("learning.rate <- 0.1  # R\nn=3", {"learning.rate": "R", "n": ""}),
        ("if (a == 1) b <- 2  # no\nprint(a == 1)", {}),
        ("import os  # no", {}),
    ],
)
def test_the_comment_on_a_parameter_stands_behind_it_or_above(source: str, expected: dict[str, str]) -> None:
    assert parameters(source) == expected


def test_a_wrong_parameter_is_named_with_the_nearest_known_one(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    good["cells"][1]["source"] = "epochs = 3\nseed = 0"
    written(good, tmp_path / "a" / "lesson.ipynb")
    assert run.main_run(tmp_path, "a/lesson", "", ["epoch=1"], "") == 1
    assert "no parameter 'epoch'; it has epochs, seed. Did you mean epochs?" in capsys.readouterr().err
    assert run.main_run(tmp_path, "a/lesson", "", ["epochs"], "") == 1
    assert "write NAME=VALUE" in capsys.readouterr().err


def test_the_kernel_of_a_run_sees_the_kernels_of_the_site_and_the_modules_beside_the_notebook(
    good: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/a/person")
    written(good, tmp_path / "a" / "lesson.ipynb")
    run.main_run(tmp_path, "a/lesson", "", ["no_such=1"], "/site/kernels")
    assert os.environ["JUPYTER_PATH"] == "/site/kernels"
    assert os.environ["PYTHONPATH"] == f"{tmp_path}/a:/of/a/person"


def test_a_run_on_a_kernel_that_is_not_there_names_those_that_are(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    good["cells"][1]["source"] = "epochs = 3"
    written(good, tmp_path / "a" / "lesson.ipynb")
    assert run.main_run(tmp_path, "a/lesson", str(tmp_path / "out.ipynb"), [], "", "no-such") == 1
    assert "There is no kernel 'no-such'; there are " in capsys.readouterr().err


def test_the_parameters_of_an_r_notebook_are_known_by_name(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    good["cells"][1]["source"] = "epochs <- 3  # how often\nbatch.size = 128\nif (epochs == 3) hidden <- 1"
    good["metadata"]["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    good["metadata"]["language_info"] = {"name": "R"}
    written(good, tmp_path / "a" / "lesson.ipynb")
    assert run.main_run(tmp_path, "a/lesson", "", ["epoch=1"], "") == 1
    assert "no parameter 'epoch'; it has batch.size, epochs. Did you mean epochs?" in capsys.readouterr().err


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A folder of templates."""
    folder = tmp_path / "ours"
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "README.md").write_text("read me")
    (folder / "tensorflow" / "mnist.ipynb").write_text("version 1")
    (folder / "tensorflow" / ".hidden").write_text("no")
    (folder / "tensorflow" / ".ipynb_checkpoints").mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def copies(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in (home / "templates").rglob("*") if path.is_file())


def test_a_new_home_gets_the_templates_and_the_storage(home: Path, ours: Path, tmp_path: Path) -> None:
    assert prepare_home(str(home), str(ours), [("isilon", str(tmp_path))]) == []
    assert copies(home) == ["templates/README.md", "templates/tensorflow/mnist.ipynb"]
    assert (home / "isilon").resolve() == tmp_path.resolve()
    assert (home / "templates/tensorflow/mnist.ipynb").stat().st_mode & 0o777 == 0o644


def test_a_second_start_writes_nothing(home: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = [("isilon", "/mnt/isilon")]
    prepare_home(home, ours, storage)
    monkeypatch.setattr(home_module, "_replace", lambda *_: pytest.fail("something was written"))
    assert prepare_home(home, ours, storage) == []


def test_a_copy_that_was_not_changed_follows_our_new_version(home: Path, ours: Path) -> None:
    prepare_home(home, ours, [])
    (ours / "tensorflow" / "mnist.ipynb").write_text("version 2")
    prepare_home(home, ours, [])
    assert (home / "templates/tensorflow/mnist.ipynb").read_text() == "version 2"


def test_a_copy_that_was_changed_is_never_touched(home: Path, ours: Path) -> None:
    prepare_home(home, ours, [])
    mine = home / "templates/tensorflow/mnist.ipynb"
    mine.write_text("my own work")
    for version in ("version 2", "version 3"):
        (ours / "tensorflow" / "mnist.ipynb").write_text(version)
        assert prepare_home(home, ours, []) == []
        assert mine.read_text() == "my own work"


def test_a_deleted_copy_comes_back(home: Path, ours: Path) -> None:
    prepare_home(home, ours, [])
    (home / "templates/tensorflow/mnist.ipynb").unlink()
    prepare_home(home, ours, [])
    assert (home / "templates/tensorflow/mnist.ipynb").read_text() == "version 1"


def test_a_file_of_theirs_that_was_there_first_stays(home: Path, ours: Path) -> None:
    (home / "templates/tensorflow").mkdir(parents=True)
    (home / "templates/tensorflow/mnist.ipynb").write_text("mine")
    prepare_home(home, ours, [])
    assert (home / "templates/tensorflow/mnist.ipynb").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"copies": 3, "links": {}}', b'{"copies": {"a": 1}}'])
def test_a_spoiled_manifest_is_not_trusted(content: bytes, home: Path, ours: Path) -> None:
    prepare_home(home, ours, [])
    (home / MANIFEST).write_bytes(content)
    (home / "templates/tensorflow/mnist.ipynb").write_text("mine")
    (ours / "tensorflow" / "mnist.ipynb").write_text("version 2")
    assert prepare_home(home, ours, []) == []
    assert (home / "templates/tensorflow/mnist.ipynb").read_text() == "mine"


def test_nothing_is_written_through_a_link_in_the_way(home: Path, ours: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "templates").symlink_to(elsewhere)
    notes = prepare_home(home, ours, [])
    assert list(elsewhere.iterdir()) == []
    assert "~/templates is not a folder of yours" in notes[0]


def test_a_copy_that_is_a_link_or_a_folder_is_left_alone(home: Path, ours: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (home / "templates/tensorflow").mkdir(parents=True)
    (home / "templates/tensorflow/mnist.ipynb").symlink_to(target)
    (home / "templates/README.md").mkdir()
    prepare_home(home, ours, [])
    assert target.read_text() == "precious"
    assert (home / "templates/tensorflow/mnist.ipynb").is_symlink()
    assert (home / "templates/README.md").is_dir()


def test_a_manifest_behind_a_link_is_not_written(home: Path, ours: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / ".local").symlink_to(elsewhere)
    assert prepare_home(home, ours, []) == []
    assert list(elsewhere.iterdir()) == []
    assert copies(home)


def test_a_home_that_is_itself_a_link_is_followed(home: Path, ours: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(home)
    prepare_home(tmp_path / "linked", ours, [])
    assert len(copies(home)) == 2


@pytest.mark.parametrize("make", ["write_text", "mkdir", "symlink_to"])
def test_something_of_theirs_with_the_storages_name_stays(make: str, home: Path, ours: Path) -> None:
    place = home / "isilon"
    getattr(place, make)(*([] if make == "mkdir" else ["theirs"]))
    (note,) = prepare_home(home, ours, [("isilon", "/mnt/isilon")])
    assert "~/isilon is something of yours" in note
    assert not place.is_symlink() or str(place.readlink()) == "theirs"


def test_our_own_link_follows_the_storage_when_it_moves(home: Path, ours: Path) -> None:
    prepare_home(home, ours, [("isilon", "/mnt/old")])
    assert prepare_home(home, ours, [("isilon", "/mnt/new")]) == []
    assert str((home / "isilon").readlink()) == "/mnt/new"


def test_a_full_disk_is_one_note_and_leaves_no_half_file(
    home: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    (note,) = prepare_home(home, ours, [("isilon", "/mnt/isilon")])
    assert "No space left on device" in note
    assert copies(home) == []
    assert (home / "isilon").is_symlink()


def test_a_home_that_does_not_exist_is_one_note(tmp_path: Path, ours: Path) -> None:
    (note,) = prepare_home(tmp_path / "none", ours, [])
    assert "The session works without it" in note


def test_missing_templates_are_one_note_and_the_storage_is_linked(home: Path, tmp_path: Path) -> None:
    (note,) = prepare_home(home, tmp_path / "none", [("isilon", "/mnt/isilon")])
    assert "there is no folder" in note
    assert (home / "isilon").is_symlink()
