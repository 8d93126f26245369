"""A folder as a ``tar.gz`` that is made while it is read: nothing of it lies on a disk, and little in memory.

What a link leads to is not in it, and what the file browser hides is not either. A file is read through the folder that
was opened for it, so that nobody who can write there leads it elsewhere meanwhile. What is left out, and why, stands in
a file at the end of the archive.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

PART = 256 * 1024  # bytes that are handed on at a time
COMPRESSION = 1  # the fastest: a network is seldom slower than that
LEFT_OUT = "LEFT-OUT.txt"
LEFT_OUT_MAX = 10_000  # lines of it
DEEPEST = 100  # folders in one another: each is held open, and a server has a thousand files at most
HIDDEN = "."
CHANGED = "it changed while it was read, and its end is filled with zeros"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Send = Callable[[bytes], None]


class _Parts(io.RawIOBase):
    """Where the archive is written to: hands it on in parts of :data:`PART`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held = bytearray()
        self._is_over = False

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take some, and hand on what is enough."""
        self._held += data
        if len(self._held) >= PART:
            self.hand_on()
        return len(data)

    def hand_on(self) -> None:
        """Hand on what there is."""
        data = bytes(self._held)
        self._held.clear()
        if data and not self._is_over:
            self._is_over = True  # where this raises: what closes the archive then writes once more
            self._send(data)
            self._is_over = False


class _Whole(io.RawIOBase):
    """A file of exactly the length that its archive was told, whatever becomes of it meanwhile."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self.fault = ""

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As much as there is, then zeros."""
        wanted = min(size if size >= 0 else self._left, self._left)
        try:
            found = self._file.read(wanted) if not self.fault else b""
        except OSError as error:
            found = b""
            self.fault = f"{error.strerror}; its end is filled with zeros"
        if len(found) < wanted:
            self.fault = self.fault or CHANGED
            found += bytes(wanted - len(found))
        self._left -= wanted
        return found


class FolderArchive:
    """One folder, to be sent once.

    Arguments:
        root: a descriptor of it, which stays open.
        name: under which the archive holds it.
    """

    def __init__(self, root: int, name: str) -> None:
        self._root = root
        self._name = name
        self._left_out: list[str] = []

    def send(self, send: Send) -> None:
        """Hand the archive on in parts; whatever ``send`` raises ends it."""
        parts = _Parts(send)
        with (
            gzip.GzipFile("", "wb", COMPRESSION, parts) as packed,
            tarfile.open(mode="w|", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
        ):
            for path, info, parent in self._entries(self._root):
                self._add(archive, path, info, parent)
                archive.members.clear()  # type: ignore[attr-defined]  # they would be a gigabyte of a million files
            self._say_what_is_left_out(archive)
        parts.hand_on()

    def _entries(self, root: int) -> Iterator[tuple[str, os.stat_result, int]]:
        """Each entry with its path in the archive and the descriptor of the folder that it lies in."""
        for path, folders, files, descriptor in os.fwalk(".", dir_fd=root, onerror=self._closed, follow_symlinks=False):
            inner = os.path.normpath(f"{self._name}/{path}")
            folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
            for name in [*folders, *sorted(name for name in files if not name.startswith(HIDDEN))]:
                try:
                    yield f"{inner}/{name}", os.lstat(name, dir_fd=descriptor), descriptor
                except OSError as error:
                    self._leave_out(f"{inner}/{name}", str(error.strerror))
            if folders and path.count("/") == DEEPEST:
                self._leave_out(inner, f"what lies in its folders is deeper than {DEEPEST} of them")
                folders.clear()

    def _closed(self, error: OSError) -> None:
        self._leave_out(str(error.filename), f"the folder cannot be read: {error.strerror}")

    def _add(self, archive: tarfile.TarFile, path: str, found: os.stat_result, parent: int) -> None:
        entry = tarfile.TarInfo(path)
        entry.mtime = int(found.st_mtime)
        entry.mode = stat.S_IMODE(found.st_mode) & 0o777
        if stat.S_ISDIR(found.st_mode):
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        elif stat.S_ISREG(found.st_mode):
            self._add_file(archive, entry, parent)
        else:
            self._leave_out(path, "a link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a folder")

    def _add_file(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, parent: int) -> None:
        try:
            descriptor = os.open(os.path.basename(os.fsencode(entry.name)), FILE_FLAGS, dir_fd=parent)  # noqa: PTH119
        except OSError as error:
            self._leave_out(entry.name, str(error.strerror))
            return
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                self._leave_out(entry.name, "neither a file nor a folder")
                return
            entry.size = found.st_size
            whole = _Whole(file, found.st_size)
            archive.addfile(entry, whole)
            if whole.fault:
                self._leave_out(entry.name, whole.fault)

    def _leave_out(self, path: str, why: str) -> None:
        if len(self._left_out) < LEFT_OUT_MAX:
            self._left_out.append(f"{path}: {why}")

    def _say_what_is_left_out(self, archive: tarfile.TarFile) -> None:
        if not self._left_out:
            return
        text = "\n".join(["What is not in this archive, or not as it was:", "", *self._left_out, ""])
        data = text.encode(errors="backslashreplace")
        entry = tarfile.TarInfo(f"{self._name}/{LEFT_OUT}")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
