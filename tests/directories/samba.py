"""A real Active Directory: Samba as a domain controller, in a folder of its own, with the people of a company."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from textwrap import dedent

from tests.directory.shapes import CORP, SERVICE_PASSWORD
from tests.directory.slapd import entry
from tests.inside import eventually, sh

ADDRESS = "10.99.0.1"  # LDAP's ports are fixed, so it has an address of its own
PASSWORD = "R1ght-pw"  # by Active Directory's rules: long, with capitals and digits
OTHER_PASSWORD = "An0ther-pw"
GROUPS = f"OU=Groups,{CORP}"
STAFF, GUESTS = f"OU=Staff,{CORP}", f"OU=Guests,{CORP}"
POLICIES = f"CN=Password Settings Container,CN=System,{CORP}"
MANY = 1600  # members of one group, and groups of one person: more than 1,500, which is one range of Active Directory
SETTINGS = """\
    server services = ldap
    interfaces = {address}
    bind interfaces only = yes
    tls certfile = {certificate}
    tls keyfile = {key}
    tls cafile = {authority}
    pid directory = {folder}
    ncalrpc dir = {folder}/ncalrpc
    log file = {folder}/log
    logging = file
    log level = 1
"""


def user(name: str, sam: str, folder: str = GUESTS, *more: str, password: str = PASSWORD) -> str:
    """A person; ``userAccountControl`` 512 is an ordinary one."""
    lines = ("objectClass: user", f"sAMAccountName: {sam}", f"unicodePwd:: {quoted(password)}")
    return entry(f"CN={name},{folder}", *lines, *(more or ("userAccountControl: 512",)))


def quoted(password: str) -> str:
    """A password as Active Directory wants it, in base64."""
    return base64.b64encode(f'"{password}"'.encode("utf-16-le")).decode()


def group(name: str, *members: str, folder: str = GROUPS, sam: str = "") -> str:
    """A group; the short name is one of the whole domain, the name in the DN is not."""
    return entry(
        f"CN={name},{folder}",
        *("objectClass: group", f"sAMAccountName: {sam or name}"),
        *(f"member: {member}" for member in members),
    )


def policy(name: str, *more: str) -> str:
    """A policy for the passwords of some people, as strict as it must be to be one."""
    values = {
        "msDS-PasswordSettingsPrecedence": "1",
        "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
        "msDS-PasswordHistoryLength": "0",
        "msDS-PasswordComplexityEnabled": "FALSE",
        "msDS-MinimumPasswordLength": "7",
        "msDS-MinimumPasswordAge": "0",
        "msDS-MaximumPasswordAge": "-9223372036854775808",
        "msDS-LockoutThreshold": "0",
        "msDS-LockoutObservationWindow": "-18000000000",
        "msDS-LockoutDuration": "-18000000000",
    }
    values |= dict(line.split(": ", 1) for line in more)
    lines = (f"{key}: {value}" for key, value in values.items())
    return entry(f"CN={name},{POLICIES}", "objectClass: msDS-PasswordSettings", *lines)


def people() -> str:
    """The company: names that are not in the DN, groups in groups and in a circle, accounts in every trouble."""
    alice = f"CN=Alice Smith,OU=Berlin,{STAFF}"
    bob = f"CN=Bob,{GUESTS}"
    return "".join(
        [
            entry(CORP, "changetype: modify", "replace: pwdProperties", "pwdProperties: 0", "-"),  # any password is one
            *(entry(f"OU={name},{CORP}", "objectClass: organizationalUnit") for name in UNITS),
            entry(f"OU=Berlin,{STAFF}", "objectClass: organizationalUnit"),
            user("Portal", "portal-svc", f"OU=Services,{CORP}", password=SERVICE_PASSWORD),
            user("Alice Smith", "ASmith", f"OU=Berlin,{STAFF}", *upn("alice.smith")),
            user("Bob", "bob"),
            user("Mallory", "mallory"),
            user("Disabled", "disabled", GUESTS, "userAccountControl: 514"),
            user("Expired", "expired", GUESTS, "userAccountControl: 512", "accountExpires: 131000000000000000"),
            user("Must", "mustchange", GUESTS, "userAccountControl: 512", "pwdLastSet: 0"),
            user("Locked", "lockedout"),
            user("Night", "atnight", GUESTS, "userAccountControl: 512", f"logonHours:: {NEVER}"),
            user("Desk", "atdesk", GUESTS, "userAccountControl: 512", "userWorkstations: DESK1"),
            user("Many", "many"),
            policy("Locking", "msDS-LockoutThreshold: 3", f"msDS-PSOAppliesTo: CN=Locked,{GUESTS}"),
            group("Team A", alice),
            group("Cluster Users", *(f"CN={name},{GUESTS}" for name in IN_THE_GROUP), f"CN=Team A,{GROUPS}"),
            group("Cluster Admins", bob),
            group("Cluster Users", f"CN=Mallory,{GUESTS}", folder=GUESTS, sam="Cluster Users (forged)"),
            *(crowd(number) for number in range(MANY)),
            group("Everybody", *(f"CN=Crowd{number},OU=Crowd,{CORP}" for number in range(MANY)), alice),
            *(group(f"Many{number}", f"CN=Many,{GUESTS}", folder=f"OU=Crowd,{CORP}") for number in range(MANY)),
            entry(
                f"CN=Team A,{GROUPS}", *("changetype: modify", "add: member", f"member: CN=Cluster Users,{GROUPS}", "-")
            ),
        ]
    )


UNITS = ("Staff", "Guests", "Groups", "Services", "Crowd")
IN_THE_GROUP = ("Bob", "Disabled", "Expired", "Must", "Locked", "Night", "Desk", "Many")
NEVER = base64.b64encode(bytes(21)).decode()  # no hour of the week


def upn(name: str) -> tuple[str, str]:
    """A name for logins that is another one than the short name."""
    return "userAccountControl: 512", f"userPrincipalName: {name}@corp.example"


def crowd(number: int) -> str:
    """Somebody who is there to be many; the last one has a password, which costs the server a while to hash."""
    folder = f"OU=Crowd,{CORP}"
    if number == MANY - 1:
        return user(f"Crowd{number}", f"crowd{number}", folder)
    lines = ("objectClass: user", f"sAMAccountName: crowd{number}", "userAccountControl: 544")
    return entry(f"CN=Crowd{number},{folder}", *lines)


class DomainController:
    """One domain controller of the domain corp.example; ``certificate`` is one for :data:`ADDRESS`."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path], authority: Path) -> None:
        self.folder = folder
        self.url, self.tls_url = f"ldap://{ADDRESS}", f"ldaps://{ADDRESS}"
        self._process: subprocess.Popen[bytes] | None = None
        self._database = folder / "private" / "sam.ldb"
        sh(*PROVISION, f"--targetdir={folder}", timeout_s=300)
        file = folder / "etc" / "smb.conf"
        places = {"folder": folder, "certificate": certificate[0], "key": certificate[1], "authority": authority}
        more = dedent(SETTINGS.format(address=ADDRESS, **places))
        kept = [line for line in file.read_text().splitlines() if "server services" not in line]
        file.write_text("\n".join(kept).replace("[global]", f"[global]\n{more}"))
        certificate[1].chmod(0o600)  # Samba takes no key that others may read
        (folder / "people.ldif").write_text(people())
        self.apply(folder / "people.ldif")

    def apply(self, ldif: Path) -> None:
        """Change the database beside the server, as an administrator on that host does."""
        sh("ldbmodify", "-H", str(self._database), str(ldif), timeout_s=300)

    def change(self, dn: str, *lines: str) -> None:
        """Change one entry."""
        file = self.folder / "change.ldif"
        file.write_text(entry(dn, "changetype: modify", *lines))
        self.apply(file)

    def set_password(self, dn: str, password: str) -> None:
        """A new password, set by an administrator."""
        self.change(dn, "replace: unicodePwd", f"unicodePwd:: {quoted(password)}", "-")

    def start(self) -> DomainController:
        """Start it and wait until it listens."""
        sh("ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo")
        command = ["samba", "--foreground", "--no-process-group", "--model=single"]
        with (self.folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [*command, "-s", str(self.folder / "etc" / "smb.conf")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        eventually(lambda: f"{ADDRESS}:636" in sh("ss", "-ltn"), "the domain controller listens", within_s=60)
        return self

    def stop(self) -> None:
        """Stop it."""
        if self._process:
            self._process.terminate()
            self._process.wait(timeout=20)
            self._process = None


PROVISION = (
    *("samba-tool", "domain", "provision", "--realm=CORP.EXAMPLE", "--domain=CORP", "--server-role=dc"),
    *("--dns-backend=NONE", "--host-name=dc1", f"--host-ip={ADDRESS}", "--adminpass=Adm1n-Password"),
)
