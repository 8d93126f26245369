"""Run a template as a person does: by papermill, on its own kernel, in a real Slurm job. All runs are kept."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.gallery.units import find
from tests.inside import SITE_FILE, VENV_BIN, eventually, home, jobs_of, sh
from tests.notebooks.table import PART, PARTS, record

PERSON = "erin" if PART == "2" else "alice"  # the parts of the ring do not see each other's jobs and files
TEMPLATES = Path(__file__).parents[2] / "notebooks"
ONE_GPU = ("--partition=sxm2", "--gres=gpu:1", "--cpus-per-task=8", "--mem=48G")
# Beside another training PyTorch's threads mostly wait for each other: with one it is twice as fast, and where a lesson
# takes more all the same, those that wait give their core away.
BESIDE = ("export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive",) if PART in PARTS else ()
TRIES = 3  # of a run that other work on the machine disturbs
NO_GPU = ("--partition=requestq", "--cpus-per-task=8", "--mem=48G")


@dataclass(frozen=True)
class Run:
    """What a job left behind: its exit status, its log, the notebook with its outputs, and its folder."""

    notebook: str
    status: int
    log: str
    folder: Path
    cells: dict[str, dict[str, Any]]

    def text(self, cell: str) -> str:
        """Everything that a cell printed, without what it printed over again."""
        return re.sub(r"[^\n]*\r", "", self._printed(cell))

    def _printed(self, cell: str) -> str:
        outputs = self.cells[cell]["outputs"]
        return "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")

    def bars(self, cell: str) -> list[float]:
        """How far each progress bar of a cell came, 1.0 is its end: those of IPython, then the last of Keras, of R."""
        ours = (re.fullmatch(r"\[=* *\] (\d+)/(\d+)", text) for text in self.shown(cell, "text/plain"))
        keras = re.findall(r"(\d+)/(\d+)\x1b\[0m \x1b\[32m━", self._printed(cell))
        percents = re.findall(r"\r *\|=* *\| +(\d+)%", self._printed(cell))
        steps = [*(bar.groups() for bar in ours if bar), *keras[-1:]]
        return [int(step) / int(last) for step, last in steps] + [int(last) / 100 for last in percents[-1:]]

    def shown(self, cell: str, kind: str) -> list[str]:
        """What a cell showed of one MIME type."""
        outputs = (o.get("data", {}).get(kind) for o in self.cells[cell]["outputs"])
        return ["".join(data) for data in outputs if data]

    @property
    def stderr(self) -> dict[str, list[str]]:
        """What each cell wrote to stderr."""
        outputs = {name: cell.get("outputs", ()) for name, cell in self.cells.items()}
        return {name: [o["text"] for o in found if o.get("name") == "stderr"] for name, found in outputs.items()}


def in_a_job(
    notebook: str | Path,
    folder: Path,
    parameters: Mapping[str, object],
    prelude: Sequence[str] = (),
    resources: Sequence[str] = ONE_GPU,
    minutes: int = 10,
    kernel: str = "",
) -> Run:
    """Run a notebook with ``parameters`` in a job of ``resources``, in an environment like a session's.

    Arguments:
        notebook: a template's name, or the path of any other notebook, which does not count for the ring's table.
        folder: where it runs.
        prelude: lines of shell before it.
        resources: options of sbatch; of two that say different things the last one holds.
        minutes: the time limit of the job.
        kernel: the kernel to take instead of the notebook's own.
    """
    output, log, started = folder / "out.ipynb", folder / "job.log", time.monotonic()
    output.unlink(missing_ok=True)
    name, *where = [notebook] if isinstance(notebook, str) else [notebook.stem, f"--folder={notebook.parent}"]
    run = [str(VENV_BIN / "portal"), "notebooks", "run", name, *where, f"--site={SITE_FILE}", f"--output={output}"]
    run += [f"--kernel={kernel}"] if kernel else []
    command = shlex.join([*run, *(f"--set={key}={value}" for key, value in parameters.items())])
    script = ["#!/bin/bash", f"export JUPYTERHUB_SERVICE_PREFIX=/user/{PERSON}/", *BESIDE, *prelude]
    script += [f"exec {command}", ""]
    options = [f"--chdir={folder}", f"--output={log}", f"--job-name={name.replace('/', '-')}", "--export=NONE"]
    job = submit("\n".join(script), [f"--time={minutes}", *resources, *options])
    status = eventually(lambda: exit_status(job), f"the job of {name} ends", within_s=60 * minutes + 60, every_s=0.5)
    result = int(status.partition(":")[0]) or int(status.partition(":")[2])
    if isinstance(notebook, str):
        record(notebook, result, time.monotonic() - started, os.environ.get("PYTEST_CURRENT_TEST", ""))
    cells = {cell["id"]: cell for cell in json.loads(output.read_bytes())["cells"]} if output.exists() else {}
    return Run(str(notebook), result, log.read_text(), folder, cells)


@contextmanager
def finished_run(
    template: str, folder: str, parameters: Mapping[str, object], again_if: str = "", **options: Any
) -> Iterator[Run]:
    """A template that ran to its end in a folder of its own, which is removed afterwards.

    Arguments:
        folder: its name in the person's home.
        again_if: what a lesson says where the machine has other work, which is no fault of it: it is run again then.
        options: as :func:`in_a_job` takes them.
    """
    for _ in range(TRIES):
        run = in_a_job(template, own_folder(folder), parameters, **options)
        if run.status == 0 or not again_if or again_if not in run.log:
            break
        print(run.log)
    assert run.status == 0, run.log
    yield run
    shutil.rmtree(run.folder)


def submit(script: str, options: Sequence[str]) -> str:
    """Submit a batch script as the person, from an empty environment; the job's number."""
    clean = ["runuser", "-u", PERSON, "--", "env", "-i", "PATH=/usr/bin:/bin", f"HOME={home(PERSON)}", f"USER={PERSON}"]
    command = [*clean, "sbatch", "--parsable", *options]
    submitted = subprocess.run(command, input=script, text=True, capture_output=True, cwd="/", check=False)
    assert submitted.returncode == 0, submitted.stderr
    return submitted.stdout.strip()


