"""Uploads for the Lab: ``dsportal/api/upload?path=FOLDER/NAME&size=BYTES&stamp=TEXT``.

GET says how many bytes are there, PATCH sends more from ``Upload-Offset`` on, POST gives the file its name, DELETE
forgets it. What comes is written while it comes, in a thread; a megabyte of it is in memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any

from tornado.web import HTTPError, authenticated, stream_request_body

from portal.homes.readers import KnownFile
from portal.session_pages.calls import SessionCall
from portal.uploads.beginnings import Beginnings
from portal.uploads.open_partial import OpenPartial
from portal.uploads.partial import Named, Upload
from portal.uploads.refused import UploadRefused

BUFFER = 1024**2  # bytes
NAMED_MOST = 1000
SILENT_S = 5.0  # after which another request goes on with the same upload
OFFSET = "Upload-Offset"
SIZE_MAX = 2**63 - 1  # off_t
_NO_NUMBER = "{} is {!r}; it has to be a whole number of bytes."


class Uploads:
    """The uploads of a session.

    Arguments:
        folder: the folder of a path of the file browser, by the way that it shows.
        opened: what the session has opened or saved at a path.
    """

    def __init__(
        self, folder: Callable[[str], Path], opened: Callable[[Path], KnownFile | None] = lambda _: None
    ) -> None:
        self.folder = folder
        self.beginnings = Beginnings(opened)
        self.going: dict[Upload, UploadHandler] = {}
        self.named: dict[Upload, Named] = {}  # whose answer may have been lost, or which another window sends as well

    def note(self, upload: Upload, named: Named) -> None:
        """What has its name now; of very many the newest are known."""
        self.named[upload] = named
        while len(self.named) > NAMED_MOST:
            del self.named[next(iter(self.named))]


@stream_request_body
class UploadHandler(SessionCall):
    """One step of an upload."""

    upload: Upload

    def initialize(self, uploads: Uploads) -> None:
        """Take the uploads."""
        self.uploads = uploads
        self._partial: OpenPartial | None = None
        self._held = bytearray()
        self._fault: UploadRefused | None = None
        self._writing = asyncio.Lock()
        self._heard_at = 0.0

    async def prepare(self) -> None:  # type: ignore[override]
        """Ask who it is before anything is read."""
        await super().prepare()
        if self._finished:
            return
        if self.current_user is None:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        await self.begun()

    async def begun(self) -> None:
        """Look at what is asked, and open what is to be written.

        Raises:
            UploadRefused: nothing like that can be uploaded.
        """
        path = PurePosixPath(self.get_query_argument("path", strip=False))
        size = self._number("size", self.get_query_argument("size"))
        folder = await asyncio.to_thread(self.uploads.folder, "" if str(path.parent) == "." else str(path.parent))
        stamp = self.get_query_argument("stamp", "")[:100]
        self.upload = Upload(folder, path.name, size, stamp, self.uploads.beginnings)
        if self.request.method == "PATCH":
            try:
                await self._begin()
            except UploadRefused as refused:
                self._fault = refused  # said when all is read: a browser that still sends hears no answer

    @authenticated
    async def get(self) -> None:
        """How far it is; what has just got its name is all there."""
        is_over = await self._is_over()
        state = {"offset": self.upload.size, "exists": False} if is_over else None
        self.finish(json.dumps(state or await asyncio.to_thread(self.upload.state)))

    @authenticated
    async def patch(self) -> None:
        """All of one request is here."""
        await self._end()
        if self._fault:
            raise self._fault
        self.finish(json.dumps({"offset": self._heard}))

    @authenticated
    async def post(self) -> None:
        """Give it its name; asked again, say so again."""
        if not await self._is_over():
            replace = self.get_query_argument("replace", "") == "1"
            self.uploads.note(self.upload, await asyncio.to_thread(self.upload.finish, replace=replace))
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()

    @authenticated
    async def delete(self) -> None:
        """Forget it."""
        if going := self.uploads.going.get(self.upload):
            await going.let_go()
        await asyncio.to_thread(self.upload.remove)
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()

    async def _is_over(self) -> bool:
        """Whether it has its name, and nobody has changed the file since."""
        named = self.uploads.named.get(self.upload)
        return named is not None and await asyncio.to_thread(self.upload.has_its_name, named)

    async def _begin(self) -> None:
        now = asyncio.get_running_loop().time()
        going = self.uploads.going.get(self.upload)
        if going and now - going._heard_at < SILENT_S:
            message = f"{self.upload.name} is being uploaded in another window."
            raise UploadRefused(HTTPStatus.LOCKED, message)
        self.uploads.going[self.upload] = self
        self._heard_at = now
        if going:
            await going.let_go()
        try:
            offset = self._number(OFFSET, self.request.headers.get(OFFSET, ""))
            self._partial = await asyncio.to_thread(self.upload.opened, offset)
            self.uploads.named.pop(self.upload, None)
        except BaseException:
            self._leave()
            raise

    async def data_received(self, chunk: bytes) -> None:
        """Some of it."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._partial is None or self._fault:
            return  # the answer says why; the rest is read and kept nowhere
        self._held += chunk
        if len(self._held) >= BUFFER:
            await self._write()

    def on_connection_close(self) -> None:
        """The browser went away: what has come is kept."""
        super().on_connection_close()
        if self._partial:
            self._keeping = asyncio.ensure_future(self.let_go())

    async def let_go(self) -> None:
        """Write what has come, and let another request go on."""
        await self._end()
        self._fault = self._fault or UploadRefused(HTTPStatus.LOCKED, "Another window goes on with this upload.")

    async def _write(self) -> None:
        async with self._writing:
            data = self._held
            self._held = bytearray()
            if self._partial and data:
                try:
                    await asyncio.to_thread(self._partial.write, data)
                except UploadRefused as refused:
                    self._fault = refused

    async def _end(self) -> None:
        await self._write()
        async with self._writing:
            partial = self._partial
            self._partial = None
            if partial:
                try:
                    await asyncio.to_thread(partial.close)
                except UploadRefused as refused:
                    self._fault = self._fault or refused
                self._heard = partial.offset
        self._leave()

    def _leave(self) -> None:
        if self.uploads.going.get(self.upload) is self:
            del self.uploads.going[self.upload]

    def _number(self, name: str, text: str) -> int:
        if not (len(text) < 20 and text.isascii() and text.isdecimal() and int(text) <= SIZE_MAX):
            raise UploadRefused(HTTPStatus.BAD_REQUEST, _NO_NUMBER.format(name, text[:30]))
        return int(text)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What is refused, in its own words."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, UploadRefused):
            super().write_error(status_code, **kwargs)
            return
        self.set_status(error.status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"message": error.message, "offset": error.offset}))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A refusal is no fault of the server."""
        if isinstance(value, UploadRefused):
            self.log.info("Upload: %s", value.message)
            return
        super().log_exception(typ, value, tb)
