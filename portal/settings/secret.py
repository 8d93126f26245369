"""A secret in a file of this account alone."""

from __future__ import annotations

import os
import stat

from portal.errors import SiteError

LONGEST = 1024


def read_secret(path: str, key: str) -> str:
    """The one line of a file; its end of line is not part of it.

    Arguments:
        key: the setting that names the file, for the error.

    Raises:
        SiteError: it cannot be read, or it is not a file of this account alone. The error holds nothing of it.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SiteError(path, [f"{key}: cannot be read: {error.strerror}"]) from None
    with open(file, "rb") as opened:  # noqa: PTH123  what is checked is what is read
        if fault := _fault(os.fstat(opened.fileno())):
            raise SiteError(path, [f"{key}: {fault}"])
        lines = opened.read(LONGEST + 1).splitlines()
    if len(lines) != 1 or not lines[0] or len(lines[0]) > LONGEST:
        raise SiteError(path, [f"{key}: is not one line; allowed: one line of at most {LONGEST} bytes"])
    try:
        return lines[0].decode()
    except UnicodeDecodeError:
        raise SiteError(path, [f"{key}: is not UTF-8"]) from None


def _fault(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if found.st_uid != os.geteuid():
        return f"belongs to uid {found.st_uid}; allowed: the hub's own account (uid {os.geteuid()}): chown it"
    if found.st_mode & 0o077:
        return f"has mode {stat.S_IMODE(found.st_mode):04o}; allowed: 0600, so that nobody else reads it: chmod 600"
    return ""
