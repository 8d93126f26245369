"""Put, move and delete files in places that are held, where others can exchange a folder at any moment.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from portal.homes.held_place import LOOK, MAY_BE_THEIRS, NEW, TO_WRITE, FilePlace, LinkOfOthers, held
from portal.homes.own_folder import is_of_others, make_own
from portal.homes.readers import ACCESS_LIST, KnownFile, Readers, closed_as, closed_list

NOT_BY_PYTHON = "has too many folders in one another: delete it in a terminal (rm -rf)"


def look(place: FilePlace) -> os.stat_result:
    """What lies at a place, a link itself.

    Raises:
        FileNotFoundError: nothing lies there.
    """
    return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)


def put(
    place: FilePlace,
    content: bytes,
    before: KnownFile | None = None,
    rights: Mapping[int, Readers] = MappingProxyType({}),
) -> KnownFile | None:
    """Put a whole file there, in one step: whoever is ended on the way leaves what was there.

    A link that others put there meanwhile is replaced, and not followed. The mode is that of the person's own file of
    that name, or as her umask has it.

    Arguments:
        before: the person's own file that was found there at first, or put there last: where another one took its
            place, what is put there now is shown to nobody more.
        rights: who has those of what the file is made of: a new one gives them to nobody else.

    Returns:
        What is there now; None for a device.

    Raises:
        LinkOfOthers: it is a link of the person's own, in a folder that others can change.
        OSError: it cannot be written.
    """
    if place.through:
        raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, place.through)
    if place.is_private and _is_device(place):  # /dev/null
        with open(place.name, "wb", opener=lambda name, _: os.open(name, TO_WRITE, dir_fd=place.folder)) as device:
            device.write(content)
        return None
    there = own_known_file(place.folder, place.name)
    old, mode = replaced(there, before)
    with written_beside(place.folder, place.name, content, mode, old, rights) as (beside, made):
        os.rename(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return made


@contextmanager
def written_beside(
    folder: int,
    name: str,
    content: bytes,
    mode: int | None,
    old: KnownFile | None = None,
    rights: Mapping[int, Readers] = MappingProxyType({}),
) -> Iterator[tuple[str, KnownFile]]:
    """A whole new file beside what has that name, to be renamed; it is taken away where that fails.

    Others may put another one in its place: what it is itself is told with its name.

    Arguments:
        folder: a descriptor.
        mode: ``None`` = as the person's umask has it.
        old: the file of that mode whose place it takes.
        rights: where there is no mode, nobody but these gets them.
    """
    beside = f".{name}.{secrets.token_hex(6)}"
    descriptor = os.open(beside, NEW, 0o666 if mode is None and not rights else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode is not None:
                with suppress(PermissionError):  # homes on CIFS have no modes
                    os.fchmod(descriptor, mode_of_group(descriptor, old, mode) if old else mode)
            elif rights:
                with suppress(PermissionError):
                    os.fchmod(descriptor, closed_as(rights, descriptor, usual_mode(folder)))
            made = KnownFile.of(descriptor)
        yield beside, made
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def mode_of_group(descriptor: int, old: KnownFile, mode: int) -> int:
    """The mode that a new file may have which takes the place of another one, and its group and list where that can be.

    A folder can give new files a group of its own, and a list. What the old one's group might do is none of that one's
    business; nor has the group what an access list of the old one gave to others.
    """
    with suppress(OSError):  # it has none
        os.removexattr(descriptor, ACCESS_LIST)
    if old.found and os.fstat(descriptor).st_gid != old.found.st_gid:
        try:
            os.fchown(descriptor, -1, old.found.st_gid)
        except OSError:  # the person is not of that group
            return closed_as(old.rights, descriptor, mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3)
    if old.access_list and old.found and old.found.st_uid == os.geteuid():
        with suppress(OSError):
            os.setxattr(descriptor, ACCESS_LIST, closed_list(old.access_list))
    return closed_as(old.rights, descriptor, mode)


def usual_mode(folder: int) -> int:
    """What a new file is given there, by the umask or by the folder's own access list."""
    name = f".upload-{secrets.token_hex(16)}.part"  # which goes with those of uploads, should this be killed
    descriptor = os.open(name, NEW, 0o666, dir_fd=folder)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        os.unlink(name, dir_fd=folder)


def mode_of(known: KnownFile) -> int:
    """Of what is replaced; who may write it, nobody else says."""
    if not known.found:
        return stat.S_IRUSR | stat.S_IWUSR
    return stat.S_IMODE(known.found.st_mode) & (0o777 if known.found.st_uid == os.geteuid() else 0o755)


def replaced(now: KnownFile | None, before: KnownFile | None) -> tuple[KnownFile | None, int | None]:
    """What a new file takes the place of, and the mode that it may have by that, at most; None where it is nothing.

    Arguments:
        now: what lies there.
        before: what lay there at first: where it is another one, what holds for both counts.
    """
    if now and before and not before.is_same(now):
        return before.with_(now), mode_of(before) & mode_of(now)
    known = now or before
    return known, mode_of(known) if known else None


def known_file(folder: int, name: str) -> KnownFile | None:
    """The regular file of a name in a folder; None where there is none."""
    try:
        descriptor = os.open(name, LOOK, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        known = KnownFile.of(descriptor)
    finally:
        os.close(descriptor)
    return known if known.found and stat.S_ISREG(known.found.st_mode) else None


def own_known_file(folder: int, name: str) -> KnownFile | None:
    """That one where it is the person's own, or root's."""
    known = known_file(folder, name)
    return None if known is None or (known.found and is_of_others(known.found)) else known


def _is_device(place: FilePlace) -> bool:
    try:
        found = look(place)
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(found.st_mode) and not is_of_others(found)


def keep_in_place(found: os.stat_result, source: FilePlace, target: FilePlace) -> None:
    """Have a link stay in its folder that others may have put there: in a private one it would count as the person's.

    Raises:
        LinkOfOthers: what was found is such a link, and the target is in another folder.
    """
    is_there = source.is_private or os.path.samestat(os.fstat(source.folder), os.fstat(target.folder))
    if stat.S_ISLNK(found.st_mode) and not is_there and (target.is_private or is_of_others(found)):
        raise LinkOfOthers(errno.EACCES, MAY_BE_THEIRS, source.name)


def move(source: FilePlace, target: FilePlace) -> None:
    """Rename a file or a folder; a link that others may have put where it is stays in its folder.

    Raises:
        FileExistsError: something else lies at the target.
        LinkOfOthers: it is such a link, and the target is in another folder.
        OSError: with ``EXDEV``: the places are on different file systems.
    """
    keep_in_place(look(source), source, target)
    _rename(source, target)
    if not target.is_private:  # there it is followed no more than where it was
        return
    try:
        keep_in_place(look(target), source, target)  # it may have been put there in the last moment
    except LinkOfOthers:
        _put_back(source, target)
        raise


def _rename(source: FilePlace, target: FilePlace) -> None:
    there = look(source)
    with suppress(FileNotFoundError):
        if not os.path.samestat(there, look(target)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name)
    os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)


def _put_back(source: FilePlace, target: FilePlace) -> None:
    """Take a link out of a private folder: to where it was, or away where something else is there by now."""
    try:
        _rename(target, source)
    except OSError:
        os.unlink(target.name, dir_fd=target.folder)


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
                    # A link, too: nobody follows it there.
                    _rename(place, FilePlace(files.folder, name, files.is_private))
                except OSError:
                    os.unlink(f"{name}.trashinfo", dir_fd=info.folder)
                    raise
                return
