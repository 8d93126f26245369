"""Copies of a portal's tables in its own database on a server: made before an upgrade, and brought back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from portal.databases import schema, server
from portal.databases.server import DatabaseServerFault
from portal.errors import PortalError
from portal.site import Site

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

PREFIX = "before_"
_COPY = re.compile(r"(before_[0-9a-f]+_[0-9]{12})_alembic_version\Z")


def upgrade(site: Site) -> str:
    """Bring the database to the schema of this JupyterHub; answers the name of the copy, ``""`` where it needs none.

    On PostgreSQL an upgrade that fails leaves everything as it was; MariaDB changes tables one by one, so there the
    copy may have to be brought back (:func:`restore`). No portal may run on it.

    Raises:
        DatabaseServerFault: it cannot be used, or not be upgraded.
    """
    with server.opened(site) as engine:
        with engine.connect() as db:
            server.check_is_closed(site, db)
            revision = server.revision_of(db)
            if server.is_new(db) or revision in ("", schema.revisions()[0]):
                return ""
            if revision not in schema.revisions():
                raise server.of_another_schema(site, revision)
            copy = make(db, revision)
            db.commit()
        try:
            schema.to_head(server.url_of(site))
        except Exception as error:  # of SQLAlchemy, alembic or the server
            said = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
            advice = (
                f"The tables of before are there as {copy}_…: with the version of the portal of before run "
                f"`portal database restore {copy} --site FILE`, and report this."
            )
            raise DatabaseServerFault(site, f"could not be upgraded: {said}", advice) from None
    return copy


def make(db: Connection, revision: str) -> str:
    """Copy every table beside itself; answers the name that the copies begin with."""
    copy = f"{PREFIX}{revision}_{datetime.now():%y%m%d%H%M%S}"
    for table in _own_tables(db):
        new, old = (_quoted(db, name) for name in (f"{copy}_{table}", table))
        db.exec_driver_sql(f"CREATE TABLE {new} AS SELECT * FROM {old}")  # noqa: S608  names, not values
    return copy


def restore(site: Site, copy: str) -> int:
    """Put the tables of a copy in the place of the portal's; answers how many people they hold. The copy stays.

    Raises:
        PortalError: there is no such copy, or it is another version's; nothing was changed.
        DatabaseServerFault: the server cannot do it.
    """
    from jupyterhub import orm

    from portal.databases import connections

    with server.opened(site) as engine:
        with engine.connect() as db:
            server.check_is_closed(site, db)
            _check_copy(site, db, copy)
        _empty(engine)
        for own in connections.OWN:
            own.TABLE.create(engine)
        session = orm.new_session_factory(server.url_of(site), **server.engine_options(site))()
        session.close()
        session.get_bind().dispose()
        with engine.begin() as db:
            _fill(db, copy)
            return int(db.exec_driver_sql("SELECT count(*) FROM users").scalar() or 0)


def _check_copy(site: Site, db: Connection, copy: str) -> None:
    known = sorted(copies(db))
    if copy not in known:
        there = f"there are: {', '.join(known)}" if known else "there is none: `portal database upgrade` makes them"
        raise PortalError(f"{site.portal.database_url} has no copy {copy}; {there}.")
    revision = server.revision_of(db, f"{copy}_alembic_version")
    if revision != schema.revisions()[0]:
        raise PortalError(
            f"The copy {copy} is of the schema {revision}, and this portal's is {schema.revisions()[0]}: run "
            "`portal database restore` of the version of the portal that the copy is from. Nothing was changed."
        )


def copies(db: Connection) -> Iterator[str]:
    """The names of the copies that are there."""
    from sqlalchemy import inspect

    for table in inspect(db).get_table_names():
        if found := _COPY.match(table):
            yield found[1]


def _own_tables(db: Connection) -> list[str]:
    from sqlalchemy import inspect

    return [table for table in inspect(db).get_table_names() if not table.startswith(PREFIX)]


def _empty(engine: Engine) -> None:
    """Drop every table but those of copies, whatever version made it."""
    from sqlalchemy import MetaData

    known = MetaData()
    with engine.begin() as db:
        known.reflect(db, only=_own_tables(db))
        known.drop_all(db)


def _fill(db: Connection, copy: str) -> None:
    """The rows of a copy into the new, empty tables of its own version."""
    from jupyterhub import orm
    from sqlalchemy import column, func, inspect, select
    from sqlalchemy import table as named

    from portal.databases import connections

    there = set(inspect(db).get_table_names())
    for table in (*orm.Base.metadata.sorted_tables, *(own.TABLE for own in connections.OWN)):
        if f"{copy}_{table.name}" not in there:
            continue
        columns = [one.name for one in table.columns]
        rows = select(named(f"{copy}_{table.name}", *map(column, columns)))
        db.execute(table.insert().from_select(columns, rows, include_defaults=False))
        if db.dialect.name == "postgresql" and "id" in columns:  # the next row's number comes from a sequence
            last = select(func.max(table.c.id)).scalar_subquery()
            db.execute(select(func.setval(func.pg_get_serial_sequence(table.name, "id"), last)))


def _quoted(db: Connection, name: str) -> str:
    return db.dialect.identifier_preparer.quote(name)
