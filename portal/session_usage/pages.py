"""What the Lab extension shows of the session's own job: JSON of the session's server."""

from __future__ import annotations

import json
import time

from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from portal.session_usage.end_time import end_time


class TimeHandler(APIHandler):
    """``GET dsportal/api/time``: when the session ends."""

    def initialize(self) -> None:
        """An open page asks again and again: that is no activity of the person."""
        self._track_activity = False

    @authenticated
    def get(self) -> None:
        """The end (seconds since 1970, or null), and the clock that it goes by."""
        self.finish(json.dumps({"ends_at": end_time.at, "now": time.time()}))
