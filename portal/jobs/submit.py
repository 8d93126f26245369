"""From an order to ``sbatch``: everything that somebody chose is argv, never the text of a script.

A script is given to Slurm as it is, with its ``#SBATCH`` lines. A notebook and a Python program are arguments of a
constant script (``templates/job/job.sh``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from portal.errors import SlurmUnavailable
from portal.jobs.order import JobOrder, Kind
from portal.slurm.jobs import unreadable

_ODD = re.compile(r"[^\w.@+-]")  # % begins a pattern in the name of a log, and \ ends all patterns: sbatch(1)
_ANSWER = re.compile(r"(\d{1,12})(?:;\S+)?\Z", re.ASCII)


@dataclass(frozen=True)
class Files:
    """The names of what a job writes, relative to its folder or whole; "" = the script's own, or none.

    ``%j``, ``%A`` and ``%a`` stand for the numbers of job, array and task, as in sbatch(1).
    """

    log: str = ""
    output: str = ""


def files_of(order: JobOrder) -> Files:
    """What a job of this order writes."""
    if order.kind is Kind.SCRIPT:
        return Files()
    base = f"{_ODD.sub('_', order.file.stem)}-{'%A_%a' if order.array else '%j'}"
    base = str(order.results / base) if order.results else base
    return Files(f"{base}.log", f"{base}.ipynb" if order.kind is Kind.NOTEBOOK else "")


def filled_in(path: str, job_id: str) -> str:
    """A path with the number of a job in its last part: ``"12"``, or ``"12_3"`` of a task of an array."""
    folder, slash, name = path.rpartition("/")
    array, _, task = job_id.partition("_")
    return folder + slash + name.replace("%j", array).replace("%A", array).replace("%a", task)


def submit_command(order: JobOrder, python: str, script: Path) -> tuple[str, ...]:
    """The command line that submits the job.

    Arguments:
        python: the portal's own interpreter, which runs notebooks.
        script: the constant batch script.

    Source: sbatch(1) of Slurm 22.05. ``--export=ALL`` exports the environment that sbatch is started with, which is
    :func:`portal.jobs.environment.of_job`; ``NONE`` would evaluate the person's login shell on the node.
    """
    return (
        "env",
        f"--chdir={order.folder}",
        "sbatch",
        "--parsable",
        "--export=ALL",
        *_options(order),
        *_what(order, python, script),
    )


def _options(order: JobOrder) -> Iterator[str]:
    if order.kind is not Kind.SCRIPT:
        yield f"--output={files_of(order).log}"
        yield f"--job-name={order.name or order.file.name}"
    elif order.name:
        yield f"--job-name={order.name}"
    numbers = {"nodes": order.nodes, "ntasks": order.tasks, "cpus-per-task": order.cores, "time": order.minutes}
    texts = {"array": order.array, "partition": order.partition, "account": order.account}
    for name, value in (numbers | texts).items():
        if value:
            yield f"--{name}={value}"
    if order.memory_gb:
        yield f"--mem={order.memory_gb}G"
    if order.gpus:
        yield f"--gres=gpu:{order.gpus}"


def _what(order: JobOrder, python: str, script: Path) -> tuple[str, ...]:
    if order.kind is Kind.SCRIPT:
        return (str(order.file), *order.arguments)
    if order.kind is Kind.PYTHON:
        return (str(script), "python", str(order.file), *order.arguments)
    return (str(script), "notebook", python, str(order.file), files_of(order).output, *order.arguments)


def parse_submit(stdout: str) -> str:
    """The id of the job that was submitted.

    Raises:
        SlurmUnavailable: the answer holds none.
    """
    found = _ANSWER.match(stdout.strip())
    if not found:
        raise SlurmUnavailable(
            "Slurm's answer cannot be read: the job may have been submitted. Look for it with `portal job list`.",
            detail=unreadable(f"sbatch printed {stdout[:200]!r}").detail,
        )
    return found[1]
