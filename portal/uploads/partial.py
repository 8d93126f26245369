"""A file that is uploaded in parts: what has come lies beside its place, under a name of its own, until all is there.

How far an upload is, is how long that file is, and is kept nowhere else. So it goes on after a new login, or in a new
session. It is written through no link, and only into a file of the person's own that an upload has made: somebody may
have put another one of hers in its place, which would be shown with it at the end. By its mode it is known again, which
nobody else can give to a file of hers.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from portal.homes.held_files import known_file, mode_of_group, own_known_file, replaced, usual_mode
from portal.homes.held_place import NEW, TO_WRITE, FilePlace, held
from portal.homes.readers import KnownFile
from portal.uploads.abandoned import TO_LIST, remove_abandoned
from portal.uploads.beginnings import PART_OF_CLOSED, Beginnings, Begun
from portal.uploads.open_partial import OpenPartial, full_in_words
from portal.uploads.refused import UploadRefused, in_words

NAME_MAX = 255  # bytes (limits.h)
Named = tuple[int, int, int, int]  # device, inode, size and time of the last change of a file
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


@dataclass(frozen=True)
class Upload:
    """What is uploaded.

    Attributes:
        folder: absolute, by the way that the person sees: a link on it is looked at.
        name: of the file, when all of it is there.
        size: in bytes.
        stamp: tells this file from another of the same name and size: its time on the person's disk.
        beginnings: whose folders uploads were begun in.
    """

    folder: Path
    name: str
    size: int
    stamp: str
    beginnings: Beginnings = field(default_factory=Beginnings, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Look at the name.

        Raises:
            UploadRefused: no file of that name is uploaded.
        """
        said = f"{self.name[:100]!r} cannot be the name of an uploaded file: "
        try:
            length = len(os.fsencode(self.name))
        except UnicodeEncodeError:
            length = 0
        if not length or "/" in self.name or "\0" in self.name:
            raise UploadRefused(HTTPStatus.BAD_REQUEST, said + "name it without a slash.")
        if self.name.startswith("."):
            raise UploadRefused(HTTPStatus.BAD_REQUEST, said + "what begins with a dot is hidden. Rename it first.")
        if length > NAME_MAX:
            raise UploadRefused(HTTPStatus.BAD_REQUEST, said + f"it is longer than {NAME_MAX} bytes. Rename it first.")

    @property
    def partial(self) -> str:
        """The name of what is there of it."""
        return f".upload-{hashlib.sha256(f'{self.size}/{self.stamp}/{self.name}'.encode()).hexdigest()[:32]}.part"

    def state(self) -> dict[str, int | bool]:
        """How many bytes are there, and whether something has its name.

        Raises:
            UploadRefused: there is no room for the rest, or the place is taken by something that is no file.
        """
        with self._held() as (place, _):
            there = _found(place.folder, self.partial)
            offset = there.st_size if there else 0
            if offset > self.size:
                message = f"More is there of {self.name} than it has. Cancel the upload, and begin it again."
                raise UploadRefused(HTTPStatus.CONFLICT, message)
            exists = self._replaced(place.folder) is not None
            disk = os.statvfs(place.folder)
            free = disk.f_bavail * disk.f_frsize
        if self.size - offset > free:
            raise UploadRefused(
                HTTPStatus.INSUFFICIENT_STORAGE,
                f"{self.name} needs {in_words(self.size - offset)} more, and {in_words(free)} are free there. "
                "Make room, then go on.",
            )
        return {"offset": offset, "exists": exists}

    def opened(self, offset: int) -> OpenPartial:
        """What is there, to be written further; nobody else writes it meanwhile.

        Raises:
            UploadRefused: another number of bytes is there; somebody writes it; it is not the person's own file.
        """
        with self._held() as (place, begun):
            descriptor = self._descriptor(place.folder, begun, is_new=offset == 0)
        try:
            found = self._part(descriptor, place, begun)
            _lock(descriptor, self.name)
            if found.st_size != offset:
                message = f"{found.st_size} bytes of {self.name} are there, not {offset}. Go on from there."
                raise UploadRefused(HTTPStatus.CONFLICT, message, found.st_size)
        except BaseException:
            os.close(descriptor)
            raise
        return OpenPartial(descriptor, self.name, self.size, offset)

    def finish(self, *, replace: bool) -> Named:
        """Give the file its name; from then on all of it is there, also after a power cut.

        Arguments:
            replace: a file that has the name now.

        Returns:
            By what the file is known again.

        Raises:
            UploadRefused: not all of it is there, or the name is taken.
        """
        with self._held() as (place, begun):
            descriptor = self._descriptor(place.folder, begun, is_new=self.size == 0)
            try:
                self._finish(place, begun, descriptor, replace=replace)
                begun.replaced = KnownFile.of(descriptor)
                begun.part = None
                return _named(os.fstat(descriptor))
            finally:
                os.close(descriptor)

    def _finish(self, place: FilePlace, begun: Begun, descriptor: int, *, replace: bool) -> None:
        folder = place.folder
        found = self._part(descriptor, place, begun)
        _lock(descriptor, self.name)
        if found.st_size != self.size:
            message = f"{found.st_size} of {self.size} bytes of {self.name} are there. Go on from there."
            raise UploadRefused(HTTPStatus.CONFLICT, message, found.st_size)
        if self._replaced(folder) and not replace:
            raise self._taken()
        with full_in_words(self.name):
            os.fsync(descriptor)
            mode = self._mode(folder, begun, descriptor)
        with suppress(OSError):
            os.fchmod(descriptor, mode)
        try:
            with full_in_words(self.name):
                os.fsync(descriptor)
            there = _found(folder, self.partial)
            if not there or not os.path.samestat(there, found):
                message = f"Somebody moved what was there of {self.name}. Upload it again."
                raise UploadRefused(HTTPStatus.CONFLICT, message, 0)
            self._name(folder, replace=replace)
        except (UploadRefused, OSError):
            with suppress(OSError):
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
            raise
        entries = os.open(".", TO_LIST, dir_fd=folder)
        try:
            os.fsync(entries)
        finally:
            os.close(entries)

    def _mode(self, folder: int, begun: Begun, descriptor: int) -> int:
        """That of what is replaced, else as usual; no more than that of what was to be replaced when it was begun."""
        now = known_file(folder, self.name)
        known, mode = replaced(now, begun.replaced)
        usual = 0o777 if now else usual_mode(folder)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) == PART_OF_CLOSED:
            usual &= stat.S_IRWXU
        return mode_of_group(descriptor, known, (mode or 0) & usual) if known else usual

    def _part(self, descriptor: int, place: FilePlace, begun: Begun) -> os.stat_result:
        found = os.fstat(descriptor)
        known = KnownFile.of(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            message = f"What is there of {self.name} is not a file of yours alone. Upload it into another folder."
            raise UploadRefused(HTTPStatus.FORBIDDEN, message)
        if not self._made(known, begun, place):
            raise self._no_part()
        begun.part = begun.part or known
        return found

    def _made(self, known: KnownFile, begun: Begun, place: FilePlace) -> bool:
        return begun.may_be(known, place) and (self.beginnings.is_of(self.partial, known) or place.is_private)

    def _no_part(self) -> UploadRefused:
        message = (
            f"Rename {self.partial} in a terminal, then upload again: it is another file of yours, "
            "which somebody may have put there, and not what this upload has made."
        )
        return UploadRefused(HTTPStatus.FORBIDDEN, message)

    def _name(self, folder: int, *, replace: bool) -> None:
        if replace:
            os.rename(self.partial, self.name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        try:  # a link replaces nothing, whatever comes in between
            os.link(self.partial, self.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise self._taken() from None
        except OSError:  # a file system without them
            os.rename(self.partial, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.unlink(self.partial, dir_fd=folder)

    def has_its_name(self, named: Named) -> bool:
        """Whether the file that got the name has it still, as it was."""
        with self._held() as (place, _):
            there = _found(place.folder, self.name)
        return there is not None and _named(there) == named

    def remove(self) -> None:
        """Forget what is there of it."""
        with self._place() as place:
            begun = self.beginnings.known(self) or Begun(os.fstat(place.folder), place.passed)
            there = own_known_file(place.folder, self.partial)
            if there and not self._made(there, begun, place):
                raise self._no_part()
            if there and there.found and there.found.st_uid == os.geteuid():
                os.unlink(self.partial, dir_fd=place.folder)
            self.beginnings.cancel(self)

    @contextmanager
    def _held(self) -> Iterator[tuple[FilePlace, Begun]]:
        with self._place() as place:
            yield place, self.beginnings.check(self, place, self.folder / self.name)

    @contextmanager
    def _place(self) -> Iterator[FilePlace]:
        try:
            with held(self.folder / self.name, follow=False) as place:
                yield place
        except PermissionError as error:
            raise UploadRefused(
                HTTPStatus.FORBIDDEN, f"You may not write into {self.folder.name}: {error.strerror}."
            ) from error
        except OSError as error:
            raise UploadRefused(
                HTTPStatus.CONFLICT, f"{self.folder.name} cannot be written into: {error.strerror}."
            ) from error

    def _descriptor(self, folder: int, begun: Begun, *, is_new: bool) -> int:
        with suppress(FileNotFoundError):
            return os.open(self.partial, TO_WRITE, dir_fd=folder)
        if not is_new:
            raise UploadRefused(
                HTTPStatus.CONFLICT, f"Nothing is there of {self.name}. Upload it from its beginning.", 0
            )
        remove_abandoned(folder)
        mark = begun.mark(own_known_file(folder, self.name))
        with full_in_words(self.name):
            descriptor = os.open(self.partial, NEW, mark, dir_fd=folder)
        with suppress(OSError):  # a file server may have another one by a list of the folder's
            os.fchmod(descriptor, mark)
        begun.part = KnownFile.of(descriptor)
        self.beginnings.made(self.partial, begun.part)
        return descriptor

    def _replaced(self, folder: int) -> os.stat_result | None:
        there = _found(folder, self.name)
        if there and not stat.S_ISREG(there.st_mode):
            kind = "a folder" if stat.S_ISDIR(there.st_mode) else "a link or no plain file"
            message = f"{self.name} is {kind} already. Rename one of the two."
            raise UploadRefused(HTTPStatus.CONFLICT, message)
        return there

    def _taken(self) -> UploadRefused:
        return UploadRefused(
            HTTPStatus.PRECONDITION_FAILED, f"There is a file {self.name} already, and it stays as it is."
        )


def _found(folder: int, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def _named(found: os.stat_result) -> Named:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _lock(descriptor: int, name: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UploadRefused(HTTPStatus.LOCKED, f"{name} is being uploaded in another window or session.") from None
    except OSError as error:
        if error.errno not in NO_LOCKS:  # some file systems have none
            raise
