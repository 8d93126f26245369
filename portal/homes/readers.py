"""Who can read or write a file, or come through a folder: what was closed comes into nothing that more people can read.

Standard library only. An access list says more than the mode, whose part for the group is the list's mask then
(acl(5)); of those of NFSv4 the server tells a mode that is about as open.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ACCESS_LIST = "system.posix_acl_access"
HEAD_BYTES = 4  # of such a list: the version of its form (linux/posix_acl_xattr.h)
ENTRY = struct.Struct("<HHI")  # whose it is, which rights, and the number of a person or group
USER = 0x02
GROUP_OBJ = 0x04
GROUP = 0x08
MASK = 0x10
OTHER = 0x20
_C = ctypes.CDLL(None)
AT_EMPTY_PATH = 0x1000  # of statx(2) and linux/stat.h, as what follows
STATX_BTIME = 0x800
STATX_BYTES = 256
MASK_OF_STATX = struct.Struct("I")
TIME_OF_STATX = struct.Struct("qI")
BTIME_AT = 0x50
READ = 4  # a file, or the names in a folder
WRITE = 2
PASS = 1  # a folder


@dataclass(frozen=True)
class Readers:
    """Who else than the person and root can read something, or write it: everybody, or some groups and people.

    Attributes:
        everybody: but for those who are shut out.
        groups: their GIDs.
        people: their UIDs; of a file of somebody else's its owner, who may open it whatever it is now.
        shut_out: people whom a list names who have no right, whatever their groups have; where it is everybody else,
            such groups, too.
    """

    everybody: bool
    groups: frozenset[int] = frozenset()
    people: frozenset[int] = frozenset()
    shut_out: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, descriptor: int, right: int = READ, mode: int | None = None) -> Readers:
        """Those of a file or folder, by its descriptor, which may be of ``O_PATH``.

        Arguments:
            mode: the one that it will be given; None = that of now.
        """
        found = os.fstat(descriptor)
        mode = found.st_mode if mode is None else mode
        listed = list(_listed(descriptor))
        mask = mode >> 3 & right  # of a list, too: acl(5)
        granted = {(tag, number) for tag, rights, number in listed if rights & mask}
        of_group = bool(mask) and (not listed or any(tag == GROUP_OBJ for tag, _ in granted))
        groups = {number for tag, number in granted if tag == GROUP} | ({found.st_gid} if of_group else set())
        people = {number for tag, number in granted if tag == USER} | {found.st_uid}
        everybody = bool(mode & right)
        kinds = (USER, GROUP) if everybody else (USER,)
        shut_out = {(tag, number) for tag, rights, number in listed if tag in kinds and not rights & mask}
        if everybody and not of_group:
            shut_out.add((GROUP, found.st_gid))
        return cls(everybody, frozenset(groups), _but_us(people), frozenset(shut_out))

    def with_(self, other: Readers) -> Readers:
        """Who can read both."""
        for one, rest in ((self, other), (other, self)):
            if one.everybody and not one.shut_out:
                return rest
        both = self.everybody and other.everybody
        return Readers(both, self.groups & other.groups, self.people & other.people, self.shut_out | other.shut_out)

    def include(self, others: Readers) -> bool:
        """Whether nobody is among others who is not among these."""
        if self.everybody and not self.shut_out:
            return True
        if not (others.everybody or others.groups or others.people):
            return True
        if others.everybody and not self.everybody:
            return False
        is_kept = self.shut_out <= others.shut_out or not (others.everybody or others.groups)
        return is_kept and (others.everybody or others.groups <= self.groups) and all(map(self._has, others.people))

    def _has(self, person: int) -> bool:
        if (USER, person) in self.shut_out:
            return False
        if person in self.people:
            return True
        try:
            known = pwd.getpwuid(person)
            groups = os.getgrouplist(known.pw_name, known.pw_gid)
        except (KeyError, OSError):
            return False
        if not self.groups.isdisjoint(groups):
            return True
        return self.everybody and not any((GROUP, group) in self.shut_out for group in groups)


EVERYBODY = Readers(everybody=True)
NOBODY = Readers(everybody=False)


def access_list(descriptor: int) -> bytes | None:
    """The access list of a file or folder; None where there is none, or no such lists."""
    try:
        return os.getxattr(f"/proc/self/fd/{descriptor}", ACCESS_LIST)
    except OSError:
        return None


def closed_list(listed: bytes) -> bytes:
    """An access list by which nobody but the owner has a right until a mode is set, which opens it by its mask."""
    entries = ENTRY.iter_unpack(listed[HEAD_BYTES:])
    packed = (ENTRY.pack(tag, 0 if tag in (MASK, OTHER) else rights, number) for tag, rights, number in entries)
    return listed[:HEAD_BYTES] + b"".join(packed)


def _listed(descriptor: int) -> Iterator[tuple[int, int, int]]:
    yield from ENTRY.iter_unpack((access_list(descriptor) or b"")[HEAD_BYTES:])


def _but_us(people: set[int]) -> frozenset[int]:
    return frozenset(people - {0, os.geteuid()})


@dataclass(frozen=True)
class KnownFile:
    """A file as it was found, and who else could read and write it.

    Attributes:
        found: None where there were several, one after the other.
        born: seconds and nanoseconds of its birth; None where the file system does not say.
        access_list: as the kernel has it; None where it has none.
    """

    readers: Readers
    found: os.stat_result | None = None
    born: tuple[int, int] | None = None
    writers: Readers = NOBODY
    access_list: bytes | None = None

    @classmethod
    def of(cls, descriptor: int) -> KnownFile:
        """That of a descriptor, which may be of ``O_PATH``."""
        rights = rights_of(descriptor, READ, WRITE)
        return cls(rights[READ], os.fstat(descriptor), _born(descriptor), rights[WRITE], access_list(descriptor))

    @property
    def rights(self) -> dict[int, Readers]:
        """Who has each right."""
        return {READ: self.readers, WRITE: self.writers}

    def with_(self, other: KnownFile) -> KnownFile:
        """What holds for both: who could read both."""
        readers = self.readers.with_(other.readers)
        writers = self.writers.with_(other.writers)
        if self.is_same(other):
            return replace(self, readers=readers, writers=writers)
        return KnownFile(readers, writers=writers)

    def is_same(self, other: KnownFile) -> bool:
        """Whether both are the very file, and the person's own."""
        return self.is_file(other) and all(one and one.st_uid == os.geteuid() for one in (self.found, other.found))

    def is_file(self, other: KnownFile) -> bool:
        """Whether both are the very file, whoever it belongs to; the number of one that is gone is given again."""
        is_number = self.found and other.found and os.path.samestat(self.found, other.found)
        return bool(is_number) and self.born == other.born

    def may_become(self, other: KnownFile) -> bool:
        """Whether the other one is this one, or one that shows nobody more."""
        return self.is_same(other) or self.readers.include(other.readers)


