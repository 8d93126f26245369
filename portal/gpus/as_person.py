"""A command of the portal as a person, with a person's rights, for root: what it says is read through a pipe.

Root starts no kernel and no web tool: whoever can change an environment would have root's rights.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any

from portal.errors import KernelError, printable

LARGEST = 4 * 1024 * 1024
SHOWN = 64 * 1024  # bytes of what it says meanwhile; the rest is read and left out
LAST_WORDS_S = 2.0  # for what is still in a pipe when the command has ended, whoever holds that open
WITHIN_S = 12 * 3600.0  # a job may wait in the queue
ENDS_WITHIN_S = 30.0  # to take its job back
_OWN = ("PATH", "LANG", "SLURM_CONF")
LATER = "Ask again when the partition has room."
WHO = "name somebody who may use the portal, whose home the nodes see: --user NAME"


def said(argv: Sequence[str], user: str) -> str:
    """What the command says as that person; fails as :func:`asked`."""
    return asked(argv, user)[1]


def asked(argv: Sequence[str], user: str) -> tuple[int, str]:
    """The exit status of the command as that person, and what it says.

    They get no terminal of who asks: not to write to, nor to read from.

    Raises:
        KernelError: there is no such person, nobody may act as them here, or it did not end in time.
    """
    rights = rights_of(user)
    kept = {name: os.environ[name] for name in _OWN if name in os.environ}
    home = {"HOME": rights.pop("home"), "USER": rights["name"], "LOGNAME": rights.pop("name")}
    words = _Pipe(_kept)
    messages = _Pipe(_show)
    try:
        process = subprocess.Popen(
            argv, env=kept | home, cwd="/", stdin=subprocess.DEVNULL, stdout=words.end, stderr=messages.end,
            start_new_session=True, **rights,
        )  # fmt: skip
    except OSError as error:
        raise KernelError(f"The test cannot be started as {home['USER']}: {error.strerror}") from error
    finally:
        words.read()
        messages.read()
    try:
        status = process.wait(WITHIN_S)
    except subprocess.TimeoutExpired as error:
        hours = f"{WITHIN_S / 3600:g} hours"
        raise KernelError(f"The test as {home['USER']} did not end within {hours}, and is ended. {LATER}") from error
    finally:
        _end(process)
    messages.thread.join(LAST_WORDS_S)
    words.thread.join(LAST_WORDS_S)
    return status, bytes(words.kept).decode(errors="replace")


class _Pipe:
    """What a command says, read by a thread, which nobody waits for: others may hold the other end for ever."""

    def __init__(self, work: Callable[[IO[bytes], bytearray], None]) -> None:
        ours, self.end = os.pipe()
        self.kept = bytearray()
        self.thread = threading.Thread(target=work, args=(os.fdopen(ours, "rb", 0), self.kept), daemon=True)

    def read(self) -> None:
        """From now on; the other end is the command's alone."""
        os.close(self.end)
        self.thread.start()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have it take its job back where it still runs; what does not listen is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # what a hung file system holds ends with that
                process.wait(LAST_WORDS_S)


def _kept(pipe: IO[bytes], kept: bytearray) -> None:
    """The beginning of what the command says."""
    with pipe:
        while len(kept) < LARGEST and (part := pipe.read(65536)):
            kept += part


def _show(pipe: IO[bytes], _kept: bytearray) -> None:
    """What the command says meanwhile, such as the number of its job, to who asks; nothing in it steers a terminal."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = SHOWN
    with pipe:
        while part := pipe.read(4096):
            if shown := part[:left]:
                left -= len(shown)
                print(printable(decoder.decode(shown)), end="", file=sys.stderr, flush=True)


def rights_of(user: str) -> dict[str, Any]:
    """Whose rights the job has, for :class:`subprocess.Popen`, with name and home."""
    try:
        person = pwd.getpwnam(user) if user else pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise KernelError(f"There is no person {user}; {WHO}.") from error
    if person.pw_uid == 0:
        raise KernelError(f"root starts no kernels and no tools; {WHO}.")
    shown = {"name": person.pw_name, "home": person.pw_dir}
    if person.pw_uid == os.geteuid():
        return shown
    if os.geteuid() != 0:
        raise KernelError("Only root may have the job of another person submitted.")
    groups = os.getgrouplist(person.pw_name, person.pw_gid)
    return shown | {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": groups}
