"""The hub's database before the hub opens it: a file that is damaged or held by another process is not touched."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from portal.databases import schema, server
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
    """The database of a portal, as SQLAlchemy writes it; that of a server with its password in it.

    Raises:
        SiteError: the password cannot be read.
    """
    if not site.portal.database_url:
        return f"sqlite:///{Path(site.portal.state_folder) / FILE}"
    return server.url_of(site)


def check_of(site: Site) -> None:
    """Look at a portal's database, whatever it is, before it starts.

    Raises:
        DatabaseFault: it cannot be used.
    """
    if site.portal.database_url:
        server.check(site)
    else:
        check(Path(site.portal.state_folder) / FILE)


class DatabaseFault(PortalError):
    """The hub's database cannot be used: the file, what is wrong with it, and what to do."""

    reason = "database"

    def __init__(self, file: Path, what: str, advice: str) -> None:
        super().__init__(f"{file} {what}. The portal does not start, and nothing was changed.\n{advice}")


class SchemaFault(DatabaseFault):
    """The database is that of another version of JupyterHub; ``revision`` is its schema's."""

    def __init__(self, file: Path, revision: str, advice: str) -> None:
        super().__init__(file, f"has the schema {revision} of another version of JupyterHub", advice)
        self.revision = revision


def upgrade(file: Path) -> Path | None:
    """Bring a database to the schema of this JupyterHub; answers the copy of before, ``None`` when it has that schema.

    A copy is upgraded, and takes the file's place when all went well. No portal may run on it.

    Raises:
        DatabaseFault: it cannot be used, or not be upgraded; it is as it was.
    """
    try:
        check(file)
        return None
    except SchemaFault as fault:
        revision = fault.revision
    if revision not in schema.revisions():
        check(file)  # a newer one: its words say the way out
    backup = file.with_name(f"{file.name}.{revision}.{datetime.now():%Y%m%d-%H%M%S}")
    upgraded = file.with_name(f"{file.name}.upgraded")
    try:
        for copy in (backup, upgraded):
            _copy(file, copy)
        if file.with_name(f"{file.name}-wal").exists():  # it would be taken for that of the new file
            raise OSError(errno.EBUSY, "another process has it open")
        _to_head(upgraded)
        check(upgraded)
        upgraded.replace(file)
    except Exception as error:  # of SQLite, SQLAlchemy, alembic or the disk: it is as it was
        advice = f"The copy of before is {backup}. Take the version of the portal of before, and report this."
        raise DatabaseFault(file, f"could not be upgraded: {error}", advice) from error
    finally:
        upgraded.unlink(missing_ok=True)
    return backup


def _copy(file: Path, copy: Path) -> None:
    """All of a database, with what is in its log still, for this account alone."""
    copy.unlink(missing_ok=True)
    copy.touch(mode=0o600)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _to_head(file: Path) -> None:
    schema.to_head(f"sqlite:///{file}")


def _check_schema(file: Path, database: sqlite3.Connection) -> None:
    found = database.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = str(found[0]) if found else ""
    if not revision or revision == schema.revisions()[0]:
        return  # JupyterHub itself writes a number where none is
    if revision in schema.revisions():
        advice = "`portal database upgrade --site FILE` makes a copy beside it, and upgrades it."
    else:
        advice = (
            "It is newer than this portal. Start the newer portal again, or restore the copy from before its upgrade "
            f"({file.name}.… beside it; {HOW_TO})."
        )
    raise SchemaFault(file, revision, advice)


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
    if tables:
        _check_schema(file, database)


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
