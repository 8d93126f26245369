"""``portal kernels test`` and ``portal tools test`` with ``--partition NAME``: the same in a job of that partition.

The job is submitted by the person who types, with the options of a session of that partition, so the launcher has no
part in it. Everything is argv: sbatch gets the program ``portal`` itself as its script, with its words behind it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from portal.errors import KernelError, RequestError, printable
from portal.request import SessionRequest
from portal.settings.groups import labels
from portal.site import Site
from portal.slurm.submission import job_options

MINUTES = 15
MINUTES_PER_KERNEL = 2
_WHO = "run this as somebody who may use the portal, whose home the nodes see"
_OWN = ("HOME", "USER", "LOGNAME", "PATH", "LANG", "SLURM_CONF")


class Work(NamedTuple):
    """What a job does.

    Attributes:
        words: those behind ``portal``.
        name: what it is called in the queue.
        variables: of its environment, beside those of who asks.
    """

    words: tuple[str, ...]
    name: str
    minutes: int
    variables: Mapping[str, str] = {}


def command(
    site: Site, partition: str, gpus: int, names: Sequence[str], output: Path, *, as_json: bool = False
) -> list[str]:
    """The command line of the job that tests kernels; fails as :func:`submission`."""
    return submission(site, partition, gpus, _of_kernels(site, names, as_json), output)


def _of_kernels(site: Site, names: Sequence[str], as_json: bool) -> Work:
    folders = site.kernels_path(labels(site.groups_mentioned))
    words = ("kernels", "test", *(["--json"] if as_json else []), "--folder", folders, "--", *names)
    return Work(words, "kernels-test", max(MINUTES, MINUTES_PER_KERNEL * len(names)))


def submission(site: Site, partition: str, gpus: int, work: Work, output: Path) -> list[str]:
    """The command line that submits the job and waits for its end.

    Raises:
        RequestError: the site has no such partition, or no session there may have so many GPUs.
    """
    known = {one.name: one for one in site.partitions}
    if partition not in known:
        raise RequestError("partition", partition, f"one of {', '.join(known) or 'none, the settings name none'}")
    most = site.gpus_max(known[partition])
    if not 0 <= gpus <= most:
        raise RequestError("gpus", gpus, f"a whole number from 0 to {most}")
    return [
        "sbatch",
        "--wait",
        "--parsable",
        *job_options(SessionRequest(partition=partition, gpus=gpus, hours=1), site),
        f"--time={work.minutes}",  # the last one counts
        f"--job-name={work.name}",
        "--export=ALL",  # of the short environment below; NONE would evaluate the person's login shell
        "--input=/dev/null",
        f"--output={str(output).replace('%', '%%')}",  # % begins a pattern there
        str(Path(sys.prefix, "bin", "portal")),
        *work.words,
    ]


def main(site: Site, partition: str, gpus: int, names: Sequence[str], *, as_json: bool = False) -> int:
    """Test kernels in a job; its exit status."""
    return run(site, partition, gpus, _of_kernels(site, names, as_json), sys.stderr if as_json else sys.stdout)


def run(site: Site, partition: str, gpus: int, work: Work, told: TextIO) -> int:
    """Submit the job, wait for its end, print what it said; its exit status.

    Arguments:
        told: where the job's number is told.
    """
    with _output(work.name) as output:
        argv = submission(site, partition, gpus, work, output)
        environ = {name: os.environ[name] for name in _OWN if name in os.environ}
        environ |= site.cluster.environment(os.environ.get("PATH", os.defpath)) | dict(work.variables)
        status = _wait(argv, environ, told)
        said = output.read_text(errors="replace")
    print(
        printable(said) or f"The job said nothing and ended with status {status}: {_WHO}.",
        end="" if said else "\n",
        flush=True,
    )
    return status or int(not said)


@contextlib.contextmanager
def _output(name: str) -> Iterator[Path]:
    """A file for the job's words in the person's home, which the nodes see; it goes again."""
    try:
        handle, path = tempfile.mkstemp(prefix=f".dsportal-{name}-", dir=Path.home())
    except OSError as error:
        raise KernelError(f"{Path.home()} cannot be written ({error.strerror}): {_WHO}.") from error
    os.close(handle)
    try:
        yield Path(path)
    finally:
        Path(path).unlink(missing_ok=True)


def _wait(argv: Sequence[str], environ: dict[str, str], told: TextIO) -> int:
    """The exit status of the job; whoever does not want to wait takes it back with Ctrl-C."""
    try:
        process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise KernelError(f"sbatch cannot be started: {error.strerror}. Put Slurm's commands into PATH.") from error
    with process:
        job = (process.stdout.readline() if process.stdout else "").strip().partition(";")[0]
        if not job:
            raise KernelError("sbatch took no job: its own words stand above.")
        try:
            print(f"job {job} is submitted; Ctrl-C takes it back", file=told, flush=True)
            return process.wait()
        except BaseException:
            subprocess.run(["scancel", job], env=environ, check=False)
            raise
