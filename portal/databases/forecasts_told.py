"""The portal's table of forecasts: what a form said of a start, and when the session did start. Nobody's name is in it.

Beside its number and its time each row is a text of JSON, as in :mod:`portal.databases.ended_sessions`, and for the
same reason. Who is deleted leaves nothing here that would be theirs.
"""

from __future__ import annotations

import logging
import time

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text, delete, func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import own_tables

KEPT = 2000
DAYS = 90
DAY_S = 86_400
LOG = logging.getLogger(__name__)
TABLE = Table(
    "dsportal_forecasts",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
)


def prepare(db: Session) -> None:
    """Make the table where it is missing."""
    own_tables.prepare(db, TABLE, "Forecasts are not compared", LOG)


def keep(db: Session, at: int, record: str) -> None:
    """Keep one, and remove what is too old or too much.

    Raises:
        SQLAlchemyError: it is not kept.
    """
    if not db.info.get(TABLE.name):
        return
    try:
        db.execute(insert(TABLE).values(at=at, record=record))
        number = db.execute(select(func.max(TABLE.c.id))).scalar() or 0
        db.execute(delete(TABLE).where((TABLE.c.at < _oldest()) | (TABLE.c.id <= number - KEPT)))
        db.commit()
    except SQLAlchemyError:
        db.rollback()
        raise


def newest(db: Session) -> list[str]:
    """The records that are kept, the newest first.

    Raises:
        SQLAlchemyError: they cannot be read.
    """
    if not db.info.get(TABLE.name):
        return []
    try:
        found = select(TABLE.c.record).where(TABLE.c.at >= _oldest()).order_by(TABLE.c.id.desc()).limit(KEPT)
        return list(db.execute(found).scalars())
    except SQLAlchemyError:
        db.rollback()
        raise


def _oldest() -> int:
    return int(time.time()) - DAYS * DAY_S
