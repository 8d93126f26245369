"""Access lists of files, as the kernel has them (acl(5), linux/posix_acl_xattr.h)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

ACCESS = "system.posix_acl_access"
DEFAULT = "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODYS = 0xFFFFFFFF  # the number in what is of no named person or group


def give(file: Path, *entries: tuple[int, int, int], name: str = ACCESS) -> None:
    """Give a file, or the new ones of a folder, a list: whose each entry is, which rights it has, and which number."""
    told = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in sorted(entries))
    try:
        os.setxattr(file, name, told)
    except OSError as error:
        pytest.skip(f"no access lists on this file system: {error}")


def open_to_one(file: Path, person: int, rights: int = 4, *, group: int = 0, name: str = ACCESS) -> None:
    """Open a file to one more person; its group has other rights than the mode says, which tells the mask."""
    whole = ((USER_OBJ, 7 if file.is_dir() else 6, NOBODYS), (USER, rights, person), (GROUP_OBJ, group, NOBODYS))
    give(file, *whole, (MASK, rights | group, NOBODYS), (OTHER, 0, NOBODYS), name=name)
