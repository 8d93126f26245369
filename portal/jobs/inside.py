"""What runs in the job of a notebook: the notebook from top to bottom, into another one beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.errors import PortalError, printable
from portal.jobs.submit import filled_in
from portal.notebooks import run

OPENED = "--opened"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run ``[--opened] FILE OUTPUT [NAME=VALUE…]``; the exit status is the job's.

    With ``--opened`` standard input is FILE: opened, and then looked at.
    """
    is_opened = list(arguments[:1]) == [OPENED]
    file, pattern, *assignments = arguments[is_opened:]
    output = Path.cwd() / filled_in(pattern, job_id(environ))
    print(printable(f"{file} runs into {output}"), flush=True)
    try:
        values = dict(run.assignment(text) for text in assignments)
        opened = sys.stdin.buffer if is_opened else None
        run.run(Path(file), output, values, Path.cwd(), log=lambda line: print(line, flush=True), opened=opened)
    except PortalError as error:
        print(printable(error.message), file=sys.stderr)
        return 1
    print(printable(f"done: {output}"))
    return 0


def job_id(environ: Mapping[str, str]) -> str:
    """The id as squeue has it: ``12``, or ``12_3`` of a task of an array."""
    if array := environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{environ.get('SLURM_ARRAY_TASK_ID', '0')}"
    return environ.get("SLURM_JOB_ID", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
