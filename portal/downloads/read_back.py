"""Which files are saved where they were read: not what a link of others led to, which they may take away before that.

JupyterLab saves by itself what it has opened as writable, at the address where it was, and makes a file there where
none is any more. Who could take a link or a folder away by then would get, in a folder of their own, what was private.
Several tabs may have what was read at one address, at different times, and nobody says here when they are closed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

from portal.downloads.shown_files import ShownFiles
from portal.downloads.shown_text import holds
from portal.homes.held_place import LOOK, FilePlace, LinkOfOthers, held
from portal.homes.own_folder import ROOT, are_own, is_of_others
from portal.homes.readers import EVERYBODY, KnownFile, Readers
from portal.homes.regular_file import without_waiting

REPLACED_WITHIN_S = 600.0  # a name that was deleted gets a file again, as by Save As: a large one comes slowly


def own_file(descriptor: int) -> KnownFile | None:
    """A file that was read or saved; None for one of somebody else's, who has read it anyway."""
    known = KnownFile.of(descriptor)
    return None if is_of_others(os.fstat(descriptor)) else known


@dataclass(frozen=True)
class FoundPlace:
    """How a file was found when it was read.

    Attributes:
        is_writable: it is saved there by itself: no link led there that others can take away.
        owner: the UID that its folder belongs to; None where it is not saved there as long as such a link is there.
        is_private: nobody else can exchange it, or what is on the way.
        folder: device and inode of that folder, where all looks found the same one.
        passed: who came there through what others can exchange: another folder that has its name shows nobody more.
        file: the file itself, where it was the person's own.
    """

    is_writable: bool
    owner: int | None = None
    is_private: bool = False
    folder: tuple[int, int] | None = None
    passed: Readers = EVERYBODY
    file: KnownFile | None = None

    def with_(self, other: FoundPlace) -> FoundPlace:
        """What holds for both: what two people's folders have had is saved in one's own alone."""
        is_known = self.owner is not None and other.owner is not None
        owner = self.owner if self.owner == other.owner else os.geteuid()
        same = self.folder if self.folder == other.folder else None
        passed = self.passed.with_(other.passed)
        is_writable = self.is_writable and other.is_writable
        file = self.file.with_(other.file) if self.file and other.file else self.file or other.file
        return FoundPlace(is_writable, owner if is_known else None, folder=same, passed=passed, file=file)


THROUGH_LINK = FoundPlace(is_writable=False)
LOOKS: ContextVar[list[FoundPlace] | None] = ContextVar("LOOKS", default=None)  # of what is read for one answer


def look_at(path: Path) -> FoundPlace:
    """How a file would be found now."""
    try:
        with held(path) as place:
            return _look(place)
    except OSError:
        return THROUGH_LINK


def open_looking(path: str, flags: int) -> int:
    """Open a file, as :func:`open` has it done (``opener``), and note how it was found: by the same look.

    Raises:
        BlockingIOError: somebody has a lease on it.
        OSError: there is none, or it is no regular file.
    """
    looks = LOOKS.get()
    if looks is None:
        return without_waiting(path, flags)
    try:
        with held(Path(path)) as place:
            look = _look(place)
            descriptor = without_waiting(place.name, flags | os.O_NOFOLLOW, folder=place.folder)
    except OSError as error:
        if not isinstance(error, LinkOfOthers) and error.errno != errno.ELOOP:  # or it was put there a moment ago
            raise
        look = THROUGH_LINK
        descriptor = without_waiting(path, flags)
    looks.append(replace(look, file=own_file(descriptor)))
    return descriptor


def _look(place: FilePlace) -> FoundPlace:
    if place.through:
        return THROUGH_LINK
    found = os.fstat(place.folder)
    here = (found.st_dev, found.st_ino)
    return FoundPlace(not place.is_loose, found.st_uid, place.is_private, here, place.passed)


def _is_as_found(look: FoundPlace, place: FilePlace) -> bool:
    """Whether a place is in a folder of the same owner as when it was looked at, or one's own, and by a way as safe."""
    is_link_gone = not look.is_writable and not place.is_loose
    if look.owner is None or is_link_gone:
        return False
    folder = os.fstat(place.folder)
    is_another = look.folder != (folder.st_dev, folder.st_ino)
    if is_another and not look.passed.include(place.passed):
        return False  # one that others come to, in the place of one that they did not
    return look.owner == folder.st_uid or not is_of_others(folder)


def _is_at(place: FilePlace, real: Path) -> bool:
    return place.name == real.name and os.path.samestat(os.fstat(place.folder), real.parent.stat())


def _is_as_read(place: FilePlace, shown: Sequence[KnownFile]) -> bool:
    """Whether a file is none of others, and where they can exchange it the very one that a page shows, if it does.

    They may have given its name to another one of the person's own, which lies where they can rename it.
    """
    descriptor = os.open(place.name, LOOK, dir_fd=place.folder)
    try:
        now = KnownFile.of(descriptor)
    finally:
        os.close(descriptor)
    is_own = now.found is not None and not is_of_others(now.found)
    return is_own and (place.is_private or all(file.is_file(now) for file in shown))


