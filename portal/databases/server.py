"""A portal's database on a server: its address, how it is connected to, and a look at it before the hub starts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.databases import schema
from portal.errors import PortalError
from portal.settings.secret import read_secret
from portal.site import Site

if TYPE_CHECKING:  # most commands need none of it
    from sqlalchemy.engine import Connection, Engine

CONNECT_WITHIN_S = 10
ANSWERS_WITHIN_S = 30  # a server that is cut off, not closed, would keep the hub for as long as TCP tries
WITHOUT_VALUES = {"hide_parameters": True}  # in errors, which the log has: codes of logins, the lines of sessions
DRIVERS = {"postgresql": ("postgresql+psycopg", "psycopg"), "mariadb": ("mysql+pymysql", "pymysql")}
PARTS = {"psycopg": "psycopg[binary]", "pymysql": "PyMySQL"}
DRIVER = (
    "Install it into the portal's environment: `make setup DATABASE={kind}`, the release's `./install "
    "--database {kind}`, or pip install '{part}'."
)
SERVER = "See portal.database_url and portal.database_password_file; {client} with the same values shows more."
CLIENTS = {"postgresql": "psql", "mariadb": "mariadb"}
OTHERS = "Each portal has a database of its own. For one that lost its state folder restore hub_id from its backup."
UPGRADE = "`portal database upgrade --site FILE` copies its tables there, and upgrades it."
NEWER = "It is newer than this portal. Start the newer portal again, or bring a copy back: `portal database restore`."
MAY_CREATE = "The account of portal.database_url must own the database, or may make tables in it: see {how_to}."
OPEN_SCHEMA = (
    "As PostgreSQL's administrator, in this database: REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC; GRANT ALL ON "
    "SCHEMA {schema} TO {account}; and look with \\df and \\do whose functions and operators are there: see {how_to}."
)
HOW_TO = "docs/howto/databases.md"
BINARY = (
    "As MariaDB's administrator, with the database's name: ALTER DATABASE portal CHARACTER SET utf8mb4 COLLATE "
    "utf8mb4_bin; one that a portal has used already is made anew."
)


class DatabaseServerFault(PortalError):
    """The database server cannot be used, or holds another portal's sessions; nothing was changed."""

    reason = "database"

    def __init__(self, site: Site, what: str, advice: str) -> None:
        super().__init__(f"{site.portal.database_url} {what}. The portal does not start.\n{advice}")


def of_another_schema(site: Site, revision: str) -> DatabaseServerFault:
    """The fault of a database that is that of another version of JupyterHub."""
    advice = UPGRADE if revision in schema.revisions() else NEWER
    return DatabaseServerFault(site, f"has the schema {revision} of another version of JupyterHub", advice)


def kind_of(site: Site) -> str:
    """``postgresql`` or ``mariadb``; ``""`` where the database is a file."""
    return site.portal.database_url.partition(":")[0]


def url_of(site: Site) -> str:
    """The database as SQLAlchemy writes it, with its password in it.

    Raises:
        SiteError: the password cannot be read.
    """
    from sqlalchemy import make_url

    url = make_url(site.portal.database_url).set(drivername=DRIVERS[kind_of(site)][0])
    if kind_of(site) == "mariadb":
        url = url.update_query_dict({"charset": "utf8mb4"})
    if file := site.portal.database_password_file:
        url = url.set(password=read_secret(file, "portal.database_password_file"))
    return url.render_as_string(hide_password=False)


def engine_options(site: Site) -> dict[str, Any]:
    """What an engine is made with: a connection is tried before it is used, and nothing is waited for without end."""
    authorities = site.portal.database_ca_file
    if kind_of(site) == "mariadb":
        limits: dict[str, Any] = {"read_timeout": ANSWERS_WITHIN_S, "write_timeout": ANSWERS_WITHIN_S}
        tls: dict[str, Any] = {"ssl_ca": authorities, "ssl_verify_cert": True, "ssl_verify_identity": True}
    else:  # libpq's names: postgresql.org/docs/15/libpq-connect.html
        limits = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
        limits["tcp_user_timeout"] = ANSWERS_WITHIN_S * 1000
        tls = {"sslmode": "verify-full", "sslrootcert": authorities}
    arguments = {"connect_timeout": CONNECT_WITHIN_S, **limits, **(tls if authorities else {})}
    return {"pool_pre_ping": True, "connect_args": arguments, **WITHOUT_VALUES}


