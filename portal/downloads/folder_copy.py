"""Copies of folders that JupyterLab makes, also to move one: of what is held, whenever others exchange it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path, PurePath

from portal.homes.held_files import delete, look, move
from portal.homes.held_place import (
    LINKS_MAX,
    LOOK,
    MAY_BE_THEIRS,
    NEW,
    THEIRS,
    TO_READ,
    FilePlace,
    LinkOfOthers,
)
from portal.homes.own_folder import is_closed, is_of_others
from portal.homes.readers import ACCESS_LIST, PASS, READ, WRITE, closed_as, rights_of
from portal.homes.sparse import copy_content

EXCHANGED = "somebody exchanged it while it was made"
DEEPEST = 100  # folders in one another that are copied: each is held open, and each is a step of Python's stack
ROUNDS = 4  # so many links of others may lead to one another
TOO_DEEP = f"deeper than {DEEPEST} folders"
ACCESS_LISTS = "system."  # extended attributes that say who may do what (xattr(7))
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_folder(source: int, target: FilePlace) -> None:
    """Copy a folder, its links as links.

    Nothing is read but what hangs below the folder, and nothing is written but below the one that is made, whatever
    others put in the place of either. A link that somebody else made, or may have put there, is left out unless it
    leads to something in the copy, by no link that leads out of that: the copy would be the person's own link, in a
    folder of the person's own, and be followed there.

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


def move_anywhere(source: FilePlace, target: FilePlace) -> None:
    """Move something, also to another file system, if nobody else can change the folders that it is moved between.

    Raises:
        LinkOfOthers: it is a link that somebody else made, or may have put there, and would become the person's own.
        FileExistsError: something lies at the target, be it a link that leads nowhere.
        shutil.Error: not all of a folder could be copied; it stays, and there is no copy.
        OSError: with ``EXDEV``: it is another file system, and others can change one of the two folders.
    """
    try:
        move(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV or not (source.is_private and target.is_private):
            raise
        _move_by_copy(source, target)


def _move_by_copy(source: FilePlace, target: FilePlace) -> None:
    found = look(source)
    if not os.access(".", os.W_OK, dir_fd=source.folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), source.name)
    if stat.S_ISLNK(found.st_mode):
        if is_of_others(found):
            raise LinkOfOthers(errno.EACCES, THEIRS, source.name)
        os.symlink(os.readlink(source.name, dir_fd=source.folder), target.name, dir_fd=target.folder)
    else:
        with source.read() as descriptor:
            _copy_whole(descriptor, target)
    delete(source)


def _copy_whole(source: int, target: FilePlace) -> None:
    """Copy a file or a folder; where that fails there is no copy."""
    found = os.fstat(source)
    try:
        if stat.S_ISDIR(found.st_mode):
            copy_folder(source, target)
        else:
            _copy_regular(source, found, target.name, target.folder)
    except FileExistsError:
        raise
    except OSError:
        with suppress(FileNotFoundError):
            delete(target)
        raise


def _copy_into(source: int, name: str, parent: int, made: os.stat_result | None, deep: int) -> list[str]:
    """Make a folder anew, with what is in another one.

    Arguments:
        made: the whole copy, which is passed by where it lies in what is copied.
        deep: in how many folders of the copy it lies.
    """
    found = os.fstat(source)
    os.mkdir(name, 0o700, dir_fd=parent)
    target = os.open(name, FOLDER, dir_fd=parent)
    try:
        _take(target, name)
        failed = _copy_entries(source, target, made or os.fstat(target), deep)
        _copy_attributes(source, target, stat.S_IMODE(found.st_mode) & ~stat.S_ISUID)
    finally:
        os.close(target)
    return failed


def _copy_entries(source: int, target: int, made: os.stat_result, deep: int) -> list[str]:
    """Copy all that is in a folder, links of others behind what they lead to."""
    failed: list[str] = []
    waiting: dict[str, str] = dict.fromkeys(os.listdir(source), "")
    for _ in range(ROUNDS):
        links: dict[str, str] = {}
        for entry in waiting:
            try:
                failed += _copy_entry(source, entry, target, made, deep)
            except LinkOfOthers as error:
                links[entry] = str(error.strerror)
            except OSError as error:
                failed.append(f"{entry} ({error.strerror})")
        waiting = links
    return failed + [f"{entry} ({fault})" for entry, fault in waiting.items()]


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
        _copy_regular(descriptor, found, name, target)
    finally:
        os.close(descriptor)
    return []


def _copy_link(source: int, name: str, target: int) -> None:
    link = os.open(name, LOOK, dir_fd=source)
    try:
        leads_to = PurePath(os.readlink("", dir_fd=link))
        is_theirs = is_of_others(os.fstat(link))
        if (is_theirs or not is_closed(os.fstat(source))) and not _lies_below(target, leads_to):
            raise LinkOfOthers(errno.EACCES, THEIRS if is_theirs else MAY_BE_THEIRS, name)
    finally:
        os.close(link)
    os.symlink(leads_to, name, dir_fd=target)


def _lies_below(folder: int, path: PurePath, links: int = 0) -> bool:
    """Whether something is there, in a folder of the copy or below it, by no link that leads up, or anywhere.

    Nobody else changes what is copied so far; a link of the person's own, which is copied too, may lead anywhere.
    """
    if path.is_absolute() or ".." in path.parts or links > LINKS_MAX:
        return False
    here = os.dup(folder)
    try:
        for number, part in enumerate(path.parts, 1):
            inner = os.open(part, LOOK, dir_fd=here)
            if stat.S_ISLNK(os.fstat(inner).st_mode):
                rest = PurePath(os.readlink("", dir_fd=inner), *path.parts[number:])
                os.close(inner)
                return _lies_below(here, rest, links + 1)
            os.close(here)
            here = inner
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def _copy_regular(source: int, found: os.stat_result, name: str, target: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, "is no regular file", name)
    copy = os.open(name, NEW, 0o600, dir_fd=target)
    try:
        copy_content(source, copy, found.st_size)
        _copy_attributes(source, copy, stat.S_IMODE(found.st_mode) & 0o777)
    finally:
        os.close(copy)


def _copy_attributes(source: int, target: int, mode: int) -> None:
    """Give a copy the times and the mode of what it is made of, and nobody more a right to it.

    It has the group that its folder gives it. What the other one's might do there is none of that one's business.
    """
    found = os.fstat(source)
    is_theirs = is_of_others(found)
    is_same_group = os.fstat(target).st_gid == found.st_gid
    with suppress(OSError):  # that of the folder that it is in: acl(5)
        os.removexattr(target, ACCESS_LIST)
    with suppress(OSError):  # a file system without attributes
        for name in os.listxattr(source):  # access lists are among them: without those the mode says something else
            if (is_same_group and not is_theirs) or not name.startswith(ACCESS_LISTS):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    mode &= ~_umask() if is_theirs else ~0
    if not is_same_group:
        mode &= ~stat.S_ISGID
    os.fchmod(target, closed_as(rights_of(source, READ, WRITE, PASS), target, mode))


def _umask() -> int:
    """Which permissions a new file of this process does not have (proc_pid_status(5)); asking the kernel changes it."""
    return int(Path("/proc/self/status").read_text().partition("\nUmask:")[2].split()[0], 8)
