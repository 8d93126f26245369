"""The addresses of *Save and Export Notebook As*: Jupyter's own (jupyter_server 2.21), but for who converts."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import zipfile
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, ClassVar

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import FilesRedirectHandler, path_regex
from jupyter_server.nbconvert.handlers import NbconvertFileHandler, NbconvertPostHandler, date_format
from tornado.web import HTTPError, authenticated

from portal.downloads.read_files import IS_SHOWN
from portal.exports.apart import Converted, Exports, settings_of
from portal.exports.converter import with_settings
from portal.session_pages.calls import SessionCall

log = logging.getLogger(__name__)
FORMAT = r"nbconvert/(?P<format>\w+)"
GONE = 499  # nobody reads it
NO_NOTEBOOK = "What is converted is an object with a notebook as its content."


class _Converting:
    """Before a handler: what it asks for ends with who has asked."""

    _asked: asyncio.Future[Converted] | None = None
    _is_gone = False

    def initialize(self, exports: Exports) -> None:
        """Get what the session shares."""
        self.exports = exports

    def on_connection_close(self) -> None:
        """Nobody waits any more."""
        self._is_gone = True
        if self._asked:
            self._asked.cancel()

    async def convert(self: Any, form: str, notebook: object, metadata: dict[str, str]) -> Converted:
        """Have a notebook converted."""
        if self._is_gone:  # while it was read
            raise HTTPError(GONE)
        sanitize = self.get_argument("sanitize_html", None)
        asked = {
            "format": form,
            "config": settings_of(self.config),
            "resources": {"metadata": metadata, "config_dir": self.settings["config_dir"]},
            "sanitize": None if sanitize is None else sanitize.lower() == "true",
        }
        self._asked = asyncio.ensure_future(self.exports.convert(asked, notebook))
        try:
            made: Converted = await self._asked
        except asyncio.CancelledError as error:
            raise HTTPError(GONE) from error
        return made

    async def send(self: Any, name: str, made: Converted, download: bool) -> None:
        """Answer with it; with an archive where there are files beside it."""
        stem = PurePath(name).stem
        self.set_header("Cache-Control", "no-store, no-cache, must-revalidate, max-age=0")
        if made.files:
            self.set_attachment_header(f"{stem}.zip")
            self.set_header("Content-Type", "application/zip")
            await self.finish(await asyncio.to_thread(_archive, f"{stem}{made.extension}", made))
            return
        if download:
            self.set_attachment_header(f"{stem}{made.extension}")
        self.set_header("Content-Type", f"{made.media_type}; charset=utf-8")
        await self.finish(made.data)


class ExportHandler(_Converting, NbconvertFileHandler):
    """A notebook of the file browser."""

    @authenticated
    @authorized
    async def get(self, format: str, path: str) -> None:
        """The notebook in that format."""
        self.check_xsrf_cookie()
        before = IS_SHOWN.set(False)
        try:
            model = await ensure_async(self.contents_manager.get(path=path.strip("/")))
        finally:
            IS_SHOWN.reset(before)
        if model["type"] != "notebook":
            await FilesRedirectHandler.redirect_to_files(self, path.strip("/"))
            return
        name = model["name"]
        metadata = {"name": PurePath(name).stem, "modified_date": model["last_modified"].strftime(date_format)}
        if hasattr(self.contents_manager, "_get_os_path"):
            metadata["path"] = str(PurePath(self.contents_manager._get_os_path(path.strip("/"))).parent)
        made = await self.convert(format, model["content"], metadata)
        self.set_header("Last-Modified", model["last_modified"])
        await self.send(name, made, self.get_argument("download", "false").lower() == "true")


class ExportCall(_Converting, NbconvertPostHandler):
    """A notebook that is sent."""

    @authenticated
    @authorized
    async def post(self, format: str) -> None:
        """The same in that format."""
        model = self.get_json_body()
        if not isinstance(model, dict) or not isinstance(model.get("content"), dict):
            raise HTTPError(400, NO_NOTEBOOK)
        name = str(model.get("name", "notebook.ipynb"))
        made = await self.convert(format, model["content"], {"name": PurePath(name).stem})
        await self.send(name, made, download=False)


class FormatsHandler(SessionCall):
    """What a notebook can be exported as here: JupyterLab's menu has no other."""

    auth_resource = "nbconvert"
    _turn: ClassVar[asyncio.Lock] = asyncio.Lock()  # some exporters change what is the whole process's

    @authenticated
    @authorized
    async def get(self) -> None:
        """An object, with the media type of each."""
        async with self._turn:
            found = await asyncio.to_thread(formats, self.config or {})
        await self.finish(json.dumps(found))


def formats(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The media types of the formats that are turned on, by their names."""
    from nbconvert.exporters import base

    find: Any = base.get_exporter
    found = {}
    settings = with_settings(config)
    for name in sorted(one.name for one in entry_points(group="nbconvert.exporters")):
        try:
            found[name] = {"output_mimetype": find(name, settings).output_mimetype}
        except base.ExporterDisabledError:
            continue
        except Exception as error:  # one of another package that does not work leaves the others in the menu
            log.warning("There are no exports as %s: %s", name, error)
    return found


def routes(base: str) -> list[tuple[str, type, dict[str, Any]]]:
    """What stands before Jupyter's own."""
    shared = {"exports": Exports(folder=os.environ.get("JUPYTER_RUNTIME_DIR", ""))}
    return [
        (f"{base}{FORMAT}", ExportCall, shared),
        (f"{base}{FORMAT}{path_regex}", ExportHandler, shared),
        (f"{base}api/nbconvert", FormatsHandler, {}),
    ]


def _archive(name: str, made: Converted) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, made.data)
        for beside, data in made.files.items():
            archive.writestr(beside, data)
    return packed.getvalue()
