"""One at a time: a lock in a file that nobody else can open, as anybody may lock what they can read.

Standard library only: this runs before anything of the portal is installed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.environments.wheels import BuildError

WAITS_S = 3600.0  # the longest build takes half of that
STEP_S = 0.5
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS}
LOCKS = Path("/proc/locks")


@contextmanager
def alone(file: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of ``file``, which is made for it; who may not write there changes nothing there, and has none.

    Raises:
        BuildError: it is no file of this account's or of the folder's owner, or is held for too long.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in CLOSED or os.access(file.parent, os.W_OK):
            raise BuildError(f"{file}: {error.strerror}: no lock can be had; {_of(file)}") from error
        yield
        return
    try:
        _check(file, os.fstat(descriptor))
        _take(descriptor, file, say)
        yield
    finally:
        os.close(descriptor)


def _of(file: Path) -> str:
    """What to do about a file that cannot be opened."""
    try:
        owner = pwd.getpwuid(file.lstat().st_uid).pw_name
    except (OSError, KeyError):
        return "look at the folder that it lies in"
    return f"it is of {owner}: let that account do this, or remove it while nobody does"


def _check(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), file.parent.stat().st_uid):
        raise BuildError(f"{file} is not a file of yours: others could hold up what is done here. Remove it")


def _take(descriptor: int, file: Path, say: Callable[[str], None]) -> None:
    deadline = time.monotonic() + WAITS_S
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = holder(LOCKS.read_text(errors="replace") if LOCKS.exists() else "", os.fstat(descriptor))
        else:
            return
        if time.monotonic() >= deadline:
            words = f"another one has been at work here{by}, for {WAITS_S / 60:.0f} minutes"
            raise BuildError(f"{words}: run this again when it has ended (its lock is {file})")
        if not told:
            say(f"another one is at work here{by}; waiting for it")
            told = True
        time.sleep(STEP_S)


def holder(locks: str, file: os.stat_result) -> str:
    """Who holds a file, as ", process 123 of alice", or nothing where Linux does not tell (proc_locks(5))."""
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    for line in locks.splitlines():
        parts = line.split()
        if "->" not in parts and place in parts and parts[4].isdigit():  # 1: FLOCK ADVISORY WRITE 123 08:01:77 0 EOF
            return f", process {parts[4]}{_owner(int(parts[4]))}"
    return ""


def _owner(process: int) -> str:
    try:
        return f" of {pwd.getpwuid(Path(f'/proc/{process}').stat().st_uid).pw_name}"
    except (OSError, KeyError):
        return ""