def exit_status(job: str) -> str:
    """``0:0`` or the like when the job has ended, else ''."""
    fields = dict(word.partition("=")[::2] for word in sh("scontrol", "show", "job", job).split())
    return "" if fields["JobState"] in ("PENDING", "RUNNING", "COMPLETING") else fields["ExitCode"]


def no_job_is_left() -> None:
    """All jobs of the person have ended; Slurm may take a moment to clean up behind the last one."""
    eventually(lambda: not jobs_of(PERSON), "the person has no job", within_s=60)


def own_folder(name: str) -> Path:
    """An empty folder in the person's home."""
    folder = home(PERSON) / name
    shutil.rmtree(folder, ignore_errors=True)
    sh("mkdir", str(folder), user=PERSON)
    return folder


def own_data(folder: Path) -> str:
    """The line of shell with which ``folder`` is looked into for data sets, before the cluster's."""
    return f"export DATASET_PATH={folder}"


def program(folder: Path, name: str, text: str) -> str:
    """Put a program first into the PATH; the line of shell that does it."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / name).write_text(text)
    (bin_folder / name).chmod(0o755)
    return f"export PATH={bin_folder}:$PATH"


def changed(template: str, folder: Path, old: str, new: str) -> Path:
    """A template in ``folder`` with one line of it changed, and all that belongs to it."""
    path = copied(template, folder).rename(folder / "changed.ipynb")
    notebook = json.loads(path.read_bytes())
    lines = [line for cell in notebook["cells"] for line in cell["source"]]
    assert sum(old in line for line in lines) == 1, old
    for cell in notebook["cells"]:
        cell["source"] = [line.replace(old, new) for line in cell["source"]]
    path.write_text(json.dumps(notebook))
    return path


def changed_module(template: str, module: str, folder: Path, old: str, new: str) -> Path:
    """A template in ``folder``, and all that belongs to it, with one place of a module changed."""
    path = copied(template, folder)
    text = (folder / module).read_text()
    assert text.count(old) == 1, old
    (folder / module).write_text(text.replace(old, new))
    return path


def copied(template: str, folder: Path) -> Path:
    """The notebook of a template in ``folder``, with what a person's copy of it has."""
    unit = find((TEMPLATES,))[template]
    for name, content in unit.contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / unit.notebook
