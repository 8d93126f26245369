"""The files that JupyterLab opens, saves and keeps checkpoints of.

Jupyter writes through links, and through a copy of a known name beside the file: in a folder that others can change
they would choose which of the person's files is overwritten. Here nothing goes through a link that others made.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from anyio.to_thread import run_sync
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from portal.homes.held_place import LinkOfOthers, as_text, checked, held
from portal.homes.own_folder import is_own

FOLDER = ".local/share/dsportal/checkpoints"
THEIR_LINK = "{} is a link that somebody else made, in a folder that others can change. Open what it leads to itself."


class OwnFiles(AsyncLargeFileManager):
    """Jupyter's files; what is written goes through no link that others made, whenever they make it."""

    @contextmanager
    def atomic_writing(self, os_path: str, *args: Any, **kwargs: Any) -> Iterator[IO[Any]]:
        """A file that is as before where writing it fails.

        Arguments:
            args, kwargs: as Jupyter gives them: ``text``, ``encoding``.
        """
        with self.perm_to_403(os_path), self._refusing(), held(Path(os_path)) as place:
            if place.is_private:
                with super().atomic_writing(os_path, *args, **kwargs) as file:
                    yield file
                return
            with place.written() as raw:
                if not kwargs.get("text", True):
                    yield raw
                    return
                text = as_text(raw, kwargs.get("encoding", "utf-8"))
                try:
                    yield text
                finally:
                    text.detach()

    async def _save_large_file(self, os_path: str, content: str, format: str) -> None:
        """Write one more part of a file that is uploaded in parts."""
        try:
            data = content.encode() if format == "text" else base64.b64decode(content)
        except ValueError as error:
            raise HTTPError(400, f"Encoding error saving {os_path}: {error}") from error
        with (
            self.perm_to_403(os_path),
            self._refusing(),
            held(Path(os_path)) as place,
            place.written(append=True) as file,
        ):
            await run_sync(file.write, data)

    async def _save_directory(self, os_path: str, model: Any, path: str = "") -> None:
        self._check(Path(os_path))
        await super()._save_directory(os_path, model, path)  # type: ignore[no-untyped-call]

    async def rename_file(self, old_path: str, new_path: str) -> None:
        """Rename a file."""
        self._check(self._folder_of(old_path))
        self._check(self._folder_of(new_path))
        await super().rename_file(old_path, new_path)  # type: ignore[no-untyped-call]

    async def delete_file(self, path: str) -> None:
        """Delete a file."""
        self._check(self._folder_of(path))
        await super().delete_file(path)  # type: ignore[no-untyped-call]

    def _folder_of(self, path: str) -> Path:
        """Where a file is; a link itself may go, wherever it leads."""
        os_path: Callable[..., str] = self._get_os_path
        return Path(os_path(path.strip("/"))).parent

    def _check(self, place: Path) -> None:
        with self.perm_to_403(str(place)), self._refusing():
            checked(place)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except LinkOfOthers as error:
            raise HTTPError(403, THEIR_LINK.format(error.filename)) from error


class OwnCheckpoints(AsyncFileCheckpoints):
    """Jupyter's checkpoints, through no link and in no place that others can change."""

    async def restore_checkpoint(self, contents_mgr: Any, checkpoint_id: str, path: str) -> None:
        """Put a file back, by the way in which it is saved."""
        with (
            open(self.checkpoint_path(checkpoint_id, path), "rb") as kept,  # noqa: ASYNC230, PTH123  as Jupyter does
            contents_mgr.atomic_writing(contents_mgr._get_os_path(path.strip("/")), text=False) as file,
        ):
            await run_sync(shutil.copyfileobj, kept, file)

    def checkpoint_path(self, checkpoint_id: str, path: str) -> str:
        """The file of a checkpoint."""
        os_path: Callable[..., str] = self._get_os_path
        usual: Callable[..., str] = super().checkpoint_path
        file = Path(os_path(path=path.strip("/")))
        beside = file.parent / self.checkpoint_dir
        name = f"{file.stem}-{checkpoint_id}{file.suffix}"
        is_link = beside.is_symlink() or (beside / name).is_symlink()
        if is_own(file.parent) and os.access(file.parent, os.W_OK) and not is_link:
            return usual(checkpoint_id, path)
        folder = Path.home() / FOLDER / hashlib.sha256(os.fsencode(file.parent)).hexdigest()[:32]
        with self.perm_to_403():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / name)
