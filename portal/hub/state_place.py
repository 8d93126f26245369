"""Where a state folder belongs: one portal runs on it, on one host and at one path, and its number is that portal's.

A copy of the folder (a staging host, a backup that was unpacked beside) knows the sessions of the portal it was copied
from, and would stop their jobs. So a portal does not start on a folder that is somewhere else than it was, until
somebody says what it is: moved (:func:`adopt`), or a portal of its own from now on (:func:`separate`).
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import secrets
import shlex
import shutil
import sys
from pathlib import Path

from portal.errors import PortalError, SiteError

NUMBER = "hub_id"  # six hexadecimal digits that every session key of this portal begins with
PLACE = "hub_place"
OF_PROCESSES = ("hub.pid", "proxy.pid")  # and the folder of the proxy's plan
PROXY_FOLDER = "proxy"
WAYS_OUT = (
    "If the portal has moved (the other one runs no more): `portal state adopt --site FILE`; its sessions go on. "
    "If this is a copy: `portal state separate --site FILE`; it forgets the other one's sessions, which go on there. "
    "See docs/howto/backup.md"
)


class StateElsewhere(PortalError):
    """A state folder is not where its portal was: what it is must be said first."""

    reason = "state_elsewhere"


def here(folder: Path) -> str:
    """This host and this path."""
    return f"{os.uname().nodename}:{folder.resolve()}"


def fault(folder: Path) -> str:
    """Why a portal does not start on this folder; ``""`` when it is where it was, or was nowhere yet."""
    place = folder / PLACE
    was = place.read_text().strip() if place.exists() else ""
    if not was or was == here(folder):
        return ""
    return f"The state folder is that of a portal at {was}, and is at {here(folder)} now"


def check(folder: Path) -> None:
    """Nothing is done on a folder that is a copy, or was moved.

    Raises:
        StateElsewhere: with the two ways out.
        PortalError: it is another account's (:func:`check_account`).
    """
    check_account(folder)
    if words := fault(folder):
        raise StateElsewhere(f"{words}. Nothing was changed.\n{WAYS_OUT}")


def check_account(folder: Path) -> None:
    """Root does nothing in a folder of another account, which could lead it elsewhere; nor others, who may not write.

    Raises:
        PortalError: with the command that says which account it is.
    """
    try:
        number = folder.stat().st_uid
    except FileNotFoundError:
        return
    except PermissionError:
        raise PortalError(
            f"{folder} cannot be reached by {_own_name()}. Nothing was changed. Run this as the portal's account"
        ) from None
    own = os.geteuid()
    if number == own or (own != 0 and os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True)):
        return
    try:
        owner = pwd.getpwuid(number).pw_name
    except KeyError:
        raise PortalError(
            f"{folder} belongs to the account number {number}, which has no name on this host, and this is "
            f"{_own_name()}. Nothing was changed. Bring that account back, or give the portal's account a folder of "
            "its own and restore a backup there (docs/howto/backup.md)"
        ) from None
    act = ["runuser", "--pty"] if own == 0 else ["sudo"]
    command = " ".join([*act, "-u", owner, "--", *map(shlex.quote, sys.argv)])
    raise PortalError(
        f"{folder} belongs to {owner}, and this is {_own_name()}. Nothing was changed. Run it as {owner}:\n  {command}"
    )


def _own_name() -> str:
    own = os.geteuid()
    try:
        return pwd.getpwuid(own).pw_name
    except KeyError:
        return f"the account number {own}"


def number(folder: Path) -> str:
    """The six digits of the portal of this folder: other hubs' jobs are not ours.

    Raises:
        StateElsewhere: the folder was copied or moved.
        SiteError: what is in the file is no number.
    """
    check(folder)
    file = folder / NUMBER
    if not file.exists():
        write(file, secrets.token_hex(3))
    write(folder / PLACE, here(folder))
    found = file.read_text().strip()
    if not re.fullmatch(r"[0-9a-f]{6}", found):
        raise SiteError(str(file), [f"{found!r} is not six hexadecimal digits; restore it from a backup, or remove it"])
    return found


def adopt(folder: Path) -> str:
    """The portal has moved here: its number and its sessions are this one's; answers where it was.

    Raises:
        StateElsewhere: the other one still runs on this host.
    """
    check_account(folder)
    was = (folder / PLACE).read_text().strip() if (folder / PLACE).exists() else ""
    host, _, path = was.partition(":")
    if was != here(folder) and host == os.uname().nodename and runs(Path(path)):
        raise StateElsewhere(f"The portal at {was} still runs: end it first (systemctl stop dsportal, or portal down).")
    write(folder / PLACE, here(folder))
    return was


def separate(folder: Path, db_url: str) -> int:
    """Make a copy a portal of its own, which knows no session; answers how many it forgot. Nothing of Slurm is touched.

    Arguments:
        db_url: its database, as SQLAlchemy writes it.

    Raises:
        StateElsewhere: the folder is no copy: its portal would lose its sessions.
    """
    check_account(folder)
    if (folder / PLACE).exists() and not fault(folder):
        raise StateElsewhere(f"{folder} is where its portal was: it is no copy, and nothing was changed.")
    forgotten = _forget_sessions(db_url)
    for name in OF_PROCESSES:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / PROXY_FOLDER, ignore_errors=True)
    write(folder / NUMBER, secrets.token_hex(3))
    write(folder / PLACE, here(folder))
    return forgotten


def write(file: Path, text: str) -> None:
    """The whole text or nothing of it, for this account alone."""
    unfinished = file.with_suffix(".new")
    unfinished.touch(mode=0o600)
    unfinished.chmod(0o600)
    unfinished.write_text(text)
    unfinished.replace(file)


def _forget_sessions(db_url: str) -> int:
    from sqlalchemy import create_engine, text

    engine = create_engine(db_url)
    with engine.begin() as db:
        rows = db.execute(text("SELECT server_id, state FROM spawners")).all()
        db.execute(text("UPDATE spawners SET server_id = NULL, state = NULL"))
        for server in (server for server, _ in rows if server is not None):
            db.execute(text("DELETE FROM servers WHERE id = :server"), {"server": server})
    engine.dispose()
    return len([state for server, state in rows if server is not None or json.loads(state or "{}").get("key")])


def runs(folder: Path) -> bool:
    """Whether the hub that a state folder names is a process of this host."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / OF_PROCESSES[0]).read_text())
        return b"portal" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
