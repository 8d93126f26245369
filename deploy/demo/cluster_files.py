"""What the cluster needs on its disks before its daemons start: /etc, keys, certificates, directory, database."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from deploy.demo import people, portal_service, services
from deploy.demo.start_plan import Plan

TEMPLATES = Path(__file__).with_name("etc")
SITE = Path(__file__).with_name("site.toml")
CLUSTER = Path("/cluster")
BIND_PASSWORD = CLUSTER / "hub/bind_password"  # as in site.toml
# Environments, and the kernels and web tools of the same names. `make environments ALL=1` builds all of them but the
# last, which a first run has where Python is the one that it is locked for.
MAY_BE_ABSENT = (
    "pytorch",
    "jax",
    "mxnet",
    "pytensor",
    "inference",
    "dask",
    "ray",
    "code-server",
    "image-trainer",
    "mlflow",
)
TEXTS: dict[str, str] = {}  # the templates, read before the root changes: a closed checkout is not there afterwards
# Slurm 22.05 never places a batch job at its submission but in the next pass: of the scheduler, once a second, or of
# backfill. After a start only backfill passes at first: with the default interval the first job waits for seconds.
SCHEDULER = "bf_interval=1,sched_min_interval=0,batch_sched_delay=0"


def read_templates() -> None:
    """Read every template into memory."""
    TEXTS.update({file.name: file.read_text() for file in [*TEMPLATES.iterdir(), SITE] if file.is_file()})


def filled(template: str, /, **values: str) -> str:
    """A template with its ``@NAME@`` filled in."""
    text = TEXTS[template]
    for key, value in values.items():
        text = text.replace(f"@{key.upper()}@", value)
    return text


def write(path: Path, text: str, mode: int = 0o644, owner: str = "") -> None:
    """Write a file that never is more open than ``mode``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
        stream.write(text)
    path.chmod(mode)
    if owner:
        shutil.chown(path, owner, owner)


def write_etc(plan: Plan) -> None:
    """The private /etc: accounts, names, sudo, PAM, modules, Slurm, the portal's settings."""
    write_accounts()
    etc = Path("/etc")
    write(etc / "hosts", filled("hosts", people=" ".join(f"{name}.localhost" for name in people.NAMES)))
    write(etc / "nsswitch.conf", filled("nsswitch.conf"))
    programs = {
        name: f"{plan.venv}/bin/{file}".replace(" ", "\\ ")
        for name, file in (("launcher", "portal-launch"), ("extender", "portal-extend"))
    }
    write(etc / "sudoers", filled("sudoers", **programs), 0o440)
    for name in ("auth", "account", "password", "session", "session-noninteractive"):
        kind = name.split("-")[0]
        lines = [line for line in TEXTS["pam"].splitlines() if line.startswith(kind)]
        write(etc / "pam.d" / f"common-{name}", "\n".join(lines) + "\n")
    for system in ("environment-modules", "lmod"):
        write(etc / system / "modulespath", "/cm/local/modulefiles\n/cm/shared/modulefiles\n")
    write(etc / "environment-modules/initrc", "#%Module\n")
    write_slurm(plan)
    write(portal_service.VENV, plan.venv)
    write(etc / "dsportal/site.toml", offered(filled("site.toml", venv=plan.venv, domain=plan.domain)))


def offered(site: str, apps: Path = Path("/cm/shared/apps")) -> str:
    """The settings without the kernels and web tools of those environments that are not built."""
    tables = re.split(r"(?m)^(?=\[)", site)
    absent = {f'name = "{name}"' for name in MAY_BE_ABSENT if not (apps / name).is_dir()}
    return "".join(
        table
        for table in tables
        if not (table.startswith(("[[kernel]]", "[[tool]]")) and absent & set(table.split("\n")))
    )


def write_accounts() -> None:
    """The accounts, and the folders that belong to them."""
    write(Path("/etc/passwd"), people.passwd(Path("/etc/passwd").read_text()))
    write(Path("/etc/group"), people.group_file(Path("/etc/group").read_text()))
    write(Path("/etc/shadow"), people.shadow(Path("/etc/passwd").read_text()), 0o600)
    for name in ("gshadow", "passwd-", "group-", "shadow-", "gshadow-"):
        Path("/etc", name).unlink(missing_ok=True)
    owned = {
        "munge": ["/run/munge", "/var/log/munge", "/var/lib/munge", "/cluster/munge"],
        "openldap": ["/run/slapd", "/cluster/ldap"],
        "nslcd": ["/run/nslcd"],
        "mysql": ["/run/mysqld", "/cluster/mysql"],
        "slurm": ["/run/slurm", "/cluster/slurm"],
        "portal": ["/cluster/hub"],
    }
    for name, folders in owned.items():
        for folder in folders:
            shutil.chown(folder, name, name)
    for folder in ("/cluster/munge", "/var/lib/munge", "/var/log/munge", "/cluster/hub", "/cluster/mysql"):
        Path(folder).chmod(0o700)


