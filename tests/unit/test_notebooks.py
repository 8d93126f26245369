"""The notebook templates: what is listed, and what the house style refuses."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal.lessons import SHARED
from portal.notebooks import catalogue, look, run, style
from portal.notebooks.catalogue import main_check
from portal.notebooks.files import NOTEBOOK_MAX
from portal.notebooks.style import parameters
from portal.notebooks.template import Template

ROOT = Path(__file__).parents[2]
Notebook = dict[str, Any]


@pytest.fixture(autouse=True)
def _as_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may run as root."""
    monkeypatch.setattr(run, "refuse_root", lambda: None)


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
    good["metadata"]["dsportal"] |= {"minutes_gpu": 3, "level": 4}
    assert "the card's level is 4; there are 1 (First steps), 2 (In depth), 3" in faults(good, tmp_path)


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
    uses = {one.name for one in catalogue.templates(ROOT / "notebooks") if one.gpus}
    uses |= {"inference/resnet50", "mxnet/mnist"}  # with another kernel
    assert len(uses) >= 11
    imports = re.compile(r"^ *import lesson_gpus$", re.MULTILINE)
    told = {name for name, code in sources().items() if imports.search(code) and "lesson_gpus.compare(" in code}
    assert uses - told == set()
    assert [name for name, code in sources().items() if "Slurm gave this session" in code] == [], "its own words"


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
    assert main_check([tmp_path / "templates"]) == 0
    with Path(copy).open("a") as file:
        file.write("# changed\n")
    assert main_check([tmp_path / "templates"], ["tensorflow/lesson"]) == 1
    said = capsys.readouterr().out
    original = ROOT / "portal/lessons/lesson_images.py"
    assert f"tensorflow: lesson_images.py is not the one that all lessons share: copy {original} over it" in said