def _born(descriptor: int) -> tuple[int, int] | None:
    """When a file was made (statx(2)), which Python's own call tells from 3.15 on."""
    told = ctypes.create_string_buffer(STATX_BYTES)
    try:
        failed = _C.statx(descriptor, b"", AT_EMPTY_PATH, STATX_BTIME, told)
    except AttributeError:  # a C library without it
        return None
    if failed or not MASK_OF_STATX.unpack_from(told)[0] & STATX_BTIME:
        return None
    seconds, nanoseconds = TIME_OF_STATX.unpack_from(told, BTIME_AT)
    return seconds, nanoseconds


def rights_of(descriptor: int, *rights: int) -> dict[int, Readers]:
    """Who has each of some rights to a file or folder."""
    return {right: Readers.of(descriptor, right) for right in rights}


def closed_as(rights: Mapping[int, Readers], descriptor: int, mode: int) -> int:
    """What is left of a mode that a file or folder is to get, where nobody beside these gets one of these rights."""
    for right, allowed in rights.items():
        bits = right | WRITE if right == READ else right  # nobody writes what they may not read
        for taken in (0, bits, bits << 3, bits | bits << 3):
            if allowed.include(Readers.of(descriptor, right, mode & ~taken)):
                break
        mode &= ~taken
    return mode


def is_as_closed(folder: Path, above: Path) -> bool:
    """Whether nobody can change a folder, or one on the way to it from another one, who cannot change that one, too.

    What a link leads to elsewhere is not below that one.
    """
    try:
        place = folder.resolve()
        top = above.resolve()
        way = [one for one in (place, *place.parents) if one.is_relative_to(top)]
        return bool(way) and all(_writers(above).include(_writers(one)) for one in way)
    except OSError:
        return False


def _writers(folder: Path) -> Readers:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return Readers.of(descriptor, WRITE)
    finally:
        os.close(descriptor)
