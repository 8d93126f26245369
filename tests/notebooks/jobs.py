"""Run a template as a person does: by papermill, on its own kernel, in a real Slurm job. All runs are kept."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.inside import SITE_FILE, VENV_BIN, eventually, home, jobs_of, sh
from tests.notebooks.table import record

PERSON = "alice"
ONE_GPU = ("--partition=sxm2", "--gres=gpu:1", "--cpus-per-task=8", "--mem=48G")
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
        """Everything that a cell printed."""
        outputs = self.cells[cell]["outputs"]
        return "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")

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
    notebook: str,
    folder: Path,
    parameters: dict[str, object],
    data: str = "",
    resources: Sequence[str] = ONE_GPU,
    minutes: int = 10,
) -> Run:
    """Run a template with ``parameters`` in a job of ``resources``, in an environment like a session's.

    Arguments:
        data: a folder of data sets of the person's own, which is looked into first.
        minutes: the time limit of the job.
    """
    output, log, started = folder / "out.ipynb", folder / "job.log", time.monotonic()
    given = [f"--set={name}={value}" for name, value in parameters.items()]
    run = [str(VENV_BIN / "portal"), "notebooks", "run", notebook, "--site", str(SITE_FILE), "--output", str(output)]
    exports = [f"export JUPYTERHUB_SERVICE_PREFIX=/user/{PERSON}/", *([f"export DATASET_PATH={data}"] if data else [])]
    script = "\n".join(["#!/bin/bash", *exports, f"exec {shlex.join([*run, *given])}", ""])
    where = [f"--chdir={folder}", f"--output={log}", f"--job-name={notebook.replace('/', '-')}", "--export=NONE"]
    job = submit(script, [f"--time={minutes}", *resources, *where])
    status = eventually(
        lambda: exit_status(job), f"the job of {notebook} ends", within_s=60 * minutes + 60, every_s=0.5
    )
    result = int(status.partition(":")[0]) or int(status.partition(":")[2])
    record(notebook, result, time.monotonic() - started, os.environ.get("PYTEST_CURRENT_TEST", ""))
    cells = {cell["id"]: cell for cell in json.loads(output.read_bytes())["cells"]} if output.exists() else {}
    return Run(notebook, result, log.read_text(), folder, cells)


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


def sync_kernels() -> None:
    """Write the site's kernelspecs, as the demo does at its start."""
    sh(str(VENV_BIN / "portal"), "kernels", "sync", "--site", str(SITE_FILE))
