"""The address of JupyterLab's files on the hub's host: for everybody, also before a login, and without a cookie."""

from __future__ import annotations

import asyncio
import json

from tornado.web import HTTPError, RequestHandler

from portal.assets.files import LIST, LabAssets, unpacked

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
        asset = await self.assets.read(name)
        if asset is None:
            raise HTTPError(404)
        self.set_header("Content-Type", asset.media_type)
        self.set_header("Cache-Control", FOR_EVER)
        self.set_header("Vary", "Accept-Encoding")
        if asset.is_packed and "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            self.finish(asset.body)
        else:
            self.finish(await asyncio.to_thread(unpacked, asset))

    def write_error(self, status_code: int, **_: object) -> None:
        """No page: nobody looks at it."""
        self.set_header("Cache-Control", "no-store")
        self.finish()