def write_slurm(plan: Plan) -> None:
    """Slurm's settings below /cluster/etc, where the host can read them too, and linked from /etc/slurm."""
    tracking = TEXTS["tracking.root" if plan.isolates else "tracking.rootless"].strip()
    write(CLUSTER / "etc/slurm.conf", filled("slurm.conf", tracking=tracking, scheduler=SCHEDULER))
    for name in ("cgroup.conf", "gres.conf", "my.cnf"):
        write(CLUSTER / "etc" / name, filled(name))
    write(CLUSTER / "etc/slurmdbd.conf", filled("slurmdbd.conf"), 0o600, "slurm")
    for name in ("slurm.conf", "cgroup.conf", "gres.conf", "slurmdbd.conf"):
        Path("/etc/slurm", name).symlink_to(CLUSTER / "etc" / name)
    for folder in ("state", "spool"):
        (CLUSTER / "slurm" / folder).mkdir(exist_ok=True)
    shutil.chown(CLUSTER / "slurm/state", "slurm", "slurm")
    (CLUSTER / "slurm/state").chmod(0o700)
    for name in ("slurmctld", "slurmdbd"):
        log = services.LOGS / f"{name}.log"
        log.touch()
        shutil.chown(log, "slurm", "slurm")
    key = CLUSTER / "munge/munge.key"
    if not key.exists():
        write(key, secrets.token_hex(512), 0o400, "munge")


def fill_directory() -> None:
    """The certificate authority, and slapd's settings and data; all made once per state folder."""
    make_certificates()
    write(Path("/etc/dsportal/ldap-ca.crt"), (CLUSTER / "tls/ca.crt").read_text())
    write(Path("/etc/nslcd.conf"), filled("nslcd.conf"), 0o640, "nslcd")
    write(services.LOGS / "nslcd.log", "", 0o644, "nslcd")
    password = CLUSTER / "ldap/root.pw"
    if not password.exists():
        write(password, secrets.token_urlsafe(24), 0o600)
    if not BIND_PASSWORD.exists():
        write(BIND_PASSWORD, secrets.token_urlsafe(24), 0o600, "portal")
    for name in ("slapd1", "slapd2"):
        text = filled("slapd.conf", name=name, rootpw=people.salted(password.read_text()))
        write(CLUSTER / "etc" / f"{name}.conf", text, 0o640, "openldap")
        load_directory(name)
        add_portal_account(name)


def load_directory(name: str) -> None:
    """Load the people into one server's empty database, all or nothing."""
    database = CLUSTER / "ldap" / name
    if (database / ".loaded").exists():
        return
    shutil.rmtree(database, ignore_errors=True)
    database.mkdir(mode=0o700)
    shutil.chown(database, "openldap", "openldap")
    slapadd(name, people.ldif())
    (database / ".loaded").touch()


def add_portal_account(name: str) -> None:
    """The hub's own account in the directory; a state folder of an earlier version gets it, too."""
    added = CLUSTER / "ldap" / name / ".portal"
    if not added.exists():
        slapadd(name, people.portal_account(BIND_PASSWORD.read_text()))
        added.touch()


def slapadd(name: str, ldif: str) -> None:
    """Put entries into the database of a server that does not run."""
    run_as("openldap", ["slapadd", "-q", "-f", f"/cluster/etc/{name}.conf"], ldif)


def run_as(user: str, command: list[str], text: str = "") -> None:
    """Run a short program as a local account. Raises ``CalledProcessError``, its output kept in logs/setup.log."""
    with (services.LOGS / "setup.log").open("a") as log:
        subprocess.run(
            command, input=text, text=True, stdout=log, stderr=log, check=True, user=user, group=user, extra_groups=[]
        )


IN_FORM = """\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature,keyEncipherment
authorityKeyIdentifier=keyid
"""


def make_certificates() -> None:
    """An authority of our own and the directory's certificate."""
    folder = CLUSTER / "tls"
    if (folder / "ldap.crt").exists():
        return
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"]
    authority = ["-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=Demo CA"]
    # In the form that Python 3.13 asks for: docs/howto/ldap.md shows the same lines.
    usage = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl([*new, *authority, *usage])
    openssl([*new, "-keyout", "ldap.key", "-out", "ldap.csr", "-subj", "/CN=localhost"])
    write(folder / "names", f"subjectAltName=DNS:localhost,IP:127.0.0.1\n{IN_FORM}")
    sign = [
        "openssl",
        "x509",
        "-req",
        "-in",
        "ldap.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-days",
        "3650",
        "-extfile",
        "names",
        "-out",
        "ldap.new",
    ]
    openssl(sign)
    shutil.chown(folder / "ldap.key", "openldap", "openldap")
    (folder / "ldap.new").rename(folder / "ldap.crt")


def openssl(command: list[str]) -> None:
    """Run openssl where the keys are (it writes keys with mode 0600)."""
    with (services.LOGS / "setup.log").open("a") as log:
        subprocess.run(command, cwd=CLUSTER / "tls", stdout=log, stderr=log, check=True)


def fill_database() -> None:
    """MariaDB's own tables, all or nothing."""
    data = CLUSTER / "mysql/data"
    partial = CLUSTER / "mysql/data.part"
    if data.exists():
        return
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mariadb-install-db", "--no-defaults", f"--datadir={partial}", "--skip-test-db"]
    run_as("mysql", [*command, "--auth-root-authentication-method=socket", "--auth-root-socket-user=root"])
    partial.rename(data)


def fill_accounts() -> None:
    """The accounting database: its owner is whoever comes through the socket as the UNIX account slurm."""
    statements = (
        "create database if not exists slurm_acct_db;"
        "create user if not exists 'slurm'@'localhost' identified via unix_socket;"
        "grant all on slurm_acct_db.* to 'slurm'@'localhost';"
    )
    with (services.LOGS / "setup.log").open("a") as log:
        subprocess.run(["mariadb", "--no-defaults", "-e", statements], stdout=log, stderr=log, check=True)
