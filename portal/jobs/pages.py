"""A person's jobs for the Lab extension and for programs: JSON of the session's server, for who may use the session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from tornado.web import authenticated

from portal.errors import RequestError
from portal.jobs.desk import JobDesk
from portal.jobs.order import JobOrder, order_of
from portal.jobs.words import JobView
from portal.session_pages.refusing import RefusingHandler


@dataclass(frozen=True)
class JobPlace:
    """What the pages need: the jobs, and where the file browser begins."""

    desk: JobDesk
    home: Path

    def order(self, body: object) -> JobOrder:
        """An order out of a JSON object: ``file`` is a path of the file browser, and the job runs in its folder.

        ``shown`` is what documents of the page that asks show of the file: of each its text, or a notebook.

        Raises:
            RequestError: a part of it is not allowed.
        """
        given = dict(body) if isinstance(body, Mapping) else {}
        path = given.pop("file", None)
        if not isinstance(path, str) or ".." in PurePosixPath(path).parts or not path.strip("/") or "\0" in path:
            raise RequestError("file", path, "the path of a file as the file browser has it")
        shown = given.pop("shown", [])
        if not isinstance(shown, list) or not all(isinstance(one, str | dict) for one in shown):
            raise RequestError("shown", shown, "a list of texts and notebooks, one for each document of the file")
        file = self.home.joinpath(*PurePosixPath(path.strip("/")).parts)
        return replace(order_of(file, file.parent, given), shown=tuple(shown))

    def shown(self, view: JobView) -> dict[str, object]:
        """A job as JSON; ``output_path`` is its output in the file browser, "" where it is not below that."""
        output = Path(view.output) if view.output else None
        is_below = output is not None and output.is_relative_to(self.home)
        return {**view.as_json(), "output_path": str(output.relative_to(self.home)) if output and is_below else ""}


class _JobsHandler(RefusingHandler):
    not_there = "job"

    def initialize(self, place: JobPlace) -> None:
        self.place = place


class OwnJobsHandler(_JobsHandler):
    """``dsportal/api/jobs``: all of them, and a new one."""

    @authenticated
    async def get(self) -> None:
        """Every job, the newest first; a look does not count as activity of the person."""
        self._track_activity = False
        views = await self.place.desk.jobs()
        self.finish(json.dumps({"jobs": [self.place.shown(view) for view in views]}))

    @authenticated
    async def post(self) -> None:
        """Submit a job."""
        note = await self.place.desk.submit(self.place.order(self.get_json_body()))
        self.set_status(201)
        self.finish(json.dumps(asdict(note)))


class OwnJobHandler(_JobsHandler):
    """``dsportal/api/jobs/ID``: one job."""

    @authenticated
    async def get(self, job_id: str) -> None:
        """State, reason, times and files."""
        self._track_activity = False
        self.finish(json.dumps(self.place.shown(await self.place.desk.job(job_id))))

    @authenticated
    async def delete(self, job_id: str) -> None:
        """Cancel it."""
        await self.place.desk.cancel(job_id)
        self.set_status(204)
        self.finish()


class JobLogHandler(_JobsHandler):
    """``dsportal/api/jobs/ID/log``: what it has written."""

    @authenticated
    async def get(self, job_id: str) -> None:
        """The part that begins at the byte ``from``."""
        self._track_activity = False
        self.finish(json.dumps(asdict(await self.place.desk.log(job_id, self.asked_from()))))
