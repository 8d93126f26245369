"""The portal's own tables in JupyterHub's database: how one is made, and what becomes of the rows of who is deleted.

None has a foreign key, so that JupyterHub's upgrades need not know of them; copies and upgrades of a database take all
of :data:`portal.databases.connections.OWN` along.
"""

from __future__ import annotations

import logging
from functools import partial

from sqlalchemy import Table, delete, event, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import instance_state


def prepare(db: Session, table: Table, lost: str, log: logging.Logger) -> None:
    """Make a table where it is missing, and note in the session's info, by its name, that it is there.

    Without it the hub starts, and the log says what it does not keep. Rows with a ``user_id`` go with their person.

    Arguments:
        lost: what is not kept without it, in words.
    """
    try:
        table.create(db.get_bind(), checkfirst=True)
    except SQLAlchemyError as error:
        log.error("%s: the database makes no table %s: %s", lost, table.name, error)
        return
    db.info[table.name] = True
    if "user_id" in table.c:
        _forget_gone(table, db, log)
        event.listen(db, "before_flush", partial(_forget_deleted, table))


def _forget_gone(table: Table, db: Session, log: logging.Logger) -> None:
    """Rows of nobody, which the portal left until 0.1.0: the number is given to the next person."""
    from jupyterhub import orm

    try:
        db.execute(delete(table).where(table.c.user_id.not_in(select(orm.User.id))))
        db.commit()
    except SQLAlchemyError as error:
        db.rollback()
        log.error("Rows of people who were deleted stay in %s: %s", table.name, error)


def _forget_deleted(table: Table, db: Session, *_: object) -> None:
    """Who is deleted takes the rows along: the number may be somebody else's later."""
    from jupyterhub import orm

    for deleted in db.deleted:
        row = instance_state(deleted).obj()  # JupyterHub (6.1) deletes its own User, which passes for the row
        if isinstance(row, orm.User):
            db.execute(delete(table).where(table.c.user_id == row.id))
