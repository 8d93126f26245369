"""One file to download: Jupyter's own address, in parts where a browser goes on with a download."""

from __future__ import annotations

from jupyter_server.base.handlers import AuthenticatedFileHandler


class FileHandler(AuthenticatedFileHandler):
    """Jupyter's; tornado 6.5 does not know ``If-Range``: a file that changed would be sent from its middle on."""

    def set_headers(self) -> None:
        """Send all of it where what the browser has is of another file (RFC 9110 §13.1.5)."""
        super().set_headers()
        wanted = self.request.headers.get("If-Range")
        if wanted is not None and wanted != self._headers.get("Last-Modified"):
            self.request.headers.pop("Range", None)
