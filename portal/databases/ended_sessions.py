"""The portal's own table in JupyterHub's database: the sessions that have ended, a text of JSON each.

Beside what a record is looked for by, the table has one column: a version of the portal that keeps more of a session
changes the text and never the table, so that no upgrade and no way back has anything to do here. JupyterHub's own
upgrades do not know the table and leave it alone; the copies of a database have it (:mod:`portal.databases.copies`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.databases import own_tables, usage_by_month

KEPT_PER_PERSON = 50
REMOVED_EVERY_S = 3600.0  # who only looks has old records removed as often
DAY_S = 86_400
REMOVED_AT = "dsportal_ended_removed_at"
RECEIPT = '"receipt": {'  # stands in the text of a record that has one
LOG = logging.getLogger(__name__)
TABLE = Table(
    "dsportal_ended_sessions",
    MetaData(),
    Column("session_key", String(32), primary_key=True),
    Column("user_id", Integer, nullable=False),  # no foreign key: JupyterHub's upgrades need not know of us
    Column("ended_at", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
    Index("ix_dsportal_ended_sessions_user", "user_id", "ended_at"),
    Index("ix_dsportal_ended_sessions_ended", "ended_at"),
)


def prepare(db: Session) -> None:
    """Make the table where it is missing."""
    own_tables.prepare(db, TABLE, "Sessions that end are not kept", LOG)


def keep(db: Session, user_id: int, session_key: str, ended_at: int, record: str, days: int) -> None:
    """Keep the record of a session: one of each. Of one that is there already nothing but its log is completed.

    Raises:
        SQLAlchemyError: it is not kept.
    """
    if not db.info.get(TABLE.name):
        return
    try:
        before = db.execute(select(TABLE.c.record).where(TABLE.c.session_key == session_key)).scalar()
        if before is not None:
            _complete(db, session_key, before, record)
        elif days:
            row = {"session_key": session_key, "user_id": user_id, "ended_at": ended_at, "record": record}
            db.execute(insert(TABLE).values(**row))
        _remove(db, user_id, days)
        db.commit()
    except SQLAlchemyError:
        db.rollback()
        raise


def _complete(db: Session, session_key: str, before: str, record: str) -> None:
    known = json.loads(before)
    log = json.loads(record).get("log")
    if log and not known.get("log"):
        text = json.dumps({**known, "log": log})
        db.execute(update(TABLE).where(TABLE.c.session_key == session_key).values(record=text))


def without_receipt(db: Session, since: int, most: int) -> list[str]:
    """The records of sessions that have ended since then and have no receipt, of anybody, the newest ones.

    Raises:
        SQLAlchemyError: they cannot be read.
    """
    if not db.info.get(TABLE.name):
        return []
    try:
        found = select(TABLE.c.record).where(TABLE.c.ended_at >= since, TABLE.c.record.not_like(f"%{RECEIPT}%"))
        return list(db.execute(found.order_by(TABLE.c.ended_at.desc()).limit(most)).scalars())
    except SQLAlchemyError:
        db.rollback()
        raise


def add_receipts(db: Session, receipts: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep with each session, by its key, what it used, and add it to its person's month, both or neither.

    One that has a receipt, or is gone, is left as it is.

    Raises:
        SQLAlchemyError: none is kept.
    """
    if not receipts or not db.info.get(TABLE.name):
        return
    try:
        rows = select(TABLE.c.session_key, TABLE.c.user_id, TABLE.c.ended_at, TABLE.c.record)
        for key, user_id, ended_at, record in db.execute(rows.where(TABLE.c.session_key.in_(receipts))).all():
            known = json.loads(record)
            if not known.get("receipt"):
                text = json.dumps({**known, "receipt": dict(receipts[key])})
                db.execute(update(TABLE).where(TABLE.c.session_key == key).values(record=text))
                if receipts[key]["seconds"]:  # one that never had a node is none
                    usage_by_month.add(db, user_id, usage_by_month.month_of(ended_at), _usage(receipts[key]))
        db.commit()
    except SQLAlchemyError:
        db.rollback()
        raise


def _usage(receipt: Mapping[str, Any]) -> dict[str, int]:
    """What one session adds to its person's month."""
    seconds = receipt["seconds"]
    return {"sessions": 1, "gpu_s": receipt["gpus"] * seconds, "core_s": receipt["cores"] * seconds}


def _remove(db: Session, user_id: int, days: int) -> None:
    """What is too old, whoever's it is, and of this person what is too much."""
    db.execute(delete(TABLE).where(TABLE.c.ended_at < _oldest(days)))
    usage_by_month.remove_old(db, days)
    newest = select(TABLE.c.session_key).where(TABLE.c.user_id == user_id)
    newest = (
        newest.order_by(TABLE.c.ended_at.desc(), TABLE.c.session_key).offset(KEPT_PER_PERSON).limit(KEPT_PER_PERSON)
    )
    if many := list(db.execute(newest).scalars()):
        db.execute(delete(TABLE).where(TABLE.c.session_key.in_(many)))
    db.info[REMOVED_AT] = time.monotonic()


def of_person(db: Session, user_id: int, days: int) -> list[str]:
    """The records of one person, the newest first.

    Raises:
        SQLAlchemyError: they cannot be read.
    """
    if not db.info.get(TABLE.name):
        return []
    try:
        if time.monotonic() - db.info.get(REMOVED_AT, float("-inf")) > REMOVED_EVERY_S:
            _remove(db, user_id, days)
            db.commit()
        theirs: Any = select(TABLE.c.record).where(TABLE.c.user_id == user_id, TABLE.c.ended_at >= _oldest(days))
        newest = theirs.order_by(TABLE.c.ended_at.desc(), TABLE.c.session_key).limit(KEPT_PER_PERSON)
        return list(db.execute(newest).scalars())
    except SQLAlchemyError:
        db.rollback()
        raise


def _oldest(days: int) -> int:
    """The end of the oldest session that is kept."""
    return int(time.time()) - days * DAY_S if days else int(time.time()) + DAY_S
