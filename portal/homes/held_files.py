"""Put, move, delete and copy files in places that are held, where others can exchange a folder at any moment.

Standard library only. Everything is done by the descriptor of a folder and a name in it, and no link is followed: a
path that was looked at before may lead elsewhere by now.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePath
from urllib.parse import quote

from portal.homes.held_place import LOOK, NEW, THEIRS, TO_READ, TO_WRITE, FilePlace, LinkOfOthers, held, is_of_others
from portal.homes.own_folder import make_own
from portal.homes.sparse import copy_content

EXCHANGED = "somebody exchanged it while it was made"
DEEPEST = 100  # folders in one another that are copied: each is held open, and each is a step of Python's stack
TOO_DEEP = f"deeper than {DEEPEST} folders"
NOT_BY_PYTHON = "has too many folders in one another: delete it in a terminal (rm -rf)"
ACCESS_LISTS = "system."  # extended attributes that say who may do what (xattr(7))
POSIX_LIST = "system.posix_acl_access"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def look(place: FilePlace) -> os.stat_result:
    """What lies at a place, a link itself.

    Raises:
        FileNotFoundError: nothing lies there.
    """
    return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)


def put(place: FilePlace, content: bytes) -> None:
    """Put a whole file there, in one step: whoever is ended on the way leaves what was there.

    A link that others put there meanwhile is replaced, and not followed. The mode is that of the person's own file of
    that name, or as her umask has it.

    Raises:
        LinkOfOthers: it is a link of the person's own, in a folder that others can change.
        OSError: it cannot be written.
    """
    if place.through:
        raise LinkOfOthers(errno.EACCES, THEIRS, place.through)
    there = _own(place)
    if there and stat.S_ISCHR(there.st_mode) and place.is_private:  # /dev/null
        with open(place.name, "wb", opener=lambda name, _: os.open(name, TO_WRITE, dir_fd=place.folder)) as device:
            device.write(content)
        return
    mode = stat.S_IMODE(there.st_mode) & 0o777 if there and stat.S_ISREG(there.st_mode) else None
    with written_beside(place.folder, place.name, content, mode) as beside:
        os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


@contextmanager
def written_beside(folder: int, name: str, content: bytes, mode: int | None) -> Iterator[str]:
    """A whole new file beside what has that name, to be renamed; it is taken away where that fails.

    Arguments:
        folder: a descriptor.
        mode: ``None`` = as the person's umask has it.
    """
    beside = f".{name}.{secrets.token_hex(6)}"
    descriptor = os.open(beside, NEW, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode is not None:
                with suppress(PermissionError):  # homes on CIFS have no modes
                    os.fchmod(descriptor, mode)
        yield beside
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _own(place: FilePlace) -> os.stat_result | None:
    """What lies there already, unless it is somebody else's."""
    try:
        there = look(place)
    except FileNotFoundError:
        return None
    return None if is_of_others(there) else there


def move(source: FilePlace, target: FilePlace) -> None:
    """Rename a file or a folder.

    Raises:
        FileExistsError: something else lies at the target.
        OSError: with ``EXDEV``: the places are on different file systems.
    """
    there = look(source)
    with suppress(FileNotFoundError):
        if not os.path.samestat(there, look(target)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name)
    os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)


def delete(place: FilePlace) -> None:
    """Delete a file, or a folder with what is in it, for good.

    Raises:
        OSError: with ``EBUSY``: another file system is mounted there; with ``ENAMETOOLONG``: it is too deep.
    """
    found = look(place)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(place.name, dir_fd=place.folder)
        return
    if found.st_dev != os.fstat(place.folder).st_dev:  # the folder would stay, and all that is in it would be gone
        raise OSError(errno.EBUSY, "another file system is mounted there", place.name)
    try:
        shutil.rmtree(place.name, dir_fd=place.folder)
    except RecursionError:  # until Python 3.13
        raise OSError(errno.ENAMETOOLONG, NOT_BY_PYTHON, place.name) from None


def has_home_trash(place: FilePlace) -> bool:
    """Whether what lies at a place goes into the trash of the home.

    A trash elsewhere is at the top of its file system, where others can make one for the person and choose where it
    leads (freedesktop.org, Trash specification 1.0: ``$topdir/.Trash-$uid``).
    """
    return look(place).st_dev == Path.home().stat().st_dev


def trash(place: FilePlace, path: Path) -> None:
    """Put a file or a folder into the trash of the home, as the Trash specification 1.0 says.

    Arguments:
        path: where it was, absolute, for who puts it back.

    Raises:
        OSError: with ``EXDEV``: the trash is on another file system.
    """
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    for folder in ("files", "info"):
        make_own(data / "Trash" / folder)
    note = f"[Trash Info]\nPath={quote(os.fsencode(path))}\nDeletionDate={datetime.now():%Y-%m-%dT%H:%M:%S}\n"
    files_held, info_held = (held(data / "Trash" / folder / path.name, follow=False) for folder in ("files", "info"))
    with files_held as files, info_held as info:
        for number in itertools.count():
            name = path.stem + (f" {number}" if number else "") + path.suffix
            with suppress(FileExistsError):
                noted = os.open(f"{name}.trashinfo", NEW, 0o600, dir_fd=info.folder)
                try:
                    with os.fdopen(noted, "w") as file:
                        file.write(note)
                    move(place, FilePlace(files.folder, name, files.is_private))
                except OSError:
                    os.unlink(f"{name}.trashinfo", dir_fd=info.folder)
                    raise
                return


