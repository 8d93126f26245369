"""What was submitted where others can change it: kept as it was then, until its job cannot start again.

What was looked at, and compared with what a page shows, is what runs, whatever others or the person write meanwhile;
as with a batch script, of which Slurm keeps a copy. Those are read from their own path, by which they find what lies
beside them.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal import data
from portal.errors import PortalError, RequestError
from portal.homes.held_place import KEPT_MAX, LOOK, NEW, held
from portal.homes.own_folder import make_own
from portal.homes.readers import READ, WRITE, closed_as, rights_of
from portal.homes.regular_file import open_regular, regular, without_waiting

FOLDER = "submitted"  # beside the notes; and in the folder of a copy that in which it lies, by the name of the file
BEGIN = "begin"  # beside it: what a program begins by (templates/job/begin.py)
FILE = "file"  # and the path of the file, for that
JOB = "id"  # and the number of its job, with the name of the cluster
FORGOTTEN_S = 3600.0  # Slurm may not tell of a new job at once
LOST_S = 30 * 86_400.0  # nobody knows whether Slurm has taken a job
ID_MAX = 512
NAME = re.compile(r"[0-9a-f]{16}")  # of a folder with a copy


@dataclass(frozen=True)
class SubmittedFile:
    """A copy.

    Attributes:
        folder: of this one alone; the person's, and closed.
        path: where it is; it has the name of the file.
        owner: the UID that the file belonged to.
    """

    folder: Path
    path: Path
    owner: int

    def belongs_to(self, job_id: str, cluster: str) -> None:
        """Note whose it is: then it is taken away when that cluster's Slurm has forgotten the job."""
        with suppress(OSError):
            (self.folder / JOB).write_text(f"{job_id} {cluster}")

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.folder, ignore_errors=True)


def keep(folder: Path, file: Path) -> SubmittedFile:
    """Read a file, once, and keep what is in it: shown to nobody who could not read that.

    Arguments:
        folder: of the person's notes.
        file: without links on its way, where others can put some.

    Raises:
        RequestError: it cannot be read, or is too long.
        PortalError: it cannot be kept.
    """
    try:
        with held(file, moved=False) as place, place.read() as descriptor:
            found = regular(descriptor, file.name)
            rights = rights_of(descriptor, READ, WRITE)
            with open(descriptor, "rb", closefd=False) as opened:
                content = opened.read(KEPT_MAX + 1)
    except OSError as error:
        raise RequestError("file", str(file), f"a file that can be read: {error.strerror}") from error
    if len(content) > KEPT_MAX:
        raise RequestError("file", str(file), f"up to {KEPT_MAX // 2**20} MB where others can change a file")
    place_of_its_own = folder / FOLDER / secrets.token_hex(8)
    kept = SubmittedFile(place_of_its_own, place_of_its_own / FOLDER / file.name, found.st_uid)
    try:
        make_own(kept.path.parent)
        with suppress(OSError):  # its group, which the output gets then; who is none of it has her own
            os.chown(kept.path.parent, -1, found.st_gid)
        with open(kept.path, "wb", opener=lambda path, _: os.open(path, NEW, 0o600)) as copy:
            copy.write(content)
            with suppress(OSError):
                os.chown(copy.fileno(), -1, found.st_gid)
            with suppress(PermissionError):  # homes on CIFS have no modes
                os.fchmod(copy.fileno(), closed_as(rights, copy.fileno(), 0o666))
        (kept.folder / FILE).write_bytes(os.fsencode(file))
        shutil.copyfile(data.folder("templates") / "job" / "begin.py", kept.folder / BEGIN)
    except OSError as error:
        kept.remove()
        raise PortalError(
            f"Others can change {file}, so its job runs a copy of it, and none can be kept in {folder}: "
            f"{error.strerror}. {_advice(error)}"
        ) from error
    return kept


def _advice(error: OSError) -> str:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{'Make room' if is_full else 'See what is wrong'} there, and submit the job again."


def opened_copy(folder: str, file: str) -> IO[bytes]:
    """The copy that a job runs.

    Arguments:
        folder: :attr:`SubmittedFile.folder`.
        file: what was submitted.

    Raises:
        PortalError: it is gone.
    """
    try:
        return open_regular(Path(folder, FOLDER, Path(file).name))
    except OSError as error:
        raise PortalError(
            f"The copy of {file} that was kept when this job was submitted cannot be read: {error}. "
            "Nothing was run. Submit the job again."
        ) from error


def forget(folder: Path, jobs: Container[str], cluster: str) -> None:
    """Take away the copies of jobs that cannot start again; behind no link, and nothing that is called otherwise.

    Arguments:
        folder: of the person's notes.
        jobs: the numbers of all that Slurm knows; of an array that of the whole.
        cluster: whose those are: a home may be on several.
    """
    with suppress(OSError), held(folder / FOLDER / "copies", moved=False) as place:
        found = [entry.name for entry in Path(f"/proc/self/fd/{place.folder}").iterdir()]
        for name in filter(NAME.fullmatch, found):
            copies = os.open(name, LOOK | os.O_DIRECTORY, dir_fd=place.folder)
            try:
                is_over = _is_over(copies, jobs, cluster)
            finally:
                os.close(copies)
            if is_over:
                shutil.rmtree(name, ignore_errors=True, dir_fd=place.folder)


def _is_over(copies: int, jobs: Container[str], cluster: str) -> bool:
    found = os.fstat(copies)
    if found.st_uid != os.geteuid():
        return False
    age = time.time() - found.st_mtime
    try:
        with open(JOB, "rb", opener=lambda name, flags: without_waiting(name, flags | os.O_NOFOLLOW, copies)) as file:
            job_id, _, where = file.read(ID_MAX).decode(errors="replace").partition(" ")
    except FileNotFoundError:
        return age > LOST_S
    if not job_id or not where:  # a home may be on two clusters, whose login nodes do not say which
        return age > LOST_S
    return age > FORGOTTEN_S and where == cluster and job_id not in jobs
