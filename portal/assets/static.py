"""The hub's own scripts and style sheets, packed: JupyterHub sends them as they lie on its disk."""

from __future__ import annotations

from pathlib import Path

from jupyterhub.handlers.static import CacheControlStaticFilesHandler
from tornado.web import HTTPError

from portal.assets.packed import Asset, PackedFiles, taken


class PackedStaticHandler(CacheControlStaticFilesHandler):  # type: ignore[misc]
    """``GET``, ``HEAD``: one file, packed where that makes it smaller and the browser takes it; never a range of it."""

    packed = PackedFiles()

    async def get(self, path: str, include_body: bool = True) -> None:
        """The file; what is wrong with an address is told as for every other file."""
        asset = None if "Range" in self.request.headers else await self._found(path)
        self.set_header("Vary", "Accept-Encoding")
        if asset is None or not asset.encoding:
            await super().get(path, include_body)
            return
        self.modified = self.get_modified_time()
        self.set_headers()
        if self.should_return_304():
            self.set_status(304)
            return
        self.set_header("Content-Encoding", asset.encoding)
        self.set_header("Content-Length", len(asset.body))
        self.clear_header("Accept-Ranges")
        if include_body:
            self.write(asset.body)

    async def _found(self, path: str) -> Asset | None:
        self.path = self.parse_url_path(path)
        try:
            absolute = self.validate_absolute_path(self.root, self.get_absolute_path(self.root, self.path))
            if absolute is None:
                return None
            self.absolute_path = absolute
            return await self.packed.read(Path(absolute), taken(self.request.headers.get("Accept-Encoding", "")))
        except (HTTPError, OSError):
            return None  # the handler for all files says what it is
