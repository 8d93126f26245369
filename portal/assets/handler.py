"""The address of JupyterLab's files on the hub's host: for everybody, also before a login, and without a cookie."""

from __future__ import annotations

import asyncio
import json
import os
from io import BytesIO
from typing import Any, BinaryIO

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from portal.assets.files import LIST, LabAssets
from portal.assets.packed import Asset, media_type, taken

PIECE = 64 * 1024
WITHIN_S = 30.0  # for any file, and as long as it takes at the slowest
SLOWEST = 16 * 1024  # bytes a second
FOR_EVER = "public, max-age=31536000, immutable"
LIST_FOR = "no-cache"


class LabAssetHandler(RequestHandler):
    """``GET /hub/dsportal/lab/KEY/FILE``: one file of exactly that JupyterLab; 404 for another one."""

    def initialize(self, assets: LabAssets) -> None:
        """Take the files."""
        self.assets = assets

    def set_default_headers(self) -> None:
        """Pages of sessions, which are of other hosts where each person has one, may load them."""
        self.set_header("Cross-Origin-Resource-Policy", "cross-origin")
        self.set_header("Access-Control-Allow-Origin", "*")  # fonts are asked for so

    async def get(self, key: str, name: str) -> None:
        """The file, packed where the browser takes that."""
        if key != self.assets.key:
            raise HTTPError(404)
        if name == LIST:
            self.set_header("Cache-Control", LIST_FOR)
            self.finish(json.dumps(self.assets.first()))
            self.set_header("Content-Type", "application/json")
            return
        found = await self.assets.read(name, taken(self.request.headers.get("Accept-Encoding", "")))
        if found is None:
            raise HTTPError(404)
        self.set_header("Content-Type", media_type(name))
        self.set_header("Cache-Control", FOR_EVER)
        self.set_header("Vary", "Accept-Encoding")
        if isinstance(found, Asset):
            if found.encoding:
                self.set_header("Content-Encoding", found.encoding)
            await self._send(BytesIO(found.body), len(found.body))
            return
        with found.open("rb") as file:
            await self._send(file, os.fstat(file.fileno()).st_size)

    async def _send(self, file: BinaryIO, size: int) -> None:
        """Send it piece by piece: who reads slowly costs the hub one piece, and not for ever."""
        self.set_header("Content-Length", size)
        try:
            async with asyncio.timeout(WITHIN_S + size / SLOWEST):
                while piece := await asyncio.to_thread(file.read, PIECE):
                    self.write(piece)
                    await self.flush()
        except TimeoutError:
            connection: Any = self.request.connection
            connection.close()
        except StreamClosedError:
            pass  # the browser has gone

    def write_error(self, status_code: int, **_: object) -> None:
        """No page: nobody looks at it."""
        self.set_header("Cache-Control", "no-store")
        self.finish()