def _is_at_end(path: Path, real: Path, file: KnownFile) -> bool:
    """Whether links lead from a path to that very file, which is none of others by now, and is at ``real``."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        now = os.fstat(descriptor)
        is_file = file.is_file(KnownFile.of(descriptor)) and os.path.samestat(now, real.stat())
        return is_file and not is_of_others(now)
    finally:
        os.close(descriptor)


def _is_link(place: FilePlace) -> bool:
    try:
        found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISLNK(found.st_mode)


@dataclass
class Save:
    """One save, from the look at its place to its end.

    Attributes:
        path: where JupyterLab has it.
        before: what was read or saved there, or the checkpoint that is restored.
        is_open: whether the page that asks shows it.
        file: what was opened to be written, where it is the person's own.
    """

    path: Path
    place: FilePlace
    before: KnownFile | None = None
    is_open: bool = False
    file: KnownFile | None = None


class ReadPlaces:
    """How what may be open in JupyterLab was found, each time: as long as this session's server runs.

    It ends by what the person does with the file: where it was saved counts from then on, and a name that was deleted,
    or given to another file, is a new one.
    """

    def __init__(self) -> None:
        self._looks: dict[Path, FoundPlace] = {}
        self._read = ShownFiles()
        self._deleted: tuple[Path, KnownFile | None, float] = (Path(), None, 0.0)

    def note(self, path: Path, look: FoundPlace, *, is_read: bool = True) -> None:
        """Remember how it was found this time, too: what was read there before may be open still.

        Arguments:
            is_read: False where JupyterLab asked for its hash alone, as it does before a save: of what is known
                already nothing but who can read it is changed.
        """
        known = self._looks.get(path, look)
        both = look.with_(known)
        self._looks[path] = both if is_read or known is look else replace(known, file=both.file)
        if is_read:
            self._read.read(path, look.file)

    def is_writable(self, path: Path, look: FoundPlace) -> bool:
        """Whether all that was read at a path is saved there by itself, where it was found like this now."""
        known = self._looks.get(path, look)
        is_saved_there = known.is_writable and look.owner in (known.owner, os.geteuid())
        return look.is_writable and (look.is_private or is_saved_there)

    def may_save(self, path: Path, place: FilePlace) -> bool:
        """Whether all that was read at a path may be saved at its place of now: not in a folder that took another's."""
        look = self._looks.get(path)
        return look is None or place.is_private or _is_as_found(look, place)

    def may_get(self, save: Save, descriptor: int) -> bool:
        """Whether the file that is open now, to be saved, is the one that was read, or shows nobody more than that."""
        is_theirs = is_of_others(os.fstat(descriptor))
        if save.place.is_private and not is_theirs:
            return True
        if is_theirs and self.is_unread(save):
            return False
        return save.before is None or save.before.may_become(KnownFile.of(descriptor))

    def is_unread(self, save: Save) -> bool:
        """Whether a page saves what it shows, and has not read in this session: it is older, as for a closed file."""
        return save.is_open and not self._read.is_known(save.path) and not save.place.is_private

    def is_another(
        self, path: Path, real: Path, owner: int, shown: Sequence[object] = (), kept: Path | None = None
    ) -> bool:
        """Whether a file of this owner is not what the person has read or saved there as her own, or where it was.

        Arguments:
            real: where the file was found without links, by a look that may have met another one.
            shown: what documents of the page show of it, as :func:`portal.downloads.shown_text.holds` takes it. The
                page may be older than this session: whose that was, nobody knows here.
            kept: the copy of it that would run.
        """
        is_open = bool(shown)
        if is_open and not self._has_what_is_shown(path, real, shown, kept):
            return True
        own = self._read.own(path, of_page=is_open)
        if not own or owner not in (ROOT, os.geteuid()):
            return bool(own)
        try:
            if self._looks.get(path, THROUGH_LINK).owner is None:  # a link led there, and may lead elsewhere by now
                return not all(_is_at_end(path, real, file) for file in own)
            with held(path, moved=False) as place:
                is_there = _is_at(place, real) and self.may_save(path, place)
                return not is_there or not _is_as_read(place, own if is_open else ())
        except OSError:
            return True

    def _has_what_is_shown(self, path: Path, real: Path, shown: Sequence[object], kept: Path | None) -> bool:
        """Whether a file is as a page shows it: what nobody else can write or exchange may have changed."""
        try:
            is_private = look_at(path).is_private
            is_hers = not kept and is_private and are_own(real.parent, (real.name,))
            return is_hers or ((is_private or self._read.is_known(path)) and holds(kept or real, shown))
        except OSError:
            return False

    def known(self, path: Path) -> KnownFile | None:
        """What was read or saved at a path, where it was the person's own."""
        look = self._looks.get(path)
        deleted, file, at = self._deleted
        if look is None and deleted == path and time.monotonic() - at < REPLACED_WITHIN_S:
            return file
        return look.file if look else None

    def saved(self, save: Save) -> None:
        """Remember where it was saved, where all that was read could be: no other folder of others gets it now."""
        self._looks[save.path] = replace(_look(save.place), file=save.file or self.known(save.path))
        self._read.saved(save.path, save.file)

    def renamed(self, old: Path, new: Path, source: FilePlace, target: FilePlace) -> None:
        """Have what is open go with its file, or its folder: whom a file is moved to, the person has chosen.

        What lay there by then, somebody else may have put there; a link leads where it led.
        """
        self.deleted(new)
        look = self._looks.get(old)
        if look and _is_as_found(look, source) and not _is_link(target):
            self._looks[old] = replace(_look(target), file=look.file)
        for path in [path for path in self._looks if path.is_relative_to(old)]:
            self._looks[new / path.relative_to(old)] = self._looks.pop(path)
        self._read.renamed(old, new)

    def deleted(self, path: Path, file: KnownFile | None = None) -> None:
        """Forget what was deleted: something new may get that name.

        Arguments:
            file: what lay there, where others can change its folder: *Save As* deletes what it replaces, and it may be
                another one than what was opened.
        """
        known = self.known(path)
        for gone in [one for one in self._looks if one.is_relative_to(path)]:
            del self._looks[gone]
        self._read.deleted(path)
        self._deleted = (path, known.with_(file) if known and file else known or file, time.monotonic())
