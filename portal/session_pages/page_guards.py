"""What a session's server refuses to pages: a look ahead, an address that leads out, a page that lacks a part.

And a form that would take long to read, from whomever.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from tornado.httputil import RequestStartLine

from portal.addresses import TYPE_LENGTH_MOST, has_long_type
from portal.forwarding.session_paths import SessionPaths
from portal.session_pages.guard_refusal import GuardRefusal

LONG_TYPE = f"A Content-Type has at most {TYPE_LENGTH_MOST} letters: nothing was done."
NOT_YET = "This is done when you open it, and not before: nothing was done."
LED = "This address leads out of your files, or from another page away from the saved layout: this one does not."
HALF_A_PAGE = (
    "A part of this page is missing, without which it is shown no files: load the page again. If that does not help, "
    "remove the cookies of this address and of the portal's in your browser. JupyterLab and Notebook 7 have that part; "
    "pages of other programs in the session are shown none."
)


def refusal(paths: SessionPaths, start_line: RequestStartLine, headers: Mapping[str, str]) -> GuardRefusal | None:
    """What is answered in place of the application, if it is not asked; ``paths`` are those of the session."""
    if has_long_type(headers):
        return GuardRefusal(HTTPStatus.BAD_REQUEST, LONG_TYPE)
    if paths.is_too_early(start_line.path, headers):
        return GuardRefusal(HTTPStatus.SERVICE_UNAVAILABLE, NOT_YET)
    if (place := paths.led(start_line, headers)) != start_line.path:
        return GuardRefusal(HTTPStatus.FOUND, LED, leads_to=place)
    if paths.is_of_half_a_page(start_line, headers):
        return GuardRefusal(HTTPStatus.CONFLICT, HALF_A_PAGE)
    return None
