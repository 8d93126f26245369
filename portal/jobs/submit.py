"""From an order to ``sbatch``: everything that somebody chose is argv, never the text of a script.

A script is given to Slurm as it is, with its ``#SBATCH`` lines. A notebook and a Python program are arguments of a
constant script (``templates/job/job.sh``), with what was looked at when they were submitted (:func:`look`). Of what
others can change a copy runs (:mod:`portal.jobs.kept`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from portal.errors import SlurmUnavailable
from portal.homes.held_place import held, is_own_all_the_way
from portal.homes.own_folder import are_own, is_closed, is_own, of_others_in
from portal.homes.readers import is_as_closed
from portal.jobs.kept import SubmittedFile
from portal.jobs.order import JobOrder, Kind
from portal.slurm.jobs import unreadable

OPEN_TO_OTHERS = 0o022
CLOSED = "c"
NOTHING = "-"  # to look at; an empty argument may not come through everything that a job does
RESULTS = ("jobs", "jobs-of-the-portal")  # in the home; the second where others can change what is called as the first
_ODD = re.compile(r"[^\w.@+-]")  # % begins a pattern in the name of a log, and \ ends all patterns: sbatch(1)
_ANSWER = re.compile(r"(\d{1,12})(?:;\S+)?\Z", re.ASCII)


@dataclass(frozen=True)
class Files:
    """The names of what a job writes, relative to its folder or whole; "" = the script's own, or none.

    ``%j``, ``%A`` and ``%a`` stand for the numbers of job, array and task, as in sbatch(1).
    """

    log: str = ""
    output: str = ""


@dataclass(frozen=True)
class Seen:
    """Whose what others can exchange while a job waits was when it was submitted; "" = nobody else can.

    The UID, with :data:`CLOSED` where nobody else could change what is in it. Not the inode: Git and editors make
    others, and file systems on the network may number anew on each node.

    Attributes:
        work: the folder that the job works in, where others can exchange it, and where it is without links.
        place: the folder of the file.
        file: where it is without links, where others can exchange one on the way.
        real: the same, wherever it is.
        folder: that the job works in, without links; None = where the order says.
        is_hers: nobody else can have made or can change the file, or exchange it there.
        kept: the copy that runs, where somebody can.
    """

    work: str = ""
    place: str = ""
    file: str = ""
    real: Path = Path()
    folder: Path | None = None
    is_hers: bool = True
    kept: SubmittedFile | None = None

    @property
    def words(self) -> tuple[str, str, str]:
        """As the batch script has them."""
        return self.work or NOTHING, self.place or NOTHING, str(self.kept.folder) if self.kept else NOTHING


def _whose(folder: os.stat_result) -> str:
    return f"{folder.st_uid}{'' if folder.st_mode & OPEN_TO_OTHERS else CLOSED}"


def look(order: JobOrder) -> Seen:
    """What is to be found again when the job starts.

    Raises:
        OSError: it is not there.
    """
    real = Path(os.path.realpath(order.file, strict=True))
    work = Path(os.path.realpath(order.folder))
    if order.kind is Kind.SCRIPT:  # Slurm keeps a copy of it
        return Seen(real=real, folder=work)
    folder = real.parent.stat()
    is_there = _stays(real.parent)
    is_hers = is_there and is_closed(folder) and are_own(real.parent, (real.name,))
    return Seen(
        "" if _stays(work) else f"{_whose(work.stat())}:{work}",
        "" if is_there else _whose(folder),
        "" if is_hers and _is_sure(order.file) else str(real),
        real,
        work,
        is_hers,
    )


def _stays(folder: Path) -> bool:
    """Whether nobody else can put another folder in the place of one; whoever may change what is in it."""
    return _is_sure(folder) or _is_sure(folder / "file", follow=False)


def _is_sure(path: Path, *, follow: bool = True) -> bool:
    with suppress(OSError), held(path.absolute(), follow=follow) as place:
        return place.is_private
    return False


def files_of(order: JobOrder) -> Files:
    """What a job of this order writes."""
    if order.kind is Kind.SCRIPT:
        return Files()
    base = f"{_ODD.sub('_', order.file.stem)}-{'%A_%a' if order.array else '%j'}"
    base = str(order.results / base) if order.results else base
    return Files(f"{base}.log", f"{base}.ipynb" if order.kind is Kind.NOTEBOOK else "")


def placed(order: JobOrder, home: Path) -> JobOrder:
    """What it writes lies beside the file, or in a folder of her own where others can change that one.

    Or where they have left something of such a name there, before it was closed. Slurm writes a log through
    whatever lies in its place, and anybody knows the number of the next job. Who can change the home itself could
    change all that runs there anyway: from them alone it is kept nowhere.
    """
    begin = files_of(order).log.partition("%")[0]
    is_kept_beside = is_own_all_the_way(order.folder) and not of_others_in(order.folder, begin)
    if order.kind is Kind.SCRIPT or is_kept_beside:
        return order
    found = [home / name for name in RESULTS]
    for results in found:
        with suppress(OSError):
            results.mkdir(mode=0o700, exist_ok=True)
    safe = [one for one in found if is_own_all_the_way(one) and not of_others_in(one, begin)]
    if not safe and not is_as_closed(order.folder, home):
        safe = [one for one in found if is_own(one) and not one.is_symlink() and not of_others_in(one, begin)]
    return replace(order, results=safe[0]) if safe else order


def filled_in(path: str, job_id: str) -> str:
    """A path with the number of a job in its last part: ``"12"``, or ``"12_3"`` of a task of an array."""
    folder, slash, name = path.rpartition("/")
    array, _, task = job_id.partition("_")
    return folder + slash + name.replace("%j", array).replace("%A", array).replace("%a", task)


def submit_command(order: JobOrder, python: str, script: Path, seen: Seen = Seen()) -> tuple[str, ...]:
    """The command line that submits the job.

    Arguments:
        python: the portal's own interpreter, which runs notebooks.
        script: the constant batch script.
        seen: what :func:`look` saw of the order, with the copy of what others can change.

    Source: sbatch(1) of Slurm 22.05. ``--export=ALL`` exports the environment that sbatch is started with, which is
    :func:`portal.jobs.environment.of_job`; ``NONE`` would evaluate the person's login shell on the node.
    """
    return (
        "env",
        f"--chdir={seen.folder or order.folder}",
        "sbatch",
        "--parsable",
        "--export=ALL",
        *_options(order),
        *_what(order, python, script, seen),
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


def _what(order: JobOrder, python: str, script: Path, seen: Seen) -> tuple[str, ...]:
    if order.kind is Kind.SCRIPT:
        return (str(order.file), *order.arguments)
    file = seen.file or str(order.file)
    if order.kind is Kind.PYTHON:
        return (str(script), "python", *seen.words, file, *order.arguments)
    return (str(script), "notebook", *seen.words, python, file, files_of(order).output, *order.arguments)


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
