"""What the portal remembers of the jobs that it submitted: one small file for each, in the person's private folder.

Slurm forgets a job minutes after its end, and never knew which notebook it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portal.homes.own_folder import make_own
from portal.homes.private_folder import IN_HOME, VARIABLE
from portal.homes.regular_file import open_regular

KEPT = 200
SIZE_MAX = 65_536
_NAME = re.compile(r"\d{1,12}\.json\Z", re.ASCII)


@dataclass(frozen=True)
class Note:
    """A job that was submitted.

    Attributes:
        id: Slurm's; of an array that of the whole.
        submitted_at: in seconds since 1970.
        log, output: whole paths, with ``%j``, ``%A`` and ``%a`` as in :class:`portal.jobs.submit.Files`; "" = none.
    """

    id: str
    name: str
    file: str
    submitted_at: int
    log: str = ""
    output: str = ""


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where a person's notes are."""
    private = environ.get(VARIABLE) or str(Path(environ.get("HOME") or Path.home()) / IN_HOME)
    return Path(private, "jobs")


def write(folder: Path, note: Note) -> None:
    """Keep a note, and no more than :data:`KEPT` of them.

    Raises:
        OSError: the folder cannot be written.
    """
    make_own(folder)
    unfinished = folder / f".{note.id}.{os.getpid()}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(note), file)
    unfinished.replace(folder / f"{note.id}.json")
    for old in _files(folder)[KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()


def read(folder: Path) -> dict[str, Note]:
    """The notes by the id of their job, the newest first; what cannot be read is passed over."""
    notes = (_read(file) for file in _files(folder)[:KEPT])
    return {note.id: note for note in notes if note}


def _files(folder: Path) -> list[Path]:
    try:
        found = [file for file in folder.iterdir() if _NAME.match(file.name)]
    except OSError:
        return []
    return sorted(found, key=lambda file: int(file.stem), reverse=True)


def _read(file: Path) -> Note | None:
    try:
        with open_regular(file) as opened:
            found: Any = json.loads(opened.read(SIZE_MAX))
        note = Note(**found)
    except (OSError, ValueError, TypeError):
        return None
    texts = (note.id, note.name, note.file, note.log, note.output)
    is_whole = all(isinstance(text, str) for text in texts) and isinstance(note.submitted_at, int)
    return note if is_whole and file.name == f"{note.id}.json" else None
