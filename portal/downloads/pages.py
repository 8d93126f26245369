"""A folder as an archive, for the Lab's menu: a plain address of the session's server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from portal.downloads.archive import FOLDER_FLAGS, FolderArchive
from portal.homes.held_place import LinkOfOthers, held
from portal.session_pages.calls import SessionCall

AT_ONCE = 3  # of one session
BUSY = f"{AT_ONCE} archives of this session are being downloaded already. Wait for one of them, or cancel it."
_ELSEWHERE = "{} is not one of your folders. Choose a folder below your home or the site's storage."
_OF_OTHERS = (
    "{} is, or lies behind, a link that somebody else may have put there. Open the folder that it leads to, and choose "
    "that one."
)
_NO_FOLDER = "There is no folder {} that you may read. Load the list of files again."


class Downloads:
    """Where folders may lie, and how many are sent.

    Arguments:
        home: where the file browser begins.
        storage: the site's storage folders.
    """

    def __init__(self, home: Path, storage: tuple[Path, ...] = ()) -> None:
        self._home = home
        self._roots = (home, *storage)
        self.going = 0

    def folder(self, path: str) -> Path:
        """The real folder behind a path of the file browser.

        Raises:
            HTTPError: 403, it lies elsewhere; 404, there is none that can be read.
        """
        try:
            real = (self._home / path.strip("/")).resolve()
            is_folder = real.is_dir()
        except (OSError, RuntimeError, ValueError) as error:
            raise HTTPError(404, _NO_FOLDER.format(path[:200])) from error
        if not self._has(real):
            raise HTTPError(403, _ELSEWHERE.format(path[:200]))
        if not is_folder:
            raise HTTPError(404, _NO_FOLDER.format(path[:200]))
        return real

    @contextmanager
    def opened(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the same folder, and its name, on a way that no link of somebody else's leads.

        Raises:
            HTTPError: as :meth:`folder`; and 403 for such a way.
        """
        self.folder(path)
        try:
            with held(self._home / path.strip("/"), moved=False) as place:
                descriptor = os.open(place.name, FOLDER_FLAGS, dir_fd=place.folder)
        except LinkOfOthers as error:
            raise HTTPError(403, _OF_OTHERS.format(path[:200])) from error
        except OSError as error:
            raise HTTPError(404, _NO_FOLDER.format(path[:200])) from error
        try:
            real = Path(f"/proc/self/fd/{descriptor}").readlink()
            if not self._has(real):  # it was moved, or exchanged, meanwhile
                raise HTTPError(403, _ELSEWHERE.format(path[:200]))
            yield descriptor, real.name or "files"
        finally:
            os.close(descriptor)

    def _has(self, real: Path) -> bool:
        return any(real.is_relative_to(root.resolve()) for root in self._roots)

    def shown(self, path: str) -> Path:
        """The same folder by the way that the file browser shows: who writes there sees whose links are on it.

        Raises:
            HTTPError: as :meth:`folder`; and 403 for a way that goes back.
        """
        self.folder(path)
        if ".." in path.split("/"):
            raise HTTPError(403, _ELSEWHERE.format(path[:200]))
        return self._home / path.strip("/")


class ArchiveHandler(SessionCall):
    """``GET dsportal/api/archive?path=FOLDER``: the folder as ``FOLDER.tar.gz``, made while it is sent."""

    def initialize(self, downloads: Downloads) -> None:
        """Take the folders."""
        self.downloads = downloads

    @authenticated
    async def get(self) -> None:
        """Send it; with ``look`` only say that it could be, so that a page can tell why not."""
        opened = self.downloads.opened(self.get_query_argument("path", "", strip=False))
        with ExitStack() as stack:
            await self._answer(*await asyncio.to_thread(stack.enter_context, opened))

    async def _answer(self, root: int, name: str) -> None:
        if self.downloads.going >= AT_ONCE:
            raise HTTPError(429, BUSY)
        file = f"{name}.tar.gz"
        if self.get_query_argument("look", ""):
            self.finish(json.dumps({"name": file}))
            return
        self.set_header("Content-Type", "application/gzip")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(file, errors='replace')}")
        self.set_header("Cache-Control", "no-store")
        self.downloads.going += 1
        try:
            await self._send(root, name)
        finally:
            self.downloads.going -= 1

    async def _send(self, root: int, name: str) -> None:
        """Read in a thread, which waits for the browser; an archive that is not whole ends with its connection."""
        loop = asyncio.get_running_loop()

        async def hand_on(data: bytes) -> None:
            self.write(data)
            await self.flush()

        def send(data: bytes) -> None:
            asyncio.run_coroutine_threadsafe(hand_on(data), loop).result()

        is_whole = False
        try:
            await asyncio.to_thread(FolderArchive(root, name).send, send)
            is_whole = True
        except StreamClosedError:
            return  # the browser went away
        except OSError as error:
            self.log.warning("The archive of %s is not whole: %s", name, error)
            return
        finally:
            if not is_whole and self.request.connection:
                self.request.connection.stream.close()  # type: ignore[attr-defined]
        self.finish()
