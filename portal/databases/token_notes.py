"""What people write of their tokens, as JupyterHub keeps it: so long, and no longer."""

from __future__ import annotations

import logging

from jupyterhub import orm
from sqlalchemy import func
from sqlalchemy.orm import Session

NOTE_MAX = 1023  # characters: as JupyterHub's column has it (6.1), to which SQLite holds nobody


def cut(db: Session, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
    """Cut those of before the limit, of tokens that have ended too: all of a person are read where one is shown."""
    note = orm.APIToken.note
    found = db.query(orm.APIToken).filter(func.length(note) > NOTE_MAX)
    count = found.update({"note": func.substr(note, 1, NOTE_MAX)}, synchronize_session=False)
    db.commit()
    if count:
        log.warning("The notes of %s tokens were longer than %s characters, and are cut", count, NOTE_MAX)
