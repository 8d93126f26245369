"""Real PostgreSQL and MariaDB servers out of Debian's packages, with TLS, which the tests may kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from portal.site import Site, parse
from tests.hub.conftest import self_signed
from tests.inside import eventually, sh

ACCOUNT = "mysql"  # an account of the cluster that owns nothing of the portal; PostgreSQL refuses to run as root
PASSWORD = "p@ss/w:rd-of-the-database"
FOLDER = Path("/cluster/test-databases")
BIN = Path("/usr/lib/postgresql/15/bin")


class DatabaseServer:
    """One server with databases of the account ``portal``; what differs is in the two classes below."""

    kind = ""
    port = 0

    def __init__(self) -> None:
        self.folder = FOLDER / self.kind
        self.data = self.folder / "data"
        self.password_file = FOLDER / f"{self.kind}.password"
        self.authority = ""
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """An empty server, with a certificate for localhost."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        FOLDER.chmod(0o755)
        shutil.chown(self.folder, ACCOUNT)
        self.authority = self_signed(self.folder / "tls", "DNS:localhost")["certificate"]
        for file in (self.folder / "tls").iterdir():
            shutil.chown(file, ACCOUNT)
        self.password_file.unlink(missing_ok=True)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(f"{PASSWORD}\n")
        shutil.chown(self.password_file, "portal")
        self._install()

    def settings(self, database: str = "portal", host: str = "127.0.0.1") -> dict[str, str]:
        """The lines of ``[portal]`` for one of its databases."""
        url = f"{self.kind}://portal@{host}:{self.port}/{database}"
        return {"database_url": url, "database_password_file": str(self.password_file)}

    def site(self, state: Path, database: str = "portal") -> Site:
        """A site on one of its databases, as this process would use it: the password file is this account's."""
        own = FOLDER / f"{self.kind}.own-password"
        own.touch(mode=0o600)
        own.write_text(PASSWORD)
        lines = {**self.settings(database), "database_password_file": str(own), "state_folder": str(state)}
        return parse({"portal": lines})

    def start(self) -> None:
        """Start it, and wait until it answers; after a kill it may refuse until its last process has gone."""
        eventually(self._is_up, f"{self.kind} answers", within_s=60)

    def _is_up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            argv = ["runuser", "-u", ACCOUNT, "--", *self._command()]
            with (self.folder / "server.log").open("ab") as log:
                self._process = subprocess.Popen(argv, stdout=log, stderr=log, cwd="/", start_new_session=True)
        return self._answers()

    def stop(self) -> None:
        """End it as an administrator does; connections are cut."""
        self._end(signal.SIGINT if self.kind == "postgresql" else signal.SIGTERM)

    def kill(self) -> None:
        """kill -9 of all of it."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        os.kill(self._pid(), number)
        self._process.wait(timeout=30)
        self._process = None

    def _pid(self) -> int:
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def add_database(self, name: str, owned: bool = True) -> None:
        """A database more; one that is not the portal's own may be read by it, and not more."""
        raise NotImplementedError

    def _install(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError


class PostgreSql(DatabaseServer):
    """PostgreSQL 15, passwords by SCRAM."""

    kind = "postgresql"
    port = 15432

    def _install(self) -> None:
        sh(str(BIN / "initdb"), "-D", str(self.data), "-U", ACCOUNT, "--auth-local=peer", "--auth-host=scram-sha-256",
           "--no-sync", "--encoding=UTF8", "--locale=C", user=ACCOUNT)  # fmt: skip
        self.start()
        self._sql(f"CREATE ROLE portal LOGIN PASSWORD '{PASSWORD}'")
        self.add_database("portal")

    def add_database(self, name: str, owned: bool = True) -> None:
        """As documented: a database of the account."""
        self._sql(f"CREATE DATABASE {name} OWNER {'portal' if owned else ACCOUNT}")

    def open_schema(self, name: str) -> None:
        """As PostgreSQL to 14 makes a database, and one that was brought along from there stays."""
        self._sql("GRANT CREATE ON SCHEMA public TO PUBLIC", name)

    def close(self, name: str, what: str) -> None:
        """As its administrator closes a part of it: ``CREATE ON SCHEMA public``, or ``CONNECT ON DATABASE …``."""
        self._sql(f"REVOKE {what} FROM PUBLIC", name)

    def _sql(self, statement: str, database: str = "postgres") -> str:
        return sh(str(BIN / "psql"), "-h", str(self.folder), "-p", str(self.port), "-d", database, "-Atc", statement,
                  user=ACCOUNT)  # fmt: skip

    def _command(self) -> list[str]:
        tls = self.folder / "tls"
        lines = [f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "ssl=on",
                 f"ssl_cert_file={tls}/certificate.pem", f"ssl_key_file={tls}/key.pem", "max_connections=20",
                 "log_statement=ddl"]  # fmt: skip
        return [str(BIN / "postgres"), "-D", str(self.data), *(word for line in lines for word in ("-c", line))]

    def _answers(self) -> bool:
        return "accepting" in sh(str(BIN / "pg_isready"), "-h", str(self.folder), "-p", str(self.port), check=False)


class MariaDb(DatabaseServer):
    """MariaDB 10.11, the one that holds Slurm's accounting in the demo."""

    kind = "mariadb"
    port = 13306

    def _install(self) -> None:
        sh("mariadb-install-db", "--no-defaults", f"--datadir={self.data}", "--skip-test-db",
           "--auth-root-authentication-method=socket", "--auth-root-socket-user=root", user=ACCOUNT)  # fmt: skip
        self.start()
        self._sql(f"CREATE USER portal@'%' IDENTIFIED BY '{PASSWORD}'")
        self.add_database("portal")

    def add_database(self, name: str, owned: bool = True) -> None:
        """As documented: all rights in one database, whose names are not the same in capitals."""
        self._sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        self._sql(f"GRANT {'ALL' if owned else 'SELECT'} ON {name}.* TO portal@'%'")

    def compare(self, name: str, collation: str) -> None:
        """Have the database compare texts in another way, such as MariaDB's own."""
        self._sql(f"ALTER DATABASE {name} CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}")

    def _sql(self, statement: str) -> str:
        return sh("mariadb", "--no-defaults", f"--socket={self.folder}/socket", "-e", statement)

    def _command(self) -> list[str]:
        tls = self.folder / "tls"
        return ["mariadbd", "--no-defaults", f"--datadir={self.data}", f"--socket={self.folder}/socket",
                f"--port={self.port}", "--bind-address=127.0.0.1", f"--pid-file={self.folder}/pid", "--skip-log-bin",
                "--skip-name-resolve", "--innodb-buffer-pool-size=32M", f"--ssl-cert={tls}/certificate.pem",
                f"--ssl-key={tls}/key.pem"]  # fmt: skip

    def _answers(self) -> bool:
        return "1" in sh("mariadb", "--no-defaults", f"--socket={self.folder}/socket", "-e", "select 1", check=False)


SERVERS = (PostgreSql, MariaDb)