@contextlib.contextmanager
def opened(site: Site) -> Iterator[Engine]:
    """An engine for the portal's database.

    Raises:
        DatabaseServerFault: the driver is missing, or the server does not do what it is asked for.
        SiteError: the password cannot be read.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    kind = kind_of(site)
    try:
        engine = create_engine(url_of(site), **engine_options(site))
        try:
            yield engine
        finally:
            engine.dispose()
    except ModuleNotFoundError as error:
        advice = DRIVER.format(kind=kind, part=PARTS[DRIVERS[kind][1]])
        raise DatabaseServerFault(site, f"needs the Python package {error.name}, which is missing", advice) from None
    except SQLAlchemyError as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        advice = SERVER.format(client=CLIENTS[kind])
        raise DatabaseServerFault(site, f"does not answer as it should: {said}", advice) from None


def check(site: Site) -> None:
    """Look at the database before the portal starts.

    Raises:
        DatabaseServerFault: it cannot be used.
    """
    with opened(site) as engine, engine.connect() as db:
        check_is_closed(site, db)
        _check_names(site, db)
        if is_new(db):
            _check_may_create(site, db)
            return
        check_schema(site, db)
        _check_sessions(site, db)


def is_new(db: Connection) -> bool:
    """Whether no portal has used it yet."""
    from sqlalchemy import inspect

    return not inspect(db).has_table("spawners")


def check_schema(site: Site, db: Connection) -> None:
    """It is this version's.

    Raises:
        DatabaseServerFault: it is another one's.
    """
    revision = revision_of(db)
    if revision and revision != schema.revisions()[0]:
        raise of_another_schema(site, revision)


def revision_of(db: Connection, table: str = "alembic_version") -> str:
    """The schema of the database, or of a copy in it; ``""`` where it tells none: JupyterHub writes one then."""
    from sqlalchemy import column, inspect, select
    from sqlalchemy import table as named

    if not inspect(db).has_table(table):
        return ""
    return str(db.execute(select(column("version_num")).select_from(named(table))).scalar() or "")


def check_is_closed(site: Site, db: Connection) -> None:
    """Nobody else makes functions where our questions find them, as every account of PostgreSQL may do until 14.

    One that fits a question better than PostgreSQL's own runs in its place, as our account: it is the first question.

    Raises:
        DatabaseServerFault: everybody who reaches the database may make some.
    """
    from sqlalchemy import text

    if kind_of(site) != "postgresql":
        return
    reached = "pg_catalog.has_database_privilege('public', pg_catalog.current_database(), 'CONNECT')"
    is_open = f"{reached} AND pg_catalog.has_schema_privilege('public', one, 'CREATE')"
    schemas = "pg_catalog.unnest(pg_catalog.current_schemas(false)) AS one"
    asked = f"SELECT one, current_user FROM {schemas} WHERE {is_open}"  # noqa: S608  our own words
    if found := db.execute(text(asked)).first():
        what = f"lets every account of its server make functions in its schema {found[0]}, which run as the portal"
        raise DatabaseServerFault(site, what, OPEN_SCHEMA.format(schema=found[0], account=found[1], how_to=HOW_TO))


def _check_names(site: Site, db: Connection) -> None:
    """Names that differ in capitals are two people for UNIX: MariaDB compares as the database says."""
    from sqlalchemy import text

    if kind_of(site) != "mariadb":
        return
    column = "WHERE table_schema = DATABASE() AND table_name = 'users' AND column_name = 'name'"
    kept = f"SELECT collation_name FROM information_schema.columns {column}"  # noqa: S608  our own words
    collation = db.execute(text(kept)).scalar() or db.execute(text("SELECT @@collation_database")).scalar()
    if not str(collation).endswith("_bin"):
        raise DatabaseServerFault(site, f"takes names in capitals and in small letters for one ({collation})", BINARY)
    if not str(collation).startswith("utf8mb4_"):
        raise DatabaseServerFault(site, f"does not keep every letter that people may type ({collation})", BINARY)


def _check_may_create(site: Site, db: Connection) -> None:
    from sqlalchemy import Column, Integer, MetaData, Table
    from sqlalchemy.exc import SQLAlchemyError

    tried = Table("dsportal_trial", MetaData(), Column("id", Integer))
    try:
        tried.create(db)
        tried.drop(db)
        db.commit()
    except SQLAlchemyError as error:
        said = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        advice = MAY_CREATE.format(how_to=HOW_TO)
        raise DatabaseServerFault(site, f"lets this account make no tables: {said}", advice) from None


def _check_sessions(site: Site, db: Connection) -> None:
    """None of another portal: its jobs would be ended as those of nobody."""
    from sqlalchemy import text

    folder = Path(site.portal.state_folder)
    rows = db.execute(text("SELECT state FROM spawners WHERE state LIKE '%\"key\"%'")).all()
    number = (folder / "hub_id").read_text().strip() if (folder / "hub_id").exists() else ""
    keys = {str(json.loads(state).get("key") or number) for (state,) in rows}
    if others := sorted({key[:6] for key in keys if not key.startswith(number)}):
        raise DatabaseServerFault(
            site, f"has sessions of another portal ({', '.join(others)}; this one is {number})", OTHERS
        )
