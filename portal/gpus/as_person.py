"""A command of the portal as a person, with a person's rights, for root: what it says is read through a pipe.

Root starts no kernel and no web tool: whoever can change an environment would have root's rights.
"""

from __future__ import annotations

import codecs
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from portal.errors import KernelError, printable

LARGEST = 4 * 1024 * 1024
SHOWN = 64 * 1024  # bytes of what it says meanwhile; the rest is read and left out
LAST_WORDS_S = 2.0
_OWN = ("PATH", "LANG", "SLURM_CONF")
WHO = "name somebody who may use the portal, whose home the nodes see: --user NAME"


def said(argv: Sequence[str], user: str) -> str:
    """What the command says as that person; fails as :func:`asked`."""
    return asked(argv, user)[1]


def asked(argv: Sequence[str], user: str) -> tuple[int, str]:
    """The exit status of the command as that person, and what it says.

    They get no terminal of who asks: not to write to, nor to read from.

    Raises:
        KernelError: there is no such person, or nobody may act as them here.
    """
    rights = rights_of(user)
    kept = {name: os.environ[name] for name in _OWN if name in os.environ}
    home = {"HOME": rights.pop("home"), "USER": rights["name"], "LOGNAME": rights.pop("name")}
    messages, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            argv, env=kept | home, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
            start_new_session=True, **rights,
        )  # fmt: skip
    except OSError as error:
        os.close(messages)
        raise KernelError(f"The test cannot be started as {home['USER']}: {error.strerror}") from error
    finally:
        os.close(theirs)
    shown = threading.Thread(target=_show, args=(messages,), daemon=True)
    shown.start()
    with process:
        try:
            words = process.stdout.read(LARGEST) if process.stdout else b""
        except BaseException:
            process.send_signal(signal.SIGINT)  # it takes its job back
            raise
    shown.join(LAST_WORDS_S)
    return process.returncode, words.decode(errors="replace")


def _show(messages: int) -> None:
    """What the command says meanwhile, such as the number of its job, to who asks; nothing in it steers a terminal."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = SHOWN
    with open(messages, "rb", buffering=0) as pipe:
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