def test_of_a_shared_module_no_more_is_read_than_the_original_has(
    good: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(good, tmp_path / "templates/tensorflow/lesson.ipynb").parent
    with (folder / "lesson_images.py").open("wb") as file:
        file.truncate(2**40)  # without a byte on the disk
    os.mkfifo(folder / "lesson_gpus.py")
    (folder / "lesson_folders.py").symlink_to(folder / "gone.py")

    assert main_check([tmp_path / "templates"], ["tensorflow/lesson"]) == 1

    said = capsys.readouterr().out
    for name in ("lesson_images.py", "lesson_gpus.py", "lesson_folders.py"):
        assert f"tensorflow: {name} is not the one that all lessons share: copy " in said


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
    "a card with a yes for a number": (lambda n: n["metadata"]["dsportal"].update(gpus=True), "'gpus', a whole number"),
    "a card with a list for a level": (lambda n: n["metadata"]["dsportal"].update(level=[1]), "card's level is [1]"),
    "a card with a list for a kernel": (lambda n: n["metadata"]["dsportal"].update(kernel=["x"]), "'kernel', a text"),
    "a card with half a letter": (lambda n: n["metadata"]["dsportal"].update(summary="\ud800"), "'summary', a text"),
    "a card that is a list": (lambda n: n["metadata"].update(dsportal=[1]), "needs 'framework'"),
    "a long title": (lambda n: n["cells"][0].update(source=f"# {'x' * 1001}\n\nIt."), "the title is longer than 1000"),
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
    assert catalogue.main_check([tmp_path]) == 0
    spoiled = copy.deepcopy(good)
    spoiled["cells"][2]["execution_count"] = 1
    written(spoiled, tmp_path / "a" / "run.ipynb")
    assert catalogue.main_check([tmp_path]) == 1
    assert "a/run: cell 3 (work)" in capsys.readouterr().out
    assert catalogue.main_check([tmp_path], ["a/fine"]) == 0
    assert catalogue.main_check([tmp_path], ["a/nosuch"]) == 1
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
    assert run.main_run([tmp_path], "a/lesson", "", ["epoch=1"], "") == 1
    assert "no parameter 'epoch'; it has epochs, seed. Did you mean epochs?" in capsys.readouterr().err
    assert run.main_run([tmp_path], "a/lesson", "", ["epochs"], "") == 1
    assert "write NAME=VALUE" in capsys.readouterr().err


def test_the_kernel_of_a_run_sees_the_kernels_of_the_site_and_the_modules_beside_the_notebook(
    good: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/a/person")
    written(good, tmp_path / "a" / "lesson.ipynb")
    run.main_run([tmp_path], "a/lesson", "", ["no_such=1"], "/site/kernels")
    assert os.environ["JUPYTER_PATH"] == "/site/kernels"
    assert os.environ["PYTHONPATH"] == f"{tmp_path}/a:/of/a/person"


def test_a_run_on_a_kernel_that_is_not_there_names_those_that_are(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    good["cells"][1]["source"] = "epochs = 3"
    written(good, tmp_path / "a" / "lesson.ipynb")
    assert run.main_run([tmp_path], "a/lesson", str(tmp_path / "out.ipynb"), [], "", "no-such") == 1
    assert "There is no kernel 'no-such'; there are " in capsys.readouterr().err


def test_the_parameters_of_an_r_notebook_are_known_by_name(good: Notebook, tmp_path: Path, capsys: Any) -> None:
    good["cells"][1]["source"] = "epochs <- 3  # how often\nbatch.size = 128\nif (epochs == 3) hidden <- 1"
    good["metadata"]["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    good["metadata"]["language_info"] = {"name": "R"}
    written(good, tmp_path / "a" / "lesson.ipynb")
    assert run.main_run([tmp_path], "a/lesson", "", ["epoch=1"], "") == 1
    assert "no parameter 'epoch'; it has batch.size, epochs. Did you mean epochs?" in capsys.readouterr().err


@pytest.mark.parametrize("put", [os.mkfifo, lambda place: place.symlink_to("/dev/zero"), Path.mkdir])
def test_what_is_no_file_is_a_fault_and_keeps_no_check_waiting(put: Callable[[Path], None], tmp_path: Path) -> None:
    place = tmp_path / "tensorflow/lesson.ipynb"
    place.parent.mkdir()
    put(place)
    assert "is no regular file" in style.check(place)[0]


def test_a_notebook_that_is_too_long_is_a_fault(tmp_path: Path) -> None:
    with (tmp_path / "lesson.ipynb").open("wb") as file:
        file.truncate(NOTEBOOK_MAX + 1)
    assert "is longer than 4 MiB" in style.check(tmp_path / "lesson.ipynb")[0]
    (tmp_path / "deep.ipynb").write_text("[" * 100_000)
    assert style.check(tmp_path / "deep.ipynb")[0].startswith("not a notebook")


def test_what_is_over_the_bounds_of_a_folder_is_named(
    good: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/one", "a/three", "a/two"):
        written(good, tmp_path / f"{name}.ipynb")
    monkeypatch.setattr(look, "NOTEBOOKS_MAX", 2)
    assert main_check([tmp_path]) == 1
    assert capsys.readouterr().out.splitlines() == [f"a/two: {look.TOO_MANY}"]

    monkeypatch.setattr(look, "BYTES_MAX", (tmp_path / "a/one.ipynb").stat().st_size)
    assert main_check([tmp_path]) == 1
    assert capsys.readouterr().out.splitlines() == [f"a/three: {look.TOO_MUCH}", f"a/two: {look.TOO_MANY}"]


def test_a_template_behind_a_link_that_leads_out_is_a_fault(
    good: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(good, tmp_path / "templates/a/fine.ipynb")
    (tmp_path / "templates/a/linked.ipynb").symlink_to(written(good, tmp_path / "elsewhere/linked.ipynb"))
    assert main_check([tmp_path / "templates"]) == 1
    said = capsys.readouterr().out
    assert "a/linked: it leads out of the folders of templates, and is not shown" in said
    assert "a/fine" not in said


@pytest.mark.parametrize("put", [os.mkfifo, lambda place: place.write_text("no JSON"), lambda place: place.mkdir()])
def test_a_link_to_a_heading_of_what_cannot_be_read_is_a_fault(
    put: Callable[[Path], None], good: Notebook, tmp_path: Path
) -> None:
    (tmp_path / "templates/tensorflow").mkdir(parents=True)
    put(tmp_path / "templates/tensorflow/other.ipynb")
    good["cells"][0]["source"] = "# A lesson\n\nMore in [the next](other.ipynb#there)."
    assert "its file cannot be read" in faults(good, tmp_path)


@pytest.mark.parametrize("template", catalogue.templates(ROOT / "notebooks"), ids=lambda template: template.name)
def test_no_lesson_keeps_torchruns_notes_at_a_port_of_the_node(template: Template) -> None:
    cells = json.loads(template.path.read_bytes())["cells"]
    code = "".join(line for cell in cells if cell["cell_type"] == "code" for line in cell["source"])
    assert "--standalone" not in code, "whoever reaches that port can have programs run: store_type=file is a file"
