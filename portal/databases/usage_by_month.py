"""The portal's table of usage: what each person's sessions used in each month, a text of JSON each.

It is added up from the receipts as they come (:func:`portal.databases.ended_sessions.add_receipts`), so that it is
whole however many records of sessions are kept. Text and not columns, as there, and for the same reason.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import own_tables

MONTHS_KEPT = 2  # this one and the one before
LOG = logging.getLogger(__name__)
TABLE = Table(
    "dsportal_usage",
    MetaData(),
    Column("user_id", Integer, primary_key=True, autoincrement=False),
    Column("month", String(7), primary_key=True),  # 2026-11
    Column("record", Text, nullable=False),
)


def prepare(db: Session) -> None:
    """Make the table where it is missing."""
    own_tables.prepare(db, TABLE, "Nobody's usage is kept", LOG)


def month_of(seconds: float) -> str:
    """``2026-11``, by the time zone of the hub's host."""
    return time.strftime("%Y-%m", time.localtime(seconds))


def oldest_month() -> str:
    """The first month that is kept."""
    now = time.localtime()
    months = now.tm_year * 12 + now.tm_mon - MONTHS_KEPT  # counted from 0: the one before has number - 2
    return f"{months // 12:04}-{months % 12 + 1:02}"


def add(db: Session, user_id: int, month: str, figures: Mapping[str, int]) -> None:
    """Add to somebody's month; whoever asks commits, together with what the figures are from.

    Raises:
        SQLAlchemyError: it cannot be added.
    """
    if not db.info.get(TABLE.name) or month < oldest_month():
        return
    row = (TABLE.c.user_id == user_id) & (TABLE.c.month == month)
    before = db.execute(select(TABLE.c.record).where(row)).scalar()
    known: dict[str, Any] = json.loads(before) if before else {}
    text = json.dumps({**known, **{name: known.get(name, 0) + count for name, count in figures.items()}})
    if before is None:
        db.execute(insert(TABLE).values(user_id=user_id, month=month, record=text))
    else:
        db.execute(update(TABLE).where(row).values(record=text))


def remove_old(db: Session, days: int) -> None:
    """Remove what is too old; a site that keeps no sessions (``days`` 0) keeps no usage. Whoever asks commits.

    Raises:
        SQLAlchemyError: it cannot be removed.
    """
    if db.info.get(TABLE.name):
        db.execute(delete(TABLE).where(TABLE.c.month < oldest_month()) if days else delete(TABLE))


def of_person(db: Session, user_id: int) -> dict[str, str]:
    """The records of one person by month, the newest first.

    Raises:
        SQLAlchemyError: they cannot be read.
    """
    if not db.info.get(TABLE.name):
        return {}
    try:
        theirs = select(TABLE.c.month, TABLE.c.record)
        theirs = theirs.where(TABLE.c.user_id == user_id, TABLE.c.month >= oldest_month())
        return {row.month: row.record for row in db.execute(theirs.order_by(TABLE.c.month.desc()))}
    except SQLAlchemyError:
        db.rollback()
        raise
