"""A page that answers what the portal refuses in the portal's own words, as JSON."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from portal.errors import PortalError, RequestError, SlurmUnavailable
from portal.session_pages.calls import SessionCall


class RefusingHandler(SessionCall):
    """Answers a :class:`PortalError` with ``{"message"}``: 404 if it is not there, 503 if Slurm is silent, else 400."""

    not_there: ClassVar[str] = ""  # the field of a RequestError that says so

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What the portal refuses, in its own words."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, PortalError):
            super().write_error(status_code, **kwargs)
            return
        is_missing = isinstance(error, RequestError) and error.field == self.not_there
        self.set_status(404 if is_missing else 503 if isinstance(error, SlurmUnavailable) else 400)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"message": error.message}))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """What the portal refuses is no fault of its own."""
        if isinstance(value, PortalError):
            self.log.info("%s %s: %s", self.request.method, self.request.path, value.detail)
            return
        super().log_exception(typ, value, tb)

    def asked_from(self) -> int:
        """The byte of a log that the address says to begin at.

        Raises:
            RequestError: it is no number.
        """
        start = self.get_query_argument("from", "0")
        if not (start.isascii() and start.isdecimal() and len(start) <= 18):
            raise RequestError("from", start, "a number of bytes, 0 or the answer's next")
        return int(start)
