"""What is looked at on a database server, how its tables are upgraded and brought back, and TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import alembic.command
import pytest
from alembic.config import Config
from jupyterhub import dbutil, orm
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError

from portal.databases import copies, schema, server
from portal.databases.server import DatabaseServerFault
from portal.errors import PortalError
from portal.site import Site
from tests.databases.servers import PASSWORD, DatabaseServer, MariaDb, PostgreSql
from tests.faults.hubs import FaultHub
from tests.hub.conftest import self_signed
from tests.inside import VENV_BIN, eventually, sh

HEAD, _, TWO_BEFORE = schema.revisions()[:3]
PEOPLE = 300
names = iter(range(1000))


@pytest.fixture
def site(server: DatabaseServer, tmp_path: Path) -> Site:
    """A portal on a database of its own, with some people in it."""
    name = f"kept{next(names)}"
    server.add_database(name)
    ours = server.site(tmp_path, name)
    session = orm.new_session_factory(url_of(ours), **options(ours))()
    session.add_all(orm.User(name=f"person{number}") for number in range(PEOPLE))
    session.commit()
    session.close()
    session.get_bind().dispose()
    return ours


def url_of(site: Site) -> str:
    """Its address, with the password."""
    return server.url_of(site)


def options(site: Site) -> dict[str, object]:
    """What its engine is made with."""
    return server.engine_options(site)


def make_old(site: Site, folder: Path) -> None:
    """As an earlier JupyterHub left it, by its own steps backwards."""
    settings = folder / "alembic.ini"
    dbutil.write_alembic_ini(str(settings), url_of(site))
    alembic.command.downgrade(Config(str(settings)), TWO_BEFORE)
    settings.unlink()


def told(site: Site, question: str) -> list[object]:
    """The first column of an answer."""
    engine = create_engine(url_of(site))
    with engine.connect() as db:
        found = [row[0] for row in db.execute(text(question))]
    engine.dispose()
    return found


def copied(what: str, copy: str, table: str) -> str:
    """A question about a table of a copy."""
    return f"SELECT {what} FROM {copy}_{table}"  # noqa: S608  our own words


def test_a_database_in_order_is_taken_and_one_of_an_earlier_version_is_refused(site: Site, tmp_path: Path) -> None:
    server.check(site)

    make_old(site, tmp_path)

    with pytest.raises(DatabaseServerFault, match=f"has the schema {TWO_BEFORE} of another version") as fault:
        server.check(site)
    assert "`portal database upgrade --site FILE` copies its tables there" in fault.value.message


def test_an_error_of_the_server_has_none_of_the_values_that_it_was_sent(site: Site) -> None:
    session = orm.new_session_factory(url_of(site), **options(site))()

    with pytest.raises(ProgrammingError) as fault:
        session.execute(text("SELECT code FROM nowhere WHERE code = :code"), {"code": "of-a-login"})

    assert "of-a-login" not in str(fault.value)
    session.close()
    session.get_bind().dispose()


def test_names_that_differ_in_capitals_are_two_people(site: Site) -> None:
    session = orm.new_session_factory(url_of(site), **options(site))()
    session.add_all(orm.User(name=name) for name in ("ASmith", "asmith"))
    session.commit()

    assert [orm.User.find(session, name).name for name in ("ASmith", "asmith")] == ["ASmith", "asmith"]
    session.close()
    session.get_bind().dispose()


@pytest.mark.parametrize("server", [MariaDb], indirect=True)
@pytest.mark.parametrize(
    ("collation", "words"),
    [
        ("utf8mb4_general_ci", "takes names in capitals and in small letters for one"),
        ("utf8mb3_bin", "does not keep every letter that people may type"),
    ],
)
def test_a_database_in_which_they_are_one_or_letters_are_lost_is_refused(
    server: MariaDb, tmp_path: Path, collation: str, words: str
) -> None:
    name = f"capitals{next(names)}"
    server.add_database(name)
    ours = server.site(tmp_path, name)
    check(ours)

    server.compare(name, collation)

    with pytest.raises(DatabaseServerFault, match=words) as fault:
        check(ours)
    assert "COLLATE utf8mb4_bin" in fault.value.message


@pytest.mark.parametrize("server", [PostgreSql], indirect=True)
@pytest.mark.parametrize("closed", ["CREATE ON SCHEMA public", "CONNECT ON DATABASE {name}"])
def test_a_database_where_every_account_makes_functions_is_refused(
    server: PostgreSql, tmp_path: Path, closed: str
) -> None:
    name = f"open{next(names)}"
    server.add_database(name)
    ours = server.site(tmp_path, name)

    server.open_schema(name)

    for used in (check, copies.upgrade, lambda one: copies.restore(one, "before_0_1")):
        with pytest.raises(DatabaseServerFault, match="lets every account of its server make functions") as fault:
            used(ours)
    assert "REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT ALL ON SCHEMA public TO portal;" in fault.value.message

    server.close(name, closed.format(name=name))
    check(ours)


def test_an_upgrade_keeps_everything_and_the_tables_of_before(site: Site, tmp_path: Path) -> None:
    make_old(site, tmp_path)

    copy = copies.upgrade(site)

    server.check(site)
    assert told(site, "SELECT version_num FROM alembic_version") == [HEAD]
    assert told(site, copied("version_num", copy, "alembic_version")) == [TWO_BEFORE]
    assert told(site, "SELECT count(*) FROM users") == told(site, copied("count(*)", copy, "users")) == [PEOPLE]
    assert copies.upgrade(site) == "", "a second one has nothing to do"
    with pytest.raises(PortalError, match=f"is of the schema {TWO_BEFORE}, and this portal's is {HEAD}"):
        copies.restore(site, copy)


def test_a_copy_is_brought_back_whole_and_the_portal_goes_on_from_it(site: Site) -> None:
    engine = create_engine(url_of(site))
    with engine.begin() as db:
        copy = copies.make(db, HEAD)
        db.execute(text("DELETE FROM users WHERE name <> 'person7'"))
        db.execute(text("CREATE TABLE of_a_newer_version (id INTEGER PRIMARY KEY)"))
    engine.dispose()

    assert copies.restore(site, copy) == PEOPLE

    server.check(site)
    assert told(site, "SELECT count(*) FROM users") == [PEOPLE]
    session = orm.new_session_factory(url_of(site), **options(site))()
    session.add(orm.User(name="somebody new"))  # with a number that nobody has
    session.commit()
    session.close()
    session.get_bind().dispose()
    with pytest.raises(PortalError, match=f"has no copy before_none; there are: {copy}"):
        copies.restore(site, "before_none")


def test_a_schema_that_is_newer_is_refused_by_both(site: Site) -> None:
    engine = create_engine(url_of(site))
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = 'fedcba987654'"))
    engine.dispose()

    for act in (server.check, copies.upgrade):
        with pytest.raises(DatabaseServerFault, match="It is newer than this portal"):
            act(site)


def test_an_account_that_may_make_no_tables_is_told_so_before_the_first_start(
    server: DatabaseServer, tmp_path: Path
) -> None:
    name = f"closed{next(names)}"
    server.add_database(name, owned=False)

    with pytest.raises(DatabaseServerFault, match="lets this account make no tables") as fault:
        check(server.site(tmp_path, name))
    assert "must own the database" in fault.value.message


check = server.check


@pytest.fixture
def other_authority(server: DatabaseServer) -> Iterator[str]:
    """A certificate that the server does not have."""
    yield self_signed(server.folder / "other", "DNS:localhost")["certificate"]


def with_authority(site: Site, host: str, authority: str) -> Site:
    """The same database, by TLS with a server that proves its name."""
    url = site.portal.database_url.replace("127.0.0.1", host)
    portal = site.portal.model_copy(update={"database_url": url, "database_ca_file": authority})
    return site.model_copy(update={"portal": portal})


def test_with_a_ca_file_only_the_server_that_proves_its_name_is_spoken_to(
    server: DatabaseServer, site: Site, other_authority: str
) -> None:
    check(with_authority(site, "localhost", server.authority))

    for host, authority in (("127.0.0.1", server.authority), ("localhost", other_authority)):
        with pytest.raises(DatabaseServerFault, match=r"does not answer as it should: .*(certificate|Certificate)"):
            check(with_authority(site, host, authority))


def test_the_doctor_says_what_the_database_is_and_what_is_wrong_with_it(hub: FaultHub, server: DatabaseServer) -> None:
    well = eventually(lambda: said_in(hub, "ok"), "it answers as soon as it should", within_s=120)  # busy machines wait
    server.stop()
    badly = said_in(hub, "")
    server.start()

    assert "answers in" in well
    assert badly.startswith("failed")
    assert "does not answer as it should" in badly
    assert PASSWORD not in well + badly


def said_in(hub: FaultHub, result: str) -> str:
    """The doctor's line about the database, where it begins so; else ``""``."""
    command = (str(VENV_BIN / "portal"), "doctor", "--site", str(hub.site_file))
    said = sh(*command, user="portal", check=False).splitlines()
    line = next(line for line in said if " database " in line)
    return line if line.startswith(result) else ""
