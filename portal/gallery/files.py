"""Files in folders of people: no link is followed, and a file is written whole or not at all.

A folder is held by its descriptor, so that others who can write beside it (in a project that people share) cannot put a
link in its place between two steps. Nothing but the standard library: a session begins with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from portal.gallery.new_name import give_name
from portal.homes.held_files import mode_of, own_known_file, written_beside
from portal.homes.held_place import held
from portal.homes.own_folder import is_of_others
from portal.notebooks import files

READ_MAX = 64 * 2**20
MOVED = "is not the folder any more that it was: somebody moved it, or put another one in its place"
FOR_OTHERS_TO_READ = 0o755  # as the umask has it, and never for others to write: a lesson runs no program there
A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TO_READ = files.TO_READ | os.O_NOFOLLOW


class HeldFolder:
    """A folder that is held open; the names are relative to it, with ``/`` between folders."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    @classmethod
    @contextlib.contextmanager
    def at(cls, path: Path, *, follow: bool = False) -> Iterator[HeldFolder]:
        """The folder at ``path``, which is no link itself; others' links on the way are not followed.

        Arguments:
            path: absolute.
            follow: True where a link of the person's own may be at the end, too.

        Raises:
            OSError: there is none, or something else lies there.
        """
        is_inside = follow or path.name in ("", "..")
        with held(path / "in" if is_inside else path, follow=False) as place:
            if follow:
                descriptor = os.dup(place.folder)  # who may only make something in it cannot read it
            else:
                descriptor = os.open("." if is_inside else place.name, A_FOLDER, dir_fd=place.folder)
        try:
            yield cls(descriptor, path if path.name != ".." else _path_of(descriptor))
        finally:
            os.close(descriptor)

    @property
    def real(self) -> HeldFolder:
        """The same folder by the path that no link is in."""
        return HeldFolder(self._descriptor, _path_of(self._descriptor))

    @property
    def is_of_person(self) -> bool:
        """Whether it belongs to who runs this."""
        return os.fstat(self._descriptor).st_uid == os.geteuid()

    @contextlib.contextmanager
    def inner(self, name: str) -> Iterator[HeldFolder]:
        """A folder in it, which is no link.

        Raises:
            OSError: there is none, or something else has that name.
        """
        descriptor = os.open(name, A_FOLDER, dir_fd=self._descriptor)
        try:
            yield HeldFolder(descriptor, self.path / name)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def made(self, name: str) -> Iterator[HeldFolder]:
        """A new folder in it.

        Raises:
            OSError: it cannot be made, or what lies there after that is not what was made.
        """
        os.mkdir(name, FOR_OTHERS_TO_READ, dir_fd=self._descriptor)
        with self.inner(name) as folder:
            if not folder.is_of_person or _has_entries(folder._descriptor):
                raise PermissionError(errno.EPERM, MOVED, name)
            yield folder

    @contextlib.contextmanager
    def above(self) -> Iterator[HeldFolder]:
        """The folder that it lies in.

        Raises:
            OSError: it does not lie there by its name any more.
        """
        with HeldFolder.at(self.path.parent, follow=True) as folder:
            if not folder.has(self.path.name, self):
                raise FileNotFoundError(errno.ENOENT, MOVED, self.path.name)
            yield folder

    def has(self, name: str, folder: HeldFolder) -> bool:
        """Whether the folder that has that name is this one."""
        found = self.stat(name)
        return found is not None and os.path.samestat(found, os.fstat(folder._descriptor))

    def give_name(self, old: str, new: str) -> None:
        """Rename a folder in it.

        Raises:
            FileExistsError: something has the name.
        """
        give_name(self._descriptor, old, new)

    def leads_to_others(self, link: str) -> bool:
        """Whether what a path leads to from here is there, and is somebody else's."""
        try:
            return is_of_others(os.stat(link, dir_fd=self._descriptor))
        except OSError:
            return False

    def clear(self, names: Iterable[str]) -> None:
        """Remove files, and the folders that they were in where those are empty then; nothing else of what is in it."""
        places = [PurePosixPath(name) for name in names]
        for place in places:
            self._try_on(str(place), os.unlink)
        folders = {above for place in places for above in place.parents if above.name}
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            self.remove_empty(str(folder))

    def remove_empty(self, name: str) -> None:
        """Remove a folder in which nothing is; where that cannot be done, it stays."""
        self._try_on(name, os.rmdir)

    def _try_on(self, name: str, act: Callable[..., None]) -> None:
        with contextlib.suppress(OSError), self._folder_of(name) as (folder, last):
            act(last, dir_fd=folder)

    def read(self, name: str) -> bytes | None:
        """The whole file, or None when nothing of that name is there.

        Raises:
            OSError: it is no regular file, is too long, or cannot be read.
        """
        try:
            with self._folder_of(name) as (folder, last):
                descriptor = os.open(last, TO_READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        try:
            return files.content_of(descriptor, READ_MAX, name)
        finally:
            os.close(descriptor)

    def write(self, name: str, content: bytes, mode: int | None = None, keep_as: str = "") -> None:
        """Put a whole file there; a full disk leaves what was there, and no half file.

        Arguments:
            mode: ``None`` = that of the person's own file of that name, or as her umask has it.
            keep_as: what is there now gets this name first; ``""`` = it is replaced.
        """
        with self._folder_of(name, make=True) as (folder, last):
            old = own_known_file(folder, last) if mode is None else None
            mode = mode_of(old) if old else mode
            with written_beside(folder, last, content, mode, old) as (beside, _):
                if keep_as:
                    os.rename(last, PurePosixPath(keep_as).name, src_dir_fd=folder, dst_dir_fd=folder)
                os.rename(beside, last, src_dir_fd=folder, dst_dir_fd=folder)

    def free_name(self, name: str) -> str:
        """A name like ``name`` that nothing has: with ``-2``, ``-3``… before its ending."""
        place = PurePosixPath(name)
        number = 2
        found = name
        while self.kind(found) is not None:
            found = str(place.with_name(f"{place.stem}-{number}{place.suffix}"))
            number += 1
        return found

    def kind(self, name: str) -> int | None:
        """The kind of what has that name itself (no link is followed), or None when nothing has."""
        found = self.stat(name)
        return stat.S_IFMT(found.st_mode) if found else None

    def stat(self, name: str) -> os.stat_result | None:
        """What the file system says of it, or None when nothing has that name."""
        try:
            with self._folder_of(name) as (folder, last):
                return os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def set_mode(self, name: str, mode: int) -> None:
        """Change who may read and write a regular file; where homes have no modes, nothing happens."""
        with self._folder_of(name) as (folder, last):
            descriptor = os.open(last, TO_READ, dir_fd=folder)
        try:
            with contextlib.suppress(PermissionError):
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def move(self, old: str, new: str) -> None:
        """Give a file another name, in another folder too, which is made if it is missing."""
        with self._folder_of(old) as (here, last), self._folder_of(new, make=True) as (there, name):
            os.rename(last, name, src_dir_fd=here, dst_dir_fd=there)

    def remove(self, name: str) -> None:
        """Remove a file, and its folder where it was the last in it."""
        with self._folder_of(name) as (folder, last):
            os.unlink(last, dir_fd=folder)
        folders = PurePosixPath(name).parent
        with contextlib.suppress(OSError), self._folder_of(str(folders)) as (folder, last):
            os.rmdir(last, dir_fd=folder)

    @contextlib.contextmanager
    def _folder_of(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that a name is in, and its last part."""
        parts = PurePosixPath(name).parts
        if not parts or {"..", "/"} & set(parts):
            raise OSError(errno.EINVAL, "names nothing in its folder", name)
        *folders, last = parts
        descriptor = os.dup(self._descriptor)
        try:
            for part in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, FOR_OTHERS_TO_READ, dir_fd=descriptor)
                inner = os.open(part, A_FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, last
        finally:
            os.close(descriptor)


def _has_entries(descriptor: int) -> bool:
    with os.scandir(descriptor) as entries:
        return any(entries)


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()  # /proc/PID/fd in proc(5)


def kind(path: Path) -> int | None:
    """The kind of what lies at ``path`` itself (no link is followed), or None when nothing does."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def real_folder(home: Path, place: Path) -> Path | None:
    """``home/place``, made if missing; None when a file or a symbolic link is in the way."""
    folder = home
    for part in place.parts:
        folder /= part
        found = kind(folder)
        if found is None:
            folder.mkdir(0o700, exist_ok=True)
        elif found != stat.S_IFDIR:
            return None
    return folder
