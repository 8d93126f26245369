"""Folders that JupyterLab lists: all of their names are in this session's memory at once, and others make them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from jupyter_core.paths import is_file_hidden
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

LISTED_MAX = 100_000  # names
LISTED: ContextVar[bool] = ContextVar("LISTED", default=False)  # what is asked of a file is asked of very many
LISTED_BYTES = 2**24  # of JSON, with the way to each: a session has it four times before it is sent
TOO_MANY = (
    "The folder {} holds more than {} names, or {} MB of them with the way to each, and JupyterLab has all of them in "
    "this session's memory. Look into it in a terminal or a notebook, or move what you need into a folder of its own."
)

UNREADABLE = "The folder {} may not be read: its storage refuses it, whatever its permissions say."


@contextmanager
def _held_folder(os_path: str) -> Iterator[int]:
    """A folder that is open: what is found in it has its name alone, and not the way to it."""
    folder = os.open(os_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


class ListedFolders(AsyncLargeFileManager):
    """Jupyter's files, as far as folders are listed."""

    async def _dir_model(self, path: str, content: bool = True) -> dict[str, Any]:
        """A folder, and what is in it where that is asked for; what goes meanwhile is left out.

        Raises:
            HTTPError: 404, it is none, or hidden; 403, the storage lets nobody in whom its mode would let in; 413, it
                holds too much.
        """
        model: dict[str, Any] = await super()._dir_model(path, content=False)  # type: ignore[no-untyped-call]
        if content:
            place = self._get_os_path(path)  # type: ignore[no-untyped-call]
            found = await run_sync(self._listed, place, path)
            before = LISTED.set(True)
            try:
                shown = [await self._child(f"{path}/{name}") for name in found]
            finally:
                LISTED.reset(before)
            model |= {"content": [child for child in shown if child], "format": "json"}
        return model

    def _listed(self, os_path: str, path: str) -> list[str]:
        found: list[os.DirEntry[str]] = []
        size = 0
        try:
            with _held_folder(os_path) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    size += len(json.dumps(f"{path}/{entry.name}")) + len(json.dumps(entry.name))
                    if len(found) == LISTED_MAX or size > LISTED_BYTES:
                        told = (Path(os_path).name, f"{LISTED_MAX:,}", LISTED_BYTES >> 20)
                        raise HTTPError(413, TOO_MANY.format(*told))
                    found.append(entry)
                return [entry.name for entry in found if self._is_listed(os_path, entry)]
        except (FileNotFoundError, NotADirectoryError):
            raise HTTPError(404, f"directory does not exist: {os_path!r}") from None
        except PermissionError:
            raise HTTPError(403, UNREADABLE.format(Path(os_path).name)) from None

    def _is_listed(self, os_path: str, entry: os.DirEntry[str]) -> bool:
        """Whether it is a file, a folder, or a link to one, which may be looked at and is not hidden."""
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            kind = stat.S_IFMT(status.st_mode)
            if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) and self.should_list(entry.name):  # type: ignore[no-untyped-call]
                return self.allow_hidden or not is_file_hidden(f"{os_path}/{entry.name}", stat_res=status)
        return False

    async def _child(self, path: str) -> dict[str, Any] | None:
        """What is said of one; None, it is gone, or a link that leads nowhere or may not be followed."""
        await asyncio.sleep(0)  # each is short, and all of them are not: others are answered meanwhile
        try:
            child: dict[str, Any] = await self.get(path=path, content=False)  # type: ignore[no-untyped-call]
        except OSError:
            return None
        except HTTPError as error:
            if error.status_code == 404:
                return None
            raise
        return child
