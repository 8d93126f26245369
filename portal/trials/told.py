"""What the job of a test says: a JSON object for each thing tested, among other lines, all in a stranger's words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from portal.errors import KernelError, printable
from portal.trials.trial import Trial, from_json


def line_of(kind: str, name: str, trial: Trial) -> str:
    """One test as its job tells it; :func:`trials_of` reads it.

    Arguments:
        kind: what was tested, ``kernel`` or ``tool``.
    """
    return json.dumps({kind: name, "trial": trial.to_json()})


def trials_of(said: str, kind: str, partition: str) -> Iterator[tuple[str, Trial]]:
    """What the job found; where and when is not the job's to say. Other lines, such as Slurm's, are printed."""
    for line in said.splitlines():
        if not line.startswith("{"):
            print(printable(line))
            continue
        try:
            answer: Any = json.loads(line)
            yield str(answer[kind]), replace(from_json(answer["trial"]), at=int(time.time()), partition=partition)
        except (ValueError, LookupError, TypeError, RecursionError, KernelError):
            print(f"not understood: {printable(line[:200])}")
