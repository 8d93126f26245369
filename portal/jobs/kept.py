"""What was submitted where others can change it: kept as it was then, until its job cannot start again.

What was looked at, and compared with what a page shows, is what runs, whatever others or the person write meanwhile;
as with a batch script, of which Slurm keeps a copy.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import shutil
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal.errors import PortalError, RequestError
from portal.homes.held_files import put
from portal.homes.held_place import KEPT_MAX, held
from portal.homes.own_folder import make_own
from portal.homes.readers import READ, WRITE, rights_of
from portal.homes.regular_file import open_regular, regular

FOLDER = "submitted"  # beside the notes
JOB = "id"  # beside a copy: the number of its job; no copy is called so
FORGOTTEN_S = 3600.0  # Slurm may not tell of a new job at once
LOST_S = 30 * 86_400.0  # nobody knows whether Slurm has taken a job
ID_MAX = 64


@dataclass(frozen=True)
class Kept:
    """A copy.

    Attributes:
        path: where it is; it has the name of the file.
        sum: SHA-256 of what is in it, in hexadecimal digits.
        owner: the UID that the file belonged to.
    """

    path: Path
    sum: str
    owner: int

    @property
    def word(self) -> str:
        """As the batch script has it."""
        return f"{self.sum}:{self.path}"

    def belongs_to(self, job_id: str) -> None:
        """Note whose it is: then it is taken away when Slurm has forgotten that job."""
        with suppress(OSError):
            (self.path.parent / JOB).write_text(job_id)

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def keep(folder: Path, file: Path) -> Kept:
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
            owner = regular(descriptor, file.name).st_uid
            rights = rights_of(descriptor, READ, WRITE)
            with open(descriptor, "rb", closefd=False) as opened:
                content = opened.read(KEPT_MAX + 1)
    except OSError as error:
        raise RequestError("file", str(file), f"a file that can be read: {error.strerror}") from error
    if len(content) > KEPT_MAX:
        raise RequestError("file", str(file), f"up to {KEPT_MAX // 2**20} MB where others can change a file")
    kept = Kept(folder / FOLDER / secrets.token_hex(8) / file.name, hashlib.sha256(content).hexdigest(), owner)
    try:
        make_own(kept.path.parent)
        with held(kept.path) as place:
            put(place, content, rights=rights)
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


def opened_copy(word: str, file: str) -> IO[bytes]:
    """The copy that a job runs.

    Arguments:
        word: :attr:`Kept.word`.
        file: what was submitted, for who reads an error.

    Raises:
        PortalError: it is gone, or another one.
    """
    wanted, _, path = word.partition(":")
    try:
        opened = open_regular(Path(path))
    except OSError as error:
        raise PortalError(
            f"The copy of {file} that was kept when this job was submitted cannot be read: {error}. "
            "Nothing was run. Submit the job again."
        ) from error
    if hashlib.sha256(opened.read()).hexdigest() != wanted:
        opened.close()
        raise PortalError(
            f"{path} is not what was kept of {file} when this job was submitted. Nothing was run. Submit the job again."
        )
    opened.seek(0)
    return opened


def forget(folder: Path, jobs: Container[str]) -> None:
    """Take away the copies of jobs that cannot start again.

    Arguments:
        folder: of the person's notes.
        jobs: the numbers of all that Slurm knows; of an array that of the whole.
    """
    with suppress(OSError):
        for copies in list((folder / FOLDER).iterdir()):
            if _is_over(copies, jobs):
                shutil.rmtree(copies, ignore_errors=True)


def _is_over(copies: Path, jobs: Container[str]) -> bool:
    with suppress(FileNotFoundError):
        age = time.time() - copies.lstat().st_mtime
        try:
            with open_regular(copies / JOB) as file:
                job_id = file.read(ID_MAX).decode(errors="replace").strip()
        except FileNotFoundError:
            return age > LOST_S
        return age > FORGOTTEN_S and job_id not in jobs
    return False
