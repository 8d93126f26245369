"""The checkpoints that JupyterLab keeps of files: in no place that others can change, and of the file that is meant.

A checkpoint has the name of its file. Who may put a link into the way of that file would choose otherwise which of the
person's checkpoints is replaced, removed, or put into a file that others read. So would who may put a folder of theirs
in the place of a private one: the files there have checkpoints of their own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from anyio.to_thread import run_sync
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from tornado.web import HTTPError

from portal.downloads.read_files import OPEN, Bounded
from portal.homes.held_place import MAY_BE_THEIRS, NEW, FilePlace, LinkOfOthers, held, is_own_all_the_way
from portal.homes.own_folder import is_of_others, is_own_file, make_own
from portal.homes.readers import ACCESS_LIST, READ, WRITE, KnownFile, Readers, closed_as, rights_of
from portal.homes.regular_file import open_regular, without_waiting
from portal.homes.sparse import copy_content

FOLDER = ".local/share/dsportal/checkpoints"
CHECKPOINT = "checkpoint"  # Jupyter keeps one of each file


@dataclass(frozen=True)
class FoundFile:
    """A file that has a checkpoint, or may get one.

    Attributes:
        path: without links.
        owner: the UID of somebody else, where its folder belongs to one.
        folder: the number of its folder (inode), where others can put another one in that place.
    """

    path: Path
    owner: int | None = None
    folder: int | None = None


# What this request has renamed or deleted, by the path that it had.
DONE: ContextVar[Mapping[Path, FoundFile]] = ContextVar("DONE", default=MappingProxyType({}))


def note_done(places: Mapping[Path, FilePlace]) -> None:
    """Have the checkpoints of what is renamed or deleted now be those of what is held, whatever takes its place."""
    DONE.set({path: _named(place) for path, place in places.items()})


class OwnCheckpoints(AsyncFileCheckpoints):
    """Jupyter's checkpoints, through no link of others and in no place that others can change."""

    async def restore_checkpoint(self, contents_mgr: Any, checkpoint_id: str, path: str) -> None:
        """Put a file back, by the way in which it is saved: the very file that the checkpoint is of."""
        os_path: str = contents_mgr._get_os_path(path.strip("/"))
        with (
            contents_mgr.saved_at(os_path) as save,
            open_regular(self._place_of(_named(save.place), checkpoint_id)) as kept,
        ):
            if is_of_others(os.fstat(kept.fileno())):
                self.no_such_checkpoint(path, checkpoint_id)  # type: ignore[no-untyped-call]
            save.before = save.before or KnownFile(Readers.of(kept.fileno()))
            with contents_mgr.written_at(save, text=False) as file:
                await run_sync(shutil.copyfileobj, kept, file)

    async def create_checkpoint(self, contents_mgr: Any, path: str) -> dict[str, Any]:
        """Keep a file as it is now, under the name of what was really read; none that JupyterLab does not open.

        Of what lies behind a link of others there is none: it would replace that of the file that they have chosen.
        """
        os_path: str = contents_mgr._get_os_path(path.strip("/"))
        with contents_mgr.placed(os_path) as held_place, _opened(held_place, os_path) as file:
            size = Bounded(file, path).length()
            place = self._place_of(_named(held_place), CHECKPOINT)
            await run_sync(_copied, file.fileno(), place, size)
        model: dict[str, Any] = await self.checkpoint_model(CHECKPOINT, str(place))  # type: ignore[no-untyped-call]
        return model

    async def rename_all_checkpoints(self, old_path: str, new_path: str) -> None:
        """Have a checkpoint go with its file; of a link that was renamed it is that of the link's own name."""
        old, new = (self._place_of(self._done_at(path), CHECKPOINT) for path in (old_path, new_path))
        if old.is_file():
            with self.perm_to_403():
                await run_sync(_moved, old, new)

    async def delete_all_checkpoints(self, path: str) -> None:
        """Remove the checkpoint of what was deleted; of a link it is that of the link's own name."""
        place = self._place_of(self._done_at(path), CHECKPOINT)
        if place.is_file():
            with self.perm_to_403():
                await run_sync(place.unlink)

    def checkpoint_path(self, checkpoint_id: str, path: str) -> str:
        """The file of a checkpoint: of what a link leads to, for who may exchange the link gets nothing of that."""
        place = self._path_of(path)
        return str(self._place_of(_found_at(place, follow=True) or self._file_at(place), checkpoint_id))

    def _done_at(self, path: str) -> FoundFile:
        """What was renamed or deleted, or what has its new name: a link itself, where it was one."""
        place = self._path_of(path)
        return DONE.get().get(place) or self._file_at(place)

    def _path_of(self, path: str) -> Path:
        os_path: Callable[..., str] = self._get_os_path
        return Path(os_path(path=path.strip("/")))

    def _file_at(self, place: Path) -> FoundFile:
        """Through no link that may have been put there since; with one on the way the path as it stands."""
        return _found_at(place, follow=False) or FoundFile(place)

    def _place_of(self, file: FoundFile, checkpoint_id: str) -> Path:
        name = f"{file.path.stem}-{checkpoint_id}{file.path.suffix}"
        folder = file.path.parent
        beside = folder / self.checkpoint_dir
        which = b"".join(b"\0%d" % number for number in (file.owner, file.folder) if number is not None)
        apart = Path.home() / FOLDER / hashlib.sha256(os.fsencode(folder) + which).hexdigest()[:32]
        with self.perm_to_403():
            if is_own_all_the_way(folder) and os.access(folder, os.W_OK) and _is_safe(beside, name):
                return beside / name
            make_own(apart)
        return apart / name


