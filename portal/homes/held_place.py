"""A file's place, held: whoever can change a folder on the way does not choose which of the person's files is written.

Standard library only. In a folder of a project, or of a colleague, others can put a link where a file or a folder was.
So the way is walked folder by folder, each held by its descriptor, and a link is followed that is the person's own or
root's. One of others is not, also in the person's own folders: people move there what lies in such folders. In one that
root alone can change it is: root has put it there, as an administrator's own link to a storage, or one of a restored /.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, BinaryIO

from portal.homes.own_folder import ROOT, is_closed, is_of_others, is_own, is_roots_alone
from portal.homes.readers import EVERYBODY, PASS, Readers
from portal.homes.regular_file import put_back, regular
from portal.homes.sparse import copy_content

THEIRS = "is somebody else's link"
MAY_BE_THEIRS = "is a link in a folder that others can change"
LINKS_MAX = 40  # as many as Linux follows
KEPT_MAX = 256 * 2**20  # bytes of what is overwritten: JupyterLab opens no longer file
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
TO_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe does not keep us
TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkOfOthers(PermissionError):
    """On the way to a file is a link that somebody else may have put there."""


@dataclass(frozen=True)
class FilePlace:
    """Where a file is, or will be.

    Attributes:
        folder: a descriptor of its folder, for ``dir_fd``; it can be neither read nor written by itself.
        name: its name there. It was no link, if links were followed; who opens it says ``O_NOFOLLOW``.
        is_private: nobody but the person and root can change that folder, or exchange one on the way.
        through: the person's own link that the last part was, in a folder where others may have put it in that place.
        is_loose: a link led here that others can take away, and not just a group of the folder's, which is one's own.
        passed: who comes through the part of the way that others can exchange.
    """

    folder: int
    name: str
    is_private: bool
    through: str = ""
    is_loose: bool = False
    passed: Readers = EVERYBODY

    @contextmanager
    def read(self) -> Iterator[int]:
        """A descriptor of the file, to read it, whatever others put there meanwhile; ``OSError`` where it is a link."""
        descriptor = self._opened(TO_READ)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def written(
        self,
        *,
        append: bool = False,
        is_new: bool = False,
        mode: int = 0o666,
        seen: Callable[[int, bool], object] | None = None,
    ) -> Iterator[BinaryIO]:
        """The file, open to be written anew, or further; where that fails, it is as it was before.

        Arguments:
            is_new: nothing may have that name yet.
            mode: of what is made, but for the umask.
            seen: is told its descriptor, and whether it was made now, before a byte of it is changed.

        Raises:
            FileExistsError: something has the name of what is new.
            OSError: it is a link, is no regular file, or cannot be written.
        """
        if self.through:
            raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, self.through)
        descriptor, is_made = self._to_write(TO_WRITE | (os.O_APPEND * append), is_new, mode)
        kept = None
        is_whole = True
        try:
            found = regular(descriptor, self.name)
            if seen:
                seen(descriptor, is_made)
            kept = None if append or is_made else self._kept(descriptor, found.st_size)
            size = found.st_size if append else 0
            try:
                os.ftruncate(descriptor, size)
                with os.fdopen(os.dup(descriptor), "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(descriptor)
            except BaseException:
                is_whole = False
                put_back(descriptor, size, kept)
                is_whole = True
                raise
        finally:
            os.close(descriptor)
            if kept:
                self._forget(kept, is_whole)

    def _forget(self, kept: IO[bytes], is_whole: bool) -> None:
        kept.close()
        with suppress(OSError):
            if is_whole:
                os.unlink(kept.name, dir_fd=self.folder)
            else:  # it is all that there is, and the next one has another name
                os.rename(kept.name, self._apart(), src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def _to_write(self, flags: int, is_new: bool, mode: int) -> tuple[int, bool]:
        if not is_new:
            with suppress(FileNotFoundError):
                return self._opened(flags), False
        try:
            return self._opened(flags | os.O_CREAT | os.O_EXCL, mode), True
        except FileExistsError:  # it came a moment ago, or a file server tells of it only now
            if is_new:
                raise
            return self._opened(flags), False

    def _opened(self, flags: int, mode: int = 0) -> int:
        try:
            return os.open(self.name, flags, mode, dir_fd=self.folder)
        except OSError as error:
            if error.errno == errno.ELOOP:  # it was put there a moment ago
                raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, self.name) from error
            raise

    def _kept(self, written: int, size: int) -> IO[bytes] | None:
        """A copy of what is there, beside it: a full disk is noticed before a byte is lost, and a kill loses none."""
        if size > KEPT_MAX:  # others may have made it so long, and JupyterLab has not opened it
            return None
        name = self._beside()
        with Path(f"/proc/self/fd/{written}").open("rb", buffering=0) as source:  # the very file
            try:
                kept = open(name, "w+b", opener=lambda path, _: os.open(path, NEW, 0o600, dir_fd=self.folder))  # noqa: SIM115
            except PermissionError:
                if self.is_private:  # a file that the person may write, in a folder that she may not
                    return None
                raise
            try:
                copy_content(source.fileno(), kept.fileno(), size)
            except OSError:
                kept.close()
                os.unlink(name, dir_fd=self.folder)
                raise
        return kept

    def _beside(self) -> str:
        """A name that nothing has; in a private folder the one where Jupyter looks for what a kill has left."""
        name = f".~{self.name}"
        if self.is_private:
            with suppress(FileNotFoundError, PermissionError, IsADirectoryError):
                os.unlink(name, dir_fd=self.folder)  # others may have left a link there, before it was private
            if not os.access(name, os.F_OK, dir_fd=self.folder, follow_symlinks=False):
                return name
        return self._apart()

    def _apart(self) -> str:
        return f".~{self.name}.{secrets.token_hex(4)}"


@contextmanager
def held(path: Path, *, follow: bool = True, moved: bool = True) -> Iterator[FilePlace]:
    """The place at a path, links on the way followed.

    Arguments:
        path: absolute; its last part need not be there.
        follow: False where a link at the end is meant itself, as for who renames or deletes it.
        moved: False where no link of the person's own is followed, either, that others may have put where it is.

    Raises:
        LinkOfOthers: a link on the way, or the file itself, is somebody else's.
        OSError: a folder on the way is not there.
    """
    walk = _Walk()
    try:
        yield walk.to(path, follow, moved)
    finally:
        walk.close()


class _Walk:
    def __init__(self) -> None:
        self._here = os.open("/", LOOK | os.O_DIRECTORY)
        self._is_sure = True  # nobody else can have put there what the way led through
        self._through = ""
        self._stays = True  # nobody else can take away what the way led through
        self._passed = EVERYBODY
        self._is_loose = False

    def to(self, path: Path, follow: bool, moved: bool) -> FilePlace:
        todo = _parts(path)
        links = 0
        name = "."
        while todo:
            name = todo.pop(0)
            if todo and self._entered(name):
                continue
            if not todo and not follow:
                if name == "..":  # who deletes it would delete what the way leads through
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
                break
            links += 1
            target = self._target(name, links)
            if target is None:
                if todo:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                break
            if not self._is_sure and not moved:
                raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, name)
            if not todo and not self._is_sure:
                self._through = name
            self._is_loose = self._is_loose or not self._stays
            todo = _parts(target) + todo
        is_private = self._is_sure and is_closed(os.fstat(self._here))
        return FilePlace(self._here, name, is_private, self._through, self._is_loose, self._passed)

    def _entered(self, name: str) -> bool:
        """Go into a folder; False where it is none, or a link."""
        try:
            inner = os.open(name, LOOK | os.O_DIRECTORY, dir_fd=self._here)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                return False
            raise
        self._pass(os.fstat(inner))
        self._go(inner)
        if not self._is_sure:
            self._passed = self._passed.with_(Readers.of(inner, PASS))
        return True

    def _pass(self, found: os.stat_result) -> None:
        """Note whether others may have put there what the way leads through next.

        In a sticky folder, as /tmp is, what is the person's or root's stays; but others move her own link there.
        """
        here = os.fstat(self._here)
        is_moved = stat.S_ISLNK(found.st_mode) and found.st_uid != ROOT
        is_sticky = bool(here.st_mode & stat.S_ISVTX and not is_of_others(here) and not is_of_others(found))
        self._is_sure = self._is_sure and ((is_sticky and not is_moved) or is_closed(here))
        is_groups = here.st_uid == os.geteuid() and not here.st_mode & stat.S_IWOTH  # as with umask 002
        self._stays = self._stays and (is_sticky or is_groups or is_closed(here))

    def _target(self, name: str, links: int) -> Path | None:
        """Where a link leads, from here on; None where there is no link."""
        try:
            found = os.open(name, LOOK, dir_fd=self._here)
        except FileNotFoundError:
            return None
        try:
            kind = os.fstat(found)
            if not stat.S_ISLNK(kind.st_mode):
                return None
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            if is_of_others(kind) and not is_roots_alone(os.fstat(self._here)):
                raise LinkOfOthers(errno.EACCES, THEIRS, name)
            self._pass(kind)
            target = Path(os.readlink("", dir_fd=found))
        finally:
            os.close(found)
        if target.is_absolute():
            self._go(os.open("/", LOOK | os.O_DIRECTORY))
        return target

    def _go(self, descriptor: int) -> None:
        os.close(self._here)
        self._here = descriptor

    def close(self) -> None:
        os.close(self._here)


def _parts(path: PurePath) -> list[str]:
    return [part for part in path.parts if part != path.root]  # ".." stays: it is that of a folder that is held


def is_own_all_the_way(folder: str | Path) -> bool:
    """Whether a folder is the person's own, nobody else can change it, and nobody can put another one in its place."""
    try:
        with held(Path(folder).absolute() / "file", follow=False) as place:
            return place.is_private and is_own(folder)
    except OSError:
        return False
