"""The files that JupyterLab opens, saves and keeps checkpoints of.

Jupyter writes through links, and through a copy of a known name beside the file: in a folder that others can change
they would choose which of the person's files is overwritten. Here nothing goes through a link that others made.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from anyio.to_thread import run_sync
from jupyter_core.paths import is_hidden
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from tornado.web import HTTPError
from traitlets import default

from portal.downloads.files import FileHandler
from portal.downloads.folder_copy import copy_folder
from portal.downloads.read_files import COPIED, OPEN, Bounded, ReadFiles
from portal.homes.held_files import delete, has_home_trash, look, move, trash
from portal.homes.held_place import LinkOfOthers, as_text, held, is_own_all_the_way
from portal.homes.own_folder import make_own
from portal.homes.regular_file import without_waiting
from portal.homes.sparse import copy_content
from portal.uploads.untitled import OneNameEach

FOLDER = ".local/share/dsportal/checkpoints"
THEIR_LINK = (
    "{} is a link that somebody else made, or may have put there, in a folder that others can change. "
    "Open what it leads to itself."
)
FAR_AWAY = (
    "{} and {} are on different file systems, and others can change one of the two folders. "
    "Copy it, then delete it where it was."
)
NAMES_MAX = 5
CHECKPOINT = "checkpoint"  # Jupyter keeps one of each file


class OwnFiles(OneNameEach, ReadFiles):  # type: ignore[misc]  # as Jupyter's own do
    """Jupyter's files; what is written goes through no link that others made, whenever they make it."""

    @default("files_handler_class")
    def _files_handler(self) -> type[FileHandler]:
        return FileHandler

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
        with self.perm_to_403(os_path), self._refusing(), held(Path(os_path)) as place:
            if place.is_private:
                return await super()._save_directory(os_path, model, path)  # type: ignore[no-any-return, no-untyped-call]
            self._refuse_hidden("create", os_path)
            try:
                os.mkdir(place.name, dir_fd=place.folder)
            except FileExistsError:
                if not stat.S_ISDIR(look(place).st_mode):
                    raise HTTPError(400, f"Not a directory: {path}") from None

    async def rename_file(self, old_path: str, new_path: str) -> None:
        """Rename a file."""
        old = self._place_of(old_path)
        new = self._place_of(new_path)
        if old == new:
            return
        with self._answering(old_path), held(old, follow=False) as source, held(new, follow=False) as target:
            if source.is_private and target.is_private:
                await super().rename_file(old_path, new_path)  # type: ignore[no-untyped-call]
                return
            self._refuse_hidden("rename", str(old), str(new))
            try:
                await run_sync(move, source, target)
            except FileExistsError as error:
                raise HTTPError(409, f"File already exists: {new_path}") from error
            except OSError as error:
                if error.errno == errno.EXDEV:
                    raise HTTPError(400, FAR_AWAY.format(old_path, new_path)) from error
                raise

    async def delete_file(self, path: str) -> None:
        """Delete a file: into the trash of the home, if it is on the same file system; else for good."""
        os_path = self._place_of(path)
        with self._answering(path), held(os_path, follow=False) as place:
            is_trashed = self.delete_to_trash and has_home_trash(place)
            if place.is_private and is_trashed == self.delete_to_trash:
                await super().delete_file(path)  # type: ignore[no-untyped-call]
                return
            self._refuse_hidden("delete", str(os_path))
            if is_trashed:
                try:
                    await run_sync(trash, place, os_path)
                    return
                except OSError as error:
                    if error.errno != errno.EXDEV:  # one file system, mounted twice
                        raise
            if not (self.delete_to_trash or self.always_delete_dir) and stat.S_ISDIR(look(place).st_mode):
                checkpoints = getattr(self.checkpoints, "checkpoint_dir", "")
                if any(entry.name != checkpoints for entry in os_path.iterdir()):
                    raise HTTPError(400, f"Directory {path} not empty")
            await run_sync(delete, place)

    async def copy(self, from_path: str, to_path: str | None = None) -> dict[str, Any]:
        """Copy a file or a folder; not what a link leads to that somebody else made, or may have put there."""
        os_path = self._place_of(from_path)
        with self._answering(from_path), held(os_path, moved=False) as source, source.read() as descriptor:
            before = COPIED.set({os_path: descriptor})
            try:
                copied: dict[str, Any] = await super().copy(from_path, to_path)  # type: ignore[no-untyped-call]
            finally:
                COPIED.reset(before)
        return copied

    async def _copy_dir(self, from_path: str, to_path_original: str, to_name: str, to_path: str) -> dict[str, Any]:
        source = COPIED.get()[self._place_of(from_path)]
        try:
            with self._refusing(), held(self._place_of(to_path), follow=False) as place:
                await run_sync(copy_folder, source, place)
        except shutil.Error as error:
            names = ", ".join(error.args[0][:NAMES_MAX])
            raise HTTPError(400, f"The copy '{to_path}' is there, without: {names}") from error
        except OSError as error:
            raise HTTPError(400, f"Can't copy '{from_path}' to '{to_path}': {error.strerror}") from error
        model: dict[str, Any] = await self.get(to_path, content=False)
        return model

    def _place_of(self, path: str) -> Path:
        os_path: Callable[..., str] = self._get_os_path
        return Path(os_path(path.strip("/")))

    def _refuse_hidden(self, act: str, *os_paths: str) -> None:
        if not self.allow_hidden and any(is_hidden(os_path, self.root_dir) for os_path in os_paths):
            raise HTTPError(400, f"Cannot {act} hidden file or directory {os_paths[0]!r}")

    @contextmanager
    def _answering(self, path: str) -> Iterator[None]:
        """JupyterLab's own answers to what goes wrong."""
        try:
            with self.perm_to_403(str(self._place_of(path))), self._refusing():
                yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise HTTPError(404, f"File or directory does not exist: {path}") from error
        except OSError as error:
            raise HTTPError(400, f"{path}: {error.strerror}") from error

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

    async def create_checkpoint(self, contents_mgr: Any, path: str) -> dict[str, Any]:
        """Keep a file as it is now, under the name of what was really read; none that JupyterLab does not open."""
        with self.perm_to_403(), _opened(contents_mgr._get_os_path(path.strip("/"))) as file:
            size = Bounded(file, path).length()
            place = self._place_of(_really(file), CHECKPOINT)
            found = os.fstat(file.fileno())
            with open(place, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as kept:  # noqa: ASYNC230
                os.fchmod(kept.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
                await run_sync(copy_content, file.fileno(), kept.fileno(), size)
            os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
        model: dict[str, Any] = await self.checkpoint_model(CHECKPOINT, str(place))  # type: ignore[no-untyped-call]
        return model

    def checkpoint_path(self, checkpoint_id: str, path: str) -> str:
        """The file of a checkpoint: of what a link leads to, for who may exchange the link gets nothing of that."""
        os_path: Callable[..., str] = self._get_os_path
        return str(self._place_of(Path(os.path.realpath(os_path(path=path.strip("/")))), checkpoint_id))

    def _place_of(self, file: Path, checkpoint_id: str) -> Path:
        name = f"{file.stem}-{checkpoint_id}{file.suffix}"
        beside = file.parent / self.checkpoint_dir
        is_link = beside.is_symlink() or (beside / name).is_symlink()
        is_beside = is_own_all_the_way(file.parent) and os.access(file.parent, os.W_OK) and not is_link
        apart = Path.home() / FOLDER / hashlib.sha256(os.fsencode(file.parent)).hexdigest()[:32]
        folder = beside if is_beside else apart
        with self.perm_to_403():
            make_own(folder, 0o777 if is_beside else 0o700)
        return folder / name


@contextmanager
def _opened(os_path: str) -> Iterator[BinaryIO]:
    """A regular file, to be read, whatever takes its place meanwhile."""
    try:
        file = open(os_path, "rb", opener=without_waiting)  # noqa: SIM115  as Jupyter does
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise HTTPError(400, f"{os_path} {error.strerror}") from error
        raise
    with file:
        yield file


def _really(file: BinaryIO) -> Path:
    """The path of what is open (proc(5), /proc/pid/fd)."""
    return Path(OPEN.format(file.fileno())).readlink()
