"""A folder gets a name that nothing has: what others put there meanwhile is not replaced.

Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress

RENAME_NOREPLACE = 1  # renameat2(2)
UNKNOWN = {errno.EINVAL, errno.ENOSYS}  # to this file system, as NFS, or to this kernel


def give_name(folder: int, old: str, new: str) -> None:
    """Rename what is a folder, in the folder of a descriptor.

    Raises:
        FileExistsError: something has the name.
        OSError: it cannot be renamed.
    """
    try:
        _rename(folder, old, new)
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
        _rename_onto_own(folder, old, new)


def _rename(folder: int, old: str, new: str) -> None:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library without it
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new) from None
    if call(folder, os.fsencode(old), folder, os.fsencode(new), RENAME_NOREPLACE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)


def _rename_onto_own(folder: int, old: str, new: str) -> None:
    """Take the name with an empty folder first: rename(2) puts a folder in the place of an empty one."""
    os.mkdir(new, 0o700, dir_fd=folder)
    try:
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.rmdir(new, dir_fd=folder)
        raise