def copy_folder(source: int, target: FilePlace) -> None:
    """Copy a folder, its links as links.

    Nothing is read but what hangs below the folder, and nothing is written but below the one that is made, whatever
    others put in the place of either. A link that somebody else made is left out if it leads out of its folder: the
    copy would be the person's own link, which is followed wherever others move it.

    Permissions, attributes and times are those of what is copied, as ``shutil.copytree`` has it; but a program that
    runs as its owner does not become one that runs as the person, and what others made is opened to nobody by its
    copy: its permissions are at most those of a new file, and its access lists are left out.

    Arguments:
        source: a descriptor of the folder.

    Raises:
        shutil.Error: not everything could be copied; its argument is a list of names and reasons.
        OSError: the source is no folder; the target is there, or cannot be made.
    """
    if not stat.S_ISDIR(os.fstat(source).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if failed := _copy_into(source, target.name, target.folder, made=None, deep=0):
        raise shutil.Error(failed)


def _copy_into(source: int, name: str, parent: int, made: os.stat_result | None, deep: int) -> list[str]:
    """Make a folder anew, with what is in another one.

    Arguments:
        made: the whole copy, which is passed by where it lies in what is copied.
        deep: in how many folders of the copy it lies.
    """
    found = os.fstat(source)
    os.mkdir(name, 0o700, dir_fd=parent)
    target = os.open(name, FOLDER, dir_fd=parent)
    failed: list[str] = []
    try:
        _take(target, name)
        made = made or os.fstat(target)
        for entry in os.listdir(source):
            try:
                failed += _copy_entry(source, entry, target, made, deep)
            except OSError as error:
                failed.append(f"{entry} ({error.strerror})")
        _copy_attributes(source, target, stat.S_IMODE(found.st_mode) & ~stat.S_ISUID)
    finally:
        os.close(target)
    return failed


def _take(folder: int, name: str) -> None:
    """Have a new folder for the person alone until it is whole: somebody may have put another one in its place.

    Raises:
        PermissionError: it is somebody else's, or there is something in it.
    """
    if os.fstat(folder).st_uid == os.getuid() and not os.listdir(folder):
        os.fchmod(folder, 0o700)
        if not os.listdir(folder):  # nobody else puts something there from now on
            return
    raise PermissionError(errno.EACCES, EXCHANGED, name)


def _copy_entry(source: int, name: str, target: int, made: os.stat_result, deep: int) -> list[str]:
    if stat.S_ISLNK(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        _copy_link(source, name, target)
        return []
    descriptor = os.open(name, TO_READ, dir_fd=source)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            if os.path.samestat(found, made):
                return []
            if deep == DEEPEST:
                return [f"{name} ({TOO_DEEP})"]
            return [f"{name}/{failed}" for failed in _copy_into(descriptor, name, target, made, deep + 1)]
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EACCES, "is no regular file", name)
        _copy_file(descriptor, found, name, target)
    finally:
        os.close(descriptor)
    return []


def _copy_link(source: int, name: str, target: int) -> None:
    link = os.open(name, LOOK, dir_fd=source)
    try:
        leads_to = PurePath(os.readlink("", dir_fd=link))
        if is_of_others(os.fstat(link)) and (leads_to.is_absolute() or ".." in leads_to.parts):
            raise LinkOfOthers(errno.EACCES, THEIRS, name)
    finally:
        os.close(link)
    os.symlink(leads_to, name, dir_fd=target)


def _copy_file(source: int, found: os.stat_result, name: str, target: int) -> None:
    copy = os.open(name, NEW, 0o600, dir_fd=target)
    try:
        copy_content(source, copy, found.st_size)
        _copy_attributes(source, copy, stat.S_IMODE(found.st_mode) & 0o777)
    finally:
        os.close(copy)


def _copy_attributes(source: int, target: int, mode: int) -> None:
    found = os.fstat(source)
    is_theirs = is_of_others(found)
    mode &= ~_umask() if is_theirs else ~0
    with suppress(OSError):  # a file system without them
        for name in os.listxattr(source):  # access lists are among them: without those the mode says something else
            if is_theirs and name.startswith(ACCESS_LISTS):
                mode &= ~stat.S_IRWXG if name == POSIX_LIST else ~0  # it is the mask of the list there: acl(5)
                continue
            with suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.fchmod(target, mode)


def _umask() -> int:
    """Which permissions a new file of this process does not have (proc_pid_status(5)); asking the kernel changes it."""
    return int(Path("/proc/self/status").read_text().partition("\nUmask:")[2].split()[0], 8)
