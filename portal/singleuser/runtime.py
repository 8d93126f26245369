"""The private folder of one session on its node: it goes with the session, or, after a kill, with the next one."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

PREFIX = "dsp-"  # short: socket paths begin here
LOCK = "lock"  # held as long as the session's process lives
_held: list[IO[str]] = []


def runtime_folder() -> Path:
    """A new private folder for sockets, keys and Jupyter's own files of this session; it goes with the session."""
    runtime = _locked_folder()
    while not (runtime / LOCK).exists():  # another session that starts took it for a leftover, just before the lock
        runtime = _locked_folder()
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    return runtime


def _locked_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
    lock = (folder / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held.append(lock)
    return folder


def remove_leftovers() -> None:
    """Remove this person's folders whose session is gone: a server that is killed cannot do it itself."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, one that lives, one without a lock, or none any more
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
