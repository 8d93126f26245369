"""A command of the portal as a person, with a person's rights, for root: what it says is read through a pipe.

Root starts no kernel and no web tool: whoever can change an environment would have root's rights.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from portal.errors import KernelError

LARGEST = 4 * 1024 * 1024
_OWN = ("PATH", "LANG", "SLURM_CONF")
WHO = "name somebody who may use the portal, whose home the nodes see: --user NAME"


def said(argv: Sequence[str], user: str) -> str:
    """What the command says as that person; fails as :func:`asked`."""
    return asked(argv, user)[1]


def asked(argv: Sequence[str], user: str) -> tuple[int, str]:
    """The exit status of the command as that person, and what it says.

    Raises:
        KernelError: there is no such person, or nobody may act as them here.
    """
    rights = rights_of(user)
    kept = {name: os.environ[name] for name in _OWN if name in os.environ}
    home = {"HOME": rights.pop("home"), "USER": rights["name"], "LOGNAME": rights.pop("name")}
    try:
        process = subprocess.Popen(
            argv, env=kept | home, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
            **rights,
        )  # fmt: skip
    except OSError as error:
        raise KernelError(f"The test cannot be started as {home['USER']}: {error.strerror}") from error
    with process:
        try:
            words = process.stdout.read(LARGEST) if process.stdout else b""
        except BaseException:
            process.send_signal(signal.SIGINT)  # it takes its job back
            raise
    return process.returncode, words.decode(errors="replace")


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
