"""Names of new files and folders: what is asked for at the same time gets a name each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError
from traitlets import Instance

TRIES = 100  # names that somebody else takes meanwhile
IS_NEW: ContextVar[bool] = ContextVar("IS_NEW", default=False)  # what is saved: nothing may have its name yet


class NameTaken(HTTPError):
    """Something has the name of what is new: it was put there after the name had been looked for."""

    def __init__(self, name: str) -> None:
        super().__init__(
            HTTPStatus.CONFLICT, f"Somebody made {name} at the same time. Try again, or in another folder."
        )


async def under_new_name(act: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Make what gets a name that nothing has, by an act that looks for one, again where somebody else was faster.

    Raises:
        NameTaken: that went on and on.
    """
    before = IS_NEW.set(True)
    try:
        for _ in range(TRIES - 1):
            try:
                return await act()
            except NameTaken:
                continue
        return await act()
    finally:
        IS_NEW.reset(before)


class OneNameEach(AsyncLargeFileManager):
    """Jupyter's files; a new one has its name before the next looks for its own.

    JupyterLab makes a folder that is dropped on it as an untitled one, and all that are dropped together at once: two
    of them got one name, and what was in one of them was not uploaded (jupyterlab/jupyterlab#17805).
    """

    _naming = Instance(asyncio.Lock, args=())

    async def new_untitled(self, path: str = "", type: str = "", ext: str = "") -> dict[str, Any]:
        """A new file or folder, under a name that nothing has."""
        look = super().new_untitled
        async with self._naming:
            return await under_new_name(lambda: look(path, type, ext))  # type: ignore[no-untyped-call]
