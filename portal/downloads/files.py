"""One file to download: Jupyter's own address, in parts where a browser goes on with a download."""

from __future__ import annotations

import os
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path

from jupyter_core.paths import is_hidden
from jupyter_server.base.handlers import AuthenticatedFileHandler
from tornado.web import HTTPError, StaticFileHandler

from portal.downloads.read_files import IS_KEPT
from portal.homes.regular_file import without_waiting

PART = 64 * 1024  # bytes, as tornado reads


class FileHandler(AuthenticatedFileHandler):
    """Jupyter's; tornado (6.6) does not know ``If-Range``: a file that changed would be sent from its middle on.

    And it follows no link out of the home, as those to the site's storage, behind which JupyterLab shows files.
    """

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:  # type: ignore[override]
        """Where the file really is: wherever the person may read, as when JupyterLab opens it, unless it is hidden."""
        self.allowed_symlink_directory = "/"
        found = StaticFileHandler.validate_absolute_path(self, root, absolute_path)
        if not self.contents_manager.allow_hidden and is_hidden(absolute_path, str(Path(root).absolute())):
            raise HTTPError(HTTPStatus.NOT_FOUND)
        return found

    def set_headers(self) -> None:
        """Send all of it where what the browser has is of another file (RFC 9110 §13.1.5)."""
        super().set_headers()
        wanted = self.request.headers.get("If-Range")
        if wanted is not None and wanted != self._headers.get("Last-Modified"):
            self.request.headers.pop("Range", None)

    @classmethod
    def get_content(cls, abspath: str, start: int | None = None, end: int | None = None) -> Generator[bytes]:
        """The file in parts, as tornado's; nobody waits for a pipe that it has become, or for somebody's lease."""
        try:
            with open(abspath, "rb", opener=without_waiting) as file:
                file.seek(start or 0)
                left = (os.fstat(file.fileno()).st_size if end is None else end) - (start or 0)
                while left > 0 and (part := file.read(min(left, PART))):
                    left -= len(part)
                    yield part
        except BlockingIOError as error:
            raise HTTPError(HTTPStatus.LOCKED, IS_KEPT.format(Path(abspath).name)) from error
