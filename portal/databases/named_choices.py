"""The portal's table of named choices: one row for each person, the list of them as a text of JSON.

Text and not columns, as in :mod:`portal.databases.ended_sessions`, and for the same reason.
"""

from __future__ import annotations

import logging

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import own_tables

LOG = logging.getLogger(__name__)
TABLE = Table(
    "dsportal_named_choices",
    MetaData(),
    Column("user_id", Integer, primary_key=True, autoincrement=False),
    Column("record", Text, nullable=False),
)


def prepare(db: Session) -> None:
    """Make the table where it is missing."""
    own_tables.prepare(db, TABLE, "Nobody's named choices are kept", LOG)


def is_there(db: Session) -> bool:
    """Whether the database of a session has the table."""
    return bool(db.info.get(TABLE.name))


def of_person(db: Session, user_id: int) -> str:
    """The text of one person; ``""`` where nothing was kept.

    Raises:
        SQLAlchemyError: it cannot be read.
    """
    if not is_there(db):
        return ""
    try:
        return db.execute(select(TABLE.c.record).where(TABLE.c.user_id == user_id)).scalar() or ""
    except SQLAlchemyError:
        db.rollback()
        raise


def keep(db: Session, user_id: int, record: str) -> None:
    """Put a text in the place of what was kept of a person.

    Raises:
        SQLAlchemyError: it is not kept.
    """
    row = TABLE.c.user_id == user_id
    try:
        if db.execute(select(TABLE.c.user_id).where(row)).scalar() is None:
            db.execute(insert(TABLE).values(user_id=user_id, record=record))
        else:
            db.execute(update(TABLE).where(row).values(record=record))
        db.commit()
    except SQLAlchemyError:
        db.rollback()
        raise
