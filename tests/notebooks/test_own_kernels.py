"""The how-tos for one's own kernels: an environment on top of a module's, and a container; in real Slurm jobs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forms import LONG
from tests.inside import VENV_BIN, home, sh
from tests.notebooks.jobs import PERSON, Run, changed, in_a_job, own_folder, program
from tests.wheels import wheel

# What the launcher of a session lists: the site's kernels and the person's own.
LAUNCHER = "from portal.kernels.manager import PortalKernelSpecManager as M; print(*sorted(M().find_kernel_specs()))"
# Starts containers as Apptainer does, with the runtime that Debian has, and writes down what it was asked for.
APPTAINER = """#!/usr/bin/python3
import os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit("apptainer version 1.3.4")
with open(os.environ["ASKED"], "a") as file:
    print(*sys.argv[1:], sep="\\n", file=file)
words, options = iter(sys.argv[2:]), []
for word in words:
    if word in ("--bind", "--pwd"):
        options.append({"--bind": "--bind=", "--pwd": "--cd="}[word] + next(words))
    else:
        os.execvp("ch-run", ["ch-run", "--home", *options, word, "--", *words])
"""


@pytest.fixture(scope="module", autouse=True)
def no_own_kernels() -> Iterator[None]:
    """The person has no kernels of their own before and after."""
    shutil.rmtree(own_kernels(), ignore_errors=True)
    yield
    shutil.rmtree(own_kernels(), ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder in the person's home; afterwards it is gone, and so are the person's own kernels."""
    made = own_folder("own-kernels")
    yield made
    shutil.rmtree(made)
    shutil.rmtree(own_kernels(), ignore_errors=True)


def own_kernels() -> Path:
    """Where the person's own kernelspecs lie."""
    return home(PERSON) / ".local/share/jupyter/kernels"


def launcher() -> list[str]:
    """The kernels that the person's launcher shows."""
    return sh(str(VENV_BIN / "python"), "-I", "-c", LAUNCHER, user=PERSON).split()


def used(kernel: str, folder: Path, code: str) -> str:
    """What a notebook prints on a kernel of the person's own, in a job, its sockets in a private folder below /tmp."""
    import nbformat.v4

    cell = nbformat.v4.new_code_cell(code, id="look", metadata={"tags": ["parameters"]})
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    path = folder / "used.ipynb"
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": spec})))
    run = in_a_job(path, folder, {})
    assert run.status == 0, run.log
    return run.text("look")


def test_an_environment_of_ones_own_appears_in_the_launcher_and_runs_what_pip_put_into_it(folder: Path) -> None:
    options = ["--no-index", f"--find-links={wheel(folder)}"]
    asked = {"folder": str(folder), "packages": ["oneofmine"], "pip_options": options, "keep": True}
    run = in_a_job("kernels/own_environment", folder, asked)
    assert run.status == 0, run.log
    assert "oneofmine 1.2.3 was installed here" in run.text("run-a-cell")
    assert "my-environment" in launcher()
    code = "import numpy, oneofmine, sys; print(oneofmine.ANSWER, sys.prefix, numpy.__file__)"
    printed = used("my-environment", folder, code).split()
    assert printed[:2] == ["42", str(folder / "my-environment")]
    assert printed[2].startswith("/cm/shared/apps/python3/")
    again = in_a_job("kernels/own_environment", folder, asked)
    assert again.status != 0
    assert f"{folder}/my-environment is there already: choose another name, or remove it first" in again.log
    assert (folder / "my-environment/bin/python").exists(), "what was there must stay"


if LONG:

    def test_without_a_package_index_it_says_so_goes_on_and_leaves_nothing_behind(folder: Path) -> None:
        run = in_a_job("kernels/own_environment", folder, {"folder": str(folder / "environments")})
        assert run.status == 0, run.log
        assert "No package index can be reached from this node, so tqdm is not installed" in run.text(
            "install-packages"
        )
        assert "As expected: the kernel runs in my-environment, with 0 packages asked for" in run.text("check")
        assert {name: noise for name, noise in run.stderr.items() if noise} == {}
        assert not (folder / "environments").exists()
        assert "my-environment" not in launcher()


@pytest.fixture(scope="module")
def contained() -> Iterator[Run]:
    """The how-to with the runtime that the demo has; the kernel and its image are kept."""
    folder = own_folder("own-container")
    run = in_a_job("kernels/container", folder, {"folder": str(folder), "keep": True})
    yield run
    shutil.rmtree(folder)


def test_a_container_kernel_starts_with_the_persons_files_and_the_jobs_limits(contained: Run) -> None:
    assert contained.status == 0, contained.log
    assert re.match(r"/usr/bin/ch-run: 0\.\d+", contained.text("imports"))
    printed = contained.text("run-a-cell")
    assert "It runs in A small image with Python, Python 3." in printed
    assert "an interrupted cell ends with KeyboardInterrupt" in printed
    assert "As expected: another system" in contained.text("check")
    assert {name: noise for name, noise in contained.stderr.items() if noise} == {}


@pytest.mark.long
def test_the_launcher_shows_the_container_and_other_clients_reach_it_through_a_private_folder(contained: Run) -> None:
    assert "my-container" in launcher()
    code = (
        "import os, platform; print(os.listdir('/opt'), platform.freedesktop_os_release()['ID'], os.path.exists('/cm'))"
    )
    assert used("my-container", contained.folder, code) == "['kernel'] small False\n"
    shutil.rmtree(own_kernels() / "my-container")


if LONG:

    def test_apptainer_is_asked_word_for_word_and_everything_is_removed_again(folder: Path) -> None:
        first = program(folder, "apptainer", APPTAINER)
        image = folder / "containers/my-container"
        run = in_a_job(
            "kernels/container", folder, {"folder": str(image.parent)}, [first, f"export ASKED={folder}/asked"]
        )
        assert run.status == 0, run.log
        asked = (folder / "asked").read_text().split("\n")
        sockets = asked[2]
        start = ["-m", "ipykernel_launcher", "-f"]
        linked = [
            word for link in home(PERSON).iterdir() if link.is_symlink() for word in ("--bind", str(link.resolve()))
        ]
        wanted = [
            "exec",
            "--bind",
            sockets,
            *linked,
            "--pwd",
            str(folder),
            str(image),
            "/opt/kernel/bin/python3",
            *start,
        ]
        assert asked[: len(wanted)] == wanted
        assert asked[len(wanted)].startswith(f"{sockets}/")
        assert asked[len(wanted) + 1 :] == [""]
        assert not image.parent.exists()
        assert "my-container" not in launcher()

    def test_a_kernel_that_runs_outside_any_container_is_noticed(folder: Path) -> None:
        outside = changed(
            "kernels/container", folder, "exec {command()} {shlex.quote(inside)}", "exec {sys.executable}"
        )
        run = in_a_job(outside, folder, {"image": str(folder)})
        assert run.status != 0
        assert "the cell 'check' failed with AssertionError: The kernel sees the file system of this node" in run.log

    def test_a_node_without_a_container_runtime_says_so_in_one_sentence(folder: Path) -> None:
        run = in_a_job("kernels/container", folder, {"runtime": "singularity", "folder": str(folder)})
        assert run.status != 0
        assert (
            "the cell 'imports' failed with AssertionError: This node has no singularity, so there is nothing"
            in run.log
        )