def _is_safe(folder: Path, name: str) -> bool:
    """Whether a folder beside a file, which is made here, is the person's alone, and nothing else has that name there.

    Others may have made it, or left something in it, while they could change the folder in which it is.
    """
    with suppress(FileExistsError):
        folder.mkdir(0o700)  # a default access list of the folder above opens it no further (acl(5))
    there = folder / name
    is_free = is_own_file(there) or not os.path.lexists(there)
    return is_free and not folder.is_symlink() and is_own_all_the_way(folder)


@contextmanager
def _made_anew(path: Path) -> Iterator[int]:
    """A new file that takes the place of what has that name when it is whole; two tabs may make one at a time.

    No link is followed that others put there, and no pipe waited for: they can where they may change the home.
    """
    with held(path, follow=False) as place:
        beside = f".{secrets.token_hex(12)}"
        descriptor = os.open(beside, NEW, 0o600, dir_fd=place.folder)
        try:
            yield descriptor
            os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=place.folder)
            raise
        finally:
            os.close(descriptor)


def _copied(file: int, path: Path, size: int) -> None:
    """Make a checkpoint of so many bytes of a file, as private as that: by its group and its access list, too."""
    found = os.fstat(file)
    with _made_anew(path) as kept:
        with suppress(OSError):  # the person is not of that group
            os.fchown(kept, -1, found.st_gid)
        with suppress(OSError):  # it has none
            os.setxattr(kept, ACCESS_LIST, os.getxattr(file, ACCESS_LIST))
        os.fchmod(kept, closed_as(rights_of(file, READ, WRITE), kept, stat.S_IMODE(found.st_mode) & 0o777))
        copy_content(file, kept, size)
        os.utime(kept, ns=(found.st_atime_ns, found.st_mtime_ns))


def _moved(old: Path, new: Path) -> None:
    """Move a checkpoint, also to another file system."""
    try:
        old.replace(new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with open_regular(old) as kept:
            _copied(kept.fileno(), new, os.fstat(kept.fileno()).st_size)
        old.unlink()


def _found_at(path: Path, *, follow: bool) -> FoundFile | None:
    """Which file is meant, by the path that no link is in; None where others' links are on the way.

    Arguments:
        follow: False where a link itself is meant, and one of the person's own on the way is as one of others.
    """
    with suppress(OSError), held(path, follow=follow, moved=follow) as found:
        return _named(found)
    return None


@contextmanager
def _opened(place: FilePlace, os_path: str) -> Iterator[BinaryIO]:
    """A regular file, to be read, whatever takes its place meanwhile."""

    def opener(name: str, flags: int) -> int:
        return without_waiting(name, flags | os.O_NOFOLLOW, folder=place.folder)

    try:
        file = open(place.name, "rb", opener=opener)  # noqa: SIM115  as Jupyter does
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise HTTPError(400, f"{os_path} {error.strerror}") from error
        if error.errno == errno.ELOOP:  # it was put there a moment ago
            raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, place.name) from error
        raise
    with file:
        yield file


def _named(place: FilePlace) -> FoundFile:
    """What is held, by its path (proc(5), /proc/pid/fd)."""
    folder = os.fstat(place.folder)
    path = Path(OPEN.format(place.folder)).readlink() / place.name
    number = None if place.is_private else folder.st_ino
    return FoundFile(path, folder.st_uid if is_of_others(folder) else None, number)
