"""``GET dsportal/api/kernels``: what the last test of each kernel of the site found, for the Lab extension."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tornado.web import authenticated

from portal.session_pages.calls import SessionCall

WITHIN_S = 10.0  # a file server that is silent is not waited for longer


class KernelTrialsHandler(SessionCall):
    """``GET dsportal/api/kernels``."""

    def initialize(self, folders: Sequence[Path]) -> None:
        """Take the folders in which the hub said that the kernels are; a look is no activity of the person."""
        self.folders = folders
        self._track_activity = False

    @authenticated
    async def get(self) -> None:
        """Of each kernel that was tested its summary, all sentences, and whether something is wrong with it."""
        try:
            found = await asyncio.wait_for(asyncio.to_thread(answer, self.folders), WITHIN_S)
        except TimeoutError:
            self.set_status(503)
            found = {"message": "The folder of the site's kernels does not answer."}
        self.finish(json.dumps(found))


def folders_of(path: str) -> tuple[Path, ...]:
    """The folders of a ``JUPYTER_PATH``."""
    return tuple(Path(one) for one in path.split(os.pathsep) if one)


def answer(folders: Sequence[Path]) -> dict[str, Any]:
    """What :class:`KernelTrialsHandler` answers; an earlier folder hides what has the same name, as Jupyter has it."""
    from portal.trials.record import read

    kernels: dict[str, Any] = {}
    for folder in folders:
        for name, trial in read(folder).items():
            shown = {
                "at": trial.at,
                "summary": trial.summary(),
                "lines": list(trial.lines()),
                "is_fault": trial.is_fault,
            }
            kernels.setdefault(name, shown)
    return {"kernels": kernels}
