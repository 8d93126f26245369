"""The addresses of a person's jobs: what stands behind them is imported when the first is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.routing import Rule

from portal.session_pages.late import Pages, late_rules

if TYPE_CHECKING:
    from portal.jobs.desk import IsAnother

JOB = r"([0-9_]+)"
PAGES = {"dsportal/api/jobs": "all", rf"dsportal/api/jobs/{JOB}": "one", rf"dsportal/api/jobs/{JOB}/log": "log"}


def routes(application: Any, base: str, home: Path, is_another: IsAnother) -> list[Rule]:
    """The rules for a server's application.

    Arguments:
        home: where its file browser begins.
        is_another: as :class:`portal.jobs.desk.JobDesk` has it, of what the session has opened.
    """

    def load() -> Pages:
        from portal.jobs.desk import JobDesk
        from portal.jobs.pages import JobLogHandler, JobPlace, OwnJobHandler, OwnJobsHandler

        handlers = {"all": OwnJobsHandler, "one": OwnJobHandler, "log": JobLogHandler}
        return handlers, {"place": JobPlace(JobDesk(os.environ, is_another=is_another), home)}

    return late_rules(application, base, PAGES, load)
