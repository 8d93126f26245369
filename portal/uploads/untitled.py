"""Names of new files and folders: what is asked for at the same time gets a name each."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets import Instance


class OneNameEach(AsyncLargeFileManager):
    """Jupyter's files; a new one has its name before the next looks for its own.

    JupyterLab makes a folder that is dropped on it as an untitled one, and all that are dropped together at once: two
    of them got one name, and what was in one of them was not uploaded (jupyterlab/jupyterlab#17805).
    """

    _naming = Instance(asyncio.Lock, args=())

    async def new_untitled(self, path: str = "", type: str = "", ext: str = "") -> dict[str, Any]:
        """A new file or folder, under a name that nothing has."""
        async with self._naming:
            made: dict[str, Any] = await super().new_untitled(path, type, ext)  # type: ignore[no-untyped-call]
        return made
