"""The schemas of JupyterHub's database: which ones this version knows, and how an older one becomes the newest."""

from __future__ import annotations

import contextlib
import functools
import sys
from tempfile import TemporaryDirectory


@functools.cache
def revisions() -> tuple[str, ...]:
    """The schemas that this JupyterHub knows, the newest first."""
    from alembic.script import ScriptDirectory
    from jupyterhub import dbutil

    return tuple(known.revision for known in ScriptDirectory(dbutil.ALEMBIC_DIR).walk_revisions())


def to_head(url: str) -> None:
    """What ``jupyterhub upgrade-db`` does (dbutil.py of 6.1), on this database, and with no program of the PATH.

    Arguments:
        url: the database as SQLAlchemy writes it; its password is in a folder of this account alone meanwhile.
    """
    from alembic import command
    from alembic.config import Config
    from jupyterhub import dbutil

    with TemporaryDirectory() as folder:
        settings = f"{folder}/alembic.ini"
        dbutil.write_alembic_ini(settings, url)
        with contextlib.redirect_stdout(sys.stderr):
            command.upgrade(Config(settings), "head")
