"""The address of uploads: what stands behind it is imported when the first is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tornado.routing import Rule

from portal.homes.readers import KnownFile
from portal.session_pages.late import Pages, late_rules


def routes(
    application: Any, base: str, folder: Callable[[str], Path], opened: Callable[[Path], KnownFile | None]
) -> list[Rule]:
    """The rules for a server's application.

    Arguments:
        folder: the real folder behind a path of the file browser, or an error.
        opened: what the session has opened or saved at a path.
    """

    def load() -> Pages:
        from portal.uploads.pages import UploadHandler, Uploads

        return {"upload": UploadHandler}, {"uploads": Uploads(folder, opened)}

    return late_rules(application, base, {"dsportal/api/upload": "upload"}, load)
