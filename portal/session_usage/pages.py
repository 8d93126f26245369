"""What the Lab extension shows of the session's own job: JSON of the session's server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.web import authenticated

from portal.session_pages.calls import SessionCall
from portal.session_usage.before_end import BeforeEnd
from portal.session_usage.end_time import end_time

if TYPE_CHECKING:
    from portal.session_usage.usage import Looks, RunningKernel

SILENT = "The file server of your home, or a GPU, does not answer: it is not known what this session uses."


class OwnJob:
    """What the pages share; what measures is imported with the first question, not when a session starts."""

    def __init__(self, environ: Mapping[str, str] = os.environ, *, may_extend: bool = False) -> None:
        self._environ = environ
        self.may_extend = may_extend
        self.before_end = BeforeEnd(Path.home(), environ, end_time)

    @cached_property
    def looks(self) -> Looks:
        """The looks at the job."""
        from portal.session_usage.usage import JobUsage, Looks

        return Looks(JobUsage(Path.home(), self._environ).look)


class _JobHandler(SessionCall):
    def initialize(self, job: OwnJob) -> None:
        """An open page asks again and again: that is no activity of the person."""
        self.job = job
        self._track_activity = False


class TimeHandler(_JobHandler):
    """``GET dsportal/api/time``: when the session ends."""

    @authenticated
    def get(self) -> None:
        """The end (seconds since 1970, or null), the clock that it goes by, what became of the person's script.

        And whether the person may ask for more time.
        """
        run = self.job.before_end.run
        answer = {"ends_at": end_time.at, "now": time.time(), "before_end": run.to_json() if run else None}
        self.finish(json.dumps(answer | {"may_extend": self.job.may_extend}))


class JobUsageHandler(_JobHandler):
    """``GET dsportal/api/usage``: what the session's job uses."""

    @authenticated
    async def get(self) -> None:
        """CPU, memory, GPUs, disk, and which kernel uses what; 503 while that cannot be found out."""
        found = await self.job.looks.latest(await self._kernels())
        if found is None:
            self.set_status(503)
            found = {"message": SILENT}
        self.finish(json.dumps(found))

    async def _kernels(self) -> list[RunningKernel]:
        from portal.session_usage.usage import RunningKernel

        sessions = await self.session_manager.list_sessions()
        paths = {session["kernel"]["id"]: session["path"] for session in sessions}
        found = {id_: self.kernel_manager.get_kernel(id_) for id_ in self.kernel_manager.list_kernel_ids()}
        return [
            RunningKernel(id_, kernel.kernel_name, paths.get(id_, ""), pid)
            for id_, kernel in found.items()
            if (pid := _pid(kernel))
        ]


def _pid(kernel: Any) -> int | None:
    """The process of a kernel; None where it is not there yet, or not on this node."""
    pid: int | None = getattr(kernel.provisioner, "pid", None)
    return pid
