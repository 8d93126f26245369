"""What runs in the job of a notebook: the notebook from top to bottom, into another one beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from portal.errors import PortalError, printable
from portal.jobs.kept import opened_copy
from portal.jobs.submit import filled_in
from portal.notebooks import run

KEPT = "--kept"
OPENED = "--opened"  # of jobs that an earlier version submitted


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run ``[--kept FOLDER] FILE OUTPUT [NAME=VALUE…]``; the exit status is the job's.

    With ``--kept`` what runs is a copy of FILE (:class:`portal.jobs.kept.SubmittedFile`).
    """
    option = arguments[0] if arguments[0] in (KEPT, OPENED) else ""
    word = arguments[1] if option == KEPT else ""
    file, pattern, *assignments = arguments[bool(option) + bool(word) :]
    output = Path.cwd() / filled_in(pattern, job_id(environ))
    print(printable(f"{file} runs into {output}"), flush=True)
    try:
        values = dict(run.assignment(text) for text in assignments)
        with _opened(option, word, file) as opened:
            run.run(Path(file), output, values, Path.cwd(), log=lambda line: print(line, flush=True), opened=opened)
    except PortalError as error:
        print(printable(error.message), file=sys.stderr)
        return 1
    print(printable(f"done: {output}"))
    return 0


def _opened(option: str, word: str, file: str) -> AbstractContextManager[IO[bytes] | None]:
    if option == KEPT:
        return opened_copy(word, file)
    return nullcontext(sys.stdin.buffer if option == OPENED else None)


def job_id(environ: Mapping[str, str]) -> str:
    """The id as squeue has it: ``12``, or ``12_3`` of a task of an array."""
    if array := environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{environ.get('SLURM_ARRAY_TASK_ID', '0')}"
    return environ.get("SLURM_JOB_ID", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
