"""The hub's database before the hub opens it: a file that is damaged or held by another process is not touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from portal.errors import PortalError
from portal.site import Site

FILE = "jupyterhub.sqlite"  # below portal.state_folder
HEADER_BYTES = 100  # every database begins with as many
LOCK_TIMEOUT_S = 5.0  # another process may be at the end of a transaction
TABLES = {"users", "servers", "spawners", "alembic_version"}  # JupyterHub's own, since its version 1.0
HOW_TO = "docs/howto/backup.md"
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")
_NOT_WRITABLE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")


def url_of(site: Site) -> str:
    """The database of a portal, as SQLAlchemy writes it."""
    return f"sqlite:///{Path(site.portal.state_folder) / FILE}"


class DatabaseFault(PortalError):
    """The hub's database cannot be used: the file, what is wrong with it, and what to do."""

    reason = "database"

    def __init__(self, file: Path, what: str, advice: str) -> None:
        super().__init__(f"{file} {what}. The portal does not start, and nothing was changed.\n{advice}")


def check(file: Path) -> None:
    """Open the database as a hub that wants to write: nothing is written. A file that is missing is no fault.

    Raises:
        DatabaseFault: it is empty, damaged, somebody else's, cannot be written, or is locked for ``LOCK_TIMEOUT_S``.
    """
    if not file.exists():
        return
    size = file.stat().st_size
    if size == 0:
        raise _damaged(file, "is empty")
    if size < HEADER_BYTES:
        raise _damaged(file, "is cut short")
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=LOCK_TIMEOUT_S)
        ) as database:
            _check_contents(file, database)
    except sqlite3.DatabaseError as error:
        raise _fault(file, error) from error


def prepare(file: Path) -> None:
    """Write commits to a log beside the database: each costs a fifth of the time, and is as safe as before.

    The setting stays in the file; a new database begins with it. On a file system that cannot do it nothing changes.
    """
    with closing(sqlite3.connect(file, timeout=LOCK_TIMEOUT_S)) as database:
        database.execute("PRAGMA journal_mode = WAL")


def _check_contents(file: Path, database: sqlite3.Connection) -> None:
    database.isolation_level = None  # no transaction but this one, which is never committed
    database.execute("BEGIN IMMEDIATE")
    (result,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if result != "ok":
        raise _damaged(file, f"is damaged: {' '.join(result.split())[:200]}")
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = TABLES - tables
    if tables and missing:  # without any it is new
        raise _damaged(file, f"is not a database of JupyterHub: the table {min(missing)} is missing")


def _fault(file: Path, error: sqlite3.DatabaseError) -> DatabaseFault:
    """SQLite's error as ours."""
    name = getattr(error, "sqlite_errorname", "")  # an error of the Python module itself has none
    if name.startswith(_LOCKED):
        advice = f"End the process that holds it ('fuser -v {file}' names it): another portal, a backup, an editor."
        return DatabaseFault(file, f"is locked by another process ({error})", advice)
    if name.startswith(_NOT_WRITABLE):
        advice = "The file and its folder belong to the account that runs the portal; see also 'ls -l' and 'df'."
        return DatabaseFault(file, f"cannot be written ({error})", advice)
    return _damaged(file, f"is damaged: {error}")


def _damaged(file: Path, what: str) -> DatabaseFault:
    advice = (
        f"Restore it from a backup ({HOW_TO}). Without a backup: move it away and start with a new one; "
        "the portal then ends the jobs of all its sessions."
    )
    return DatabaseFault(file, what, advice)
