"""A real 389 Directory Server, made by its own dscreate with its sample tree, and with people in every trouble."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.directory.shapes import ORG, SERVICE_PASSWORD
from tests.directory.slapd import entry
from tests.inside import eventually, sh

NAME, PORT, TLS_PORT = "ds1.org.example", 3892, 3893
PASSWORD, OTHER_PASSWORD = "right-password", "another-password"
PEOPLE, GROUPS = f"ou=people,{ORG}", f"ou=groups,{ORG}"
SERVICE = f"cn=portal,ou=services,{ORG}"
ADMIN, ADMIN_PASSWORD = "cn=Directory Manager", "directory-manager-pw"
CONTAINER = Path("/data")  # with this lib389 knows that no systemd is here
INSTANCE = Path("/etc/dirsrv/slapd-org")
INF = f"""\
[general]
config_version = 2
strict_host_checking = False
selinux = False
start = False
full_machine_name = {NAME}
[slapd]
instance_name = org
port = {PORT}
secure_port = {TLS_PORT}
root_password = {ADMIN_PASSWORD}
user = root
group = root
[backend-userroot]
suffix = {ORG}
sample_entries = yes
"""
OURS = (CONTAINER, INSTANCE, *map(Path, ("/etc/dirsrv/ssca", "/var/lib/dirsrv/slapd-org", "/dev/shm/slapd-org")))
ALLOWED = ("alice", "bob", "locked", "reset", "expired", "guess")


def modify(dn: str, *lines: str) -> str:
    """One change, as LDIF."""
    return entry(dn, "changetype: modify", *lines)


def person(name: str, number: int) -> str:
    """Somebody as dsidm makes people."""
    classes = ("nsPerson", "nsAccount", "nsOrgPerson", "posixAccount", "nsMemberOf")
    ids = (f"uidNumber: {number}", f"gidNumber: {number}", f"homeDirectory: /home/{name}")
    names = (f"uid: {name}", f"cn: {name}", f"displayName: {name}", f"userPassword: {PASSWORD}")
    return entry(f"uid={name},{PEOPLE}", *(f"objectClass: {one}" for one in classes), *names, *ids)


def group(name: str, *members: str) -> str:
    """A group as dsidm makes it."""
    classes = ("objectClass: groupOfNames", "objectClass: nsMemberOf", f"cn: {name}")
    return entry(f"cn={name},{GROUPS}", *classes, *(f"member: {member}" for member in members))


def settings() -> str:
    """What dsconf would set: memberOf, password policies, and what the portal's account may read besides."""
    plugin = "cn=MemberOf Plugin,cn=plugins,cn=config"
    rule = (
        f'aci: (targetattr="pwdUpdateTime || shadowExpire")(version 3.0; acl "the portal"; '
        f'allow (read, search, compare)(userdn="ldap:///{SERVICE}");)'
    )
    return "".join(
        [
            modify(plugin, "replace: nsslapd-pluginEnabled", "nsslapd-pluginEnabled: on"),
            modify(
                "cn=config",
                *(
                    "replace: passwordExp",
                    "passwordExp: on",
                    "-",
                    "replace: passwordMaxAge",
                    "passwordMaxAge: 8640000",
                    "-",
                ),
                *("replace: passwordLockout", "passwordLockout: on", "-"),
                *("replace: passwordMaxFailure", "passwordMaxFailure: 3", "-"),
                *("replace: passwordTrackUpdateTime", "passwordTrackUpdateTime: on"),
            ),
            modify(PEOPLE, "add: aci", rule),
        ]
    )


def people() -> str:
    """Groups in groups, unique names, and accounts that are locked, expired or to be changed."""
    service = ("objectClass: applicationProcess", "objectClass: simpleSecurityObject", "cn: portal")
    unique = ("objectClass: groupOfUniqueNames", "cn: gpu-users", f"uniqueMember: uid=alice,{PEOPLE}")
    return "".join(
        [
            entry(SERVICE, *service, f"userPassword: {SERVICE_PASSWORD}"),
            *(person(name, 7000 + number) for number, name in enumerate((*ALLOWED, "mallory"))),
            group("inner", *(f"uid={name},{PEOPLE}" for name in ALLOWED)),
            group("jupyter", f"cn=inner,{GROUPS}"),
            group("portal-admins", f"uid=bob,{PEOPLE}"),
            entry(f"cn=gpu-users,{GROUPS}", *unique),
            modify(f"uid=locked,{PEOPLE}", "replace: nsAccountLock", "nsAccountLock: true"),
            modify(
                f"uid=expired,{PEOPLE}", "replace: passwordExpirationTime", "passwordExpirationTime: 20240101000000Z"
            ),
        ]
    )


class Ds389:
    """One server with the certificate that dscreate makes for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ca_file = folder, INSTANCE / "ca.crt"
        self.url, self.tls_url = f"ldap://{NAME}:{PORT}", f"ldaps://{NAME}:{TLS_PORT}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        for old in OURS:
            shutil.rmtree(old, ignore_errors=True)
        for name in ("config", "run", "logs"):
            (CONTAINER / name).mkdir(parents=True)
        (CONTAINER / "config" / "container.inf").touch()
        hosts = Path("/etc/hosts")
        if NAME not in hosts.read_text():
            hosts.write_text(f"{hosts.read_text()}127.0.0.1 {NAME}\n")
        (folder / "instance.inf").write_text(INF)
        sh("dscreate", "from-file", str(folder / "instance.inf"), timeout_s=120)

    def start(self) -> Ds389:
        """Start it, with everything in it."""
        self._run()
        self.apply(settings())
        self._end()
        self._run()  # a plugin that is switched on works after a restart
        self.apply(people())
        # Later, as everybody whose password an administrator has set must change it then, the portal's account too.
        self.change("cn=config", "replace: passwordMustChange", "passwordMustChange: on")
        self.set_password("reset", OTHER_PASSWORD)
        return self

    def _run(self) -> None:
        command = ["ns-slapd", "-D", str(INSTANCE), "-d", "0", "-i", str(CONTAINER / "run" / "pid")]
        with (self.folder / "out").open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        eventually(lambda: f":{TLS_PORT} " in sh("ss", "-ltn"), "389 Directory Server listens", within_s=60)

    def _end(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None

    def apply(self, ldif: str, dn: str = ADMIN, password: str = ADMIN_PASSWORD) -> None:
        """Change the directory as its administrator, or as somebody else."""
        login = ["-x", "-H", f"ldap://127.0.0.1:{PORT}", "-D", dn, "-w", password]
        done = subprocess.run(["ldapmodify", "-a", *login], input=ldif, text=True, check=False, capture_output=True)
        assert not done.returncode, done.stderr

    def change(self, dn: str, *lines: str) -> None:
        """Change one entry."""
        self.apply(modify(dn, *lines))

    def set_password(self, name: str, password: str, own: str = "") -> None:
        """A new password, set by the administrator, or by the person who has ``own``."""
        dn = f"uid={name},{PEOPLE}"
        change = modify(dn, "replace: userPassword", f"userPassword: {password}")
        self.apply(change, dn, own) if own else self.apply(change)

    def stop(self) -> None:
        """Stop it."""
        self._end()
