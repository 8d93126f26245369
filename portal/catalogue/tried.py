"""A program of a kernel of the site, run to see what it says: bounded in time and in what is read of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

import psutil

from portal.catalogue.rights import Rights
from portal.homes import cache_folders
from portal.kernels.delta import Environment

MOST_BYTES = 1024**2  # of each of its two outputs
PART_BYTES = 64 * 1024
ADOPTS_ORPHANS = 36  # prctl(2), PR_SET_CHILD_SUBREAPER
LIBC = ctypes.CDLL(None)
ENDED_WITHIN_S = 5.0  # who forks faster than that stays
ALONE = threading.Lock()  # `portal doctor` tries kernels in several threads: one trial would end what is another's


class TrialFault(Exception):
    """It could not be started, or said too much, or did not end; the text goes on after the name of the program."""


def tried(argv: Sequence[str], env: Environment, within_s: float, rights: Rights) -> subprocess.CompletedProcess[str]:
    """Run a program of others, which gets no terminal of who asks, and whose process group is ended with it.

    With other rights than those of who asks, all that it has started is.

    Raises:
        TrialFault: as it says.
    """
    if "user" not in rights:
        return _tried(argv, env, within_s, rights)
    with ALONE, _nothing_left(rights["user"]):
        return _tried(argv, env, within_s, rights)


def _tried(argv: Sequence[str], env: Environment, within_s: float, rights: Rights) -> subprocess.CompletedProcess[str]:
    own = _who(rights["user"], env) if "user" in rights else {}
    quiet = cache_folders.with_own(env | own) | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        process = subprocess.Popen(
            argv, env=quiet, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, **rights,
        )  # fmt: skip
    except OSError as error:
        raise TrialFault(f"cannot be run: {error.strerror}") from error
    try:
        with process:
            try:
                return _read(process, within_s)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired as error:
        raise TrialFault(f"did not answer within {within_s:g} s") from error


@contextlib.contextmanager
def _nothing_left(user: int) -> Iterator[None]:
    """End what runs as this account in the end, of a session of its own, too: it could act on the next trial.

    What loses its parent is a child of this process meanwhile.
    """
    before = set(psutil.Process().children(recursive=True))
    LIBC.prctl(ADOPTS_ORPHANS, 1, 0, 0, 0)
    try:
        yield
    finally:
        until = time.monotonic() + ENDED_WITHIN_S
        while (left := _of(user, before)) and time.monotonic() < until:
            for one in left:
                with contextlib.suppress(psutil.Error):
                    one.kill()
            psutil.wait_procs(left, timeout=1)
        LIBC.prctl(ADOPTS_ORPHANS, 0, 0, 0, 0)


def _of(user: int, before: set[psutil.Process]) -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if one not in before and user in one.uids():
                found.append(one)
    return found


def _who(user: int, env: Environment) -> Environment:
    """Who it runs as, where it is told: the home of whoever asks is closed to it."""
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    return {key: value for key, value in {"HOME": "/", "USER": name, "LOGNAME": name}.items() if key in env}


def _read(process: subprocess.Popen[bytes], within_s: float) -> subprocess.CompletedProcess[str]:
    """What it says until it ends, or as much as is read of it."""
    deadline = time.monotonic() + within_s
    said = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe}
    with selectors.DefaultSelector() as pipes:
        for pipe in said:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            if not (ready := pipes.select(max(0, deadline - time.monotonic()))):
                raise subprocess.TimeoutExpired(process.args, within_s)
            for pipe in [pipe for key, _ in ready for pipe in said if pipe is key.fileobj]:
                part = os.read(pipe.fileno(), PART_BYTES)
                said[pipe] += part
                if not part:
                    pipes.unregister(pipe)
                if len(said[pipe]) > MOST_BYTES:
                    raise TrialFault(f"said more than {MOST_BYTES} bytes, and was ended")
    status = process.wait(max(0, deadline - time.monotonic()))
    out, err = (bytes(text).decode(errors="replace") for text in said.values())
    return subprocess.CompletedProcess(process.args, status, out, err)
