"""Real slapd processes with a test directory, and the certificates that they show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.inside import eventually, sh
from tests.ports import held_port

BASE = "dc=cluster,dc=example"
PEOPLE, GROUPS = f"ou=people,{BASE}", f"ou=groups,{BASE}"
# A folder of people whose DN needs escaping both in a DN and in a filter.
ODD_PEOPLE = f"ou=staff (old*)\\, kept,{BASE}"
PASSWORDS = {"alice": "alice-pw", "bob": " blanks and ümläuts ", "mallory": "mallory-pw", "locked": "locked-pw"}
# Whose right password is not enough: by slapo-ppolicy(5), it was reset, or its time is over.
WAITING = {"reset": "reset-pw", "expired": "expired-pw"}
ADMIN_PASSWORD = "admin-pw"
# Accounts that may read the directory: all of it, all but people, all but who is in a group.
SERVICES = {"portal": "portal-pw", "sees-nobody": "nobody-pw", "sees-no-member": "member-pw"}
# Attributes of other makers' directories, as far as they say whether somebody left.
FOREIGN = """\
attributetype ( 1.1.2.1.1 NAME 'nsAccountLock' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.1.2.1.2 NAME 'userAccountControl' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.1.2.1.3 NAME 'accountExpires' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.1.2.1.4 NAME 'pwdLastSet' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
attributetype ( 1.1.2.1.5 NAME 'krbPrincipalExpiration' SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 SINGLE-VALUE )
objectclass ( 1.1.2.2.1 NAME 'foreignPerson' AUXILIARY
  MAY ( nsAccountLock $ userAccountControl $ accountExpires $ pwdLastSet $ krbPrincipalExpiration ) )
"""


def openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in ``folder``."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


# The table [ldap] of a site that asks it.
LDAP = """[ldap]
servers = ["{url}"]
ca_file = "{folder}/ca.crt"
user_dn = "uid={{username}},{people}"
group_base = "{groups}"
allowed_groups = ["jupyter"]
admin_groups = ["portal-admins"]
receive_timeout_s = 2
"""


class Authority:
    """A certificate authority of the tests' own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.folder, self.file = folder, folder / "ca.crt"
        names = ["-subj", f"/CN={name}", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt"]
        openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names)

    def certificate(self, name: str, alternatives: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate for ``alternatives`` (such as ``IP:127.0.0.1``) and its key."""
        request = ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"]
        openssl(self.folder, "req", "-newkey", "rsa:2048", "-nodes", *request)
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={alternatives}\n")
        signed_by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days)]
        files = ["-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", f"{name}.ext"]
        openssl(self.folder, "x509", "-req", *files, *signed_by)
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


def is_listening(port: int) -> bool:
    """True when something on this host takes connections to ``port`` (proc(5): state 0A)."""
    return f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


def entry(dn: str, *lines: str) -> str:
    """One LDIF entry."""
    return "\n".join([f"dn: {dn}", *lines, "", ""])


def person(name: str, folder: str, *more: str) -> str:
    """A person of the test directory."""
    lines = ["objectClass: inetOrgPerson", f"uid: {name}", f"cn: {name}", "sn: Test", *more]
    return entry(f"uid={name},{folder}", *lines)


def group(name: str, *members: str) -> str:
    """A group of the test directory."""
    return entry(
        f"cn={name},{GROUPS}", "objectClass: groupOfNames", f"cn: {name}", *(f"member: {dn}" for dn in members)
    )


def service(name: str) -> str:
    """The DN of an account of :data:`SERVICES`."""
    return f"cn={name},{BASE}"


def ldif(rogue: str) -> str:
    """The directory; ``rogue`` is where its references to other servers point."""
    people = {name: f"uid={name},{PEOPLE}" for name in PASSWORDS}
    odd = f"uid=zoe,{ODD_PEOPLE}"
    strict = f"pwdPolicySubentry: cn=strict,{BASE}"
    waiting = [f"uid={name},{PEOPLE}" for name in WAITING]
    locked = ("pwdAccountLockedTime: 000001010000Z",)
    return "".join(
        [
            entry(BASE, "objectClass: dcObject", "objectClass: organization", "dc: cluster", "o: Test"),
            entry(PEOPLE, "objectClass: organizationalUnit", "ou: people"),
            entry(GROUPS, "objectClass: organizationalUnit", "ou: groups"),
            entry(ODD_PEOPLE, "objectClass: organizationalUnit", "ou: staff (old*), kept"),
            entry(
                f"cn=policy,{BASE}",
                *("objectClass: device", "objectClass: pwdPolicy", "cn: policy"),
                *("pwdAttribute: userPassword", "pwdLockout: TRUE"),
            ),
            entry(
                f"cn=strict,{BASE}",
                *("objectClass: device", "objectClass: pwdPolicy", "cn: strict"),
                *("pwdAttribute: userPassword", "pwdMaxAge: 60", "pwdMustChange: TRUE"),
            ),
            *(
                person(name, PEOPLE, f"userPassword: {word}", *(locked if name == "locked" else ()))
                for name, word in PASSWORDS.items()
                if name != "bob"
            ),
            person("bob", PEOPLE, "userPassword:: IGJsYW5rcyBhbmQgw7xtbMOkdXRzIA=="),
            person("nopassword", PEOPLE),
            person("no-account-here", PEOPLE, "userPassword: right-pw"),
            person("reset", PEOPLE, f"userPassword: {WAITING['reset']}", "pwdReset: TRUE", strict),
            person(
                "expired",
                PEOPLE,
                *(f"userPassword: {WAITING['expired']}", "pwdChangedTime: 20240101000000Z"),
                strict,
            ),
            person("zoe", ODD_PEOPLE, "userPassword: zoe-pw"),
            *(
                entry(
                    service(name),
                    *("objectClass: device", "objectClass: simpleSecurityObject"),
                    *(f"cn: {name}", f"userPassword: {word}"),
                )
                for name, word in SERVICES.items()
            ),
            group(
                "jupyter",
                people["alice"],
                people["bob"],
                people["locked"],
                odd,
                *waiting,
                f"uid=no-account-here,{PEOPLE}",
            ),
            group("portal-admins", people["bob"]),
            group("others", people["mallory"]),
            *(group(f"many{number:04}", people["bob"]) for number in range(1200)),
            entry(
                f"uid=elsewhere,{PEOPLE}",
                *("objectClass: referral", "objectClass: extensibleObject", f"ref: {rogue}/uid=elsewhere,{PEOPLE}"),
            ),
            entry(
                f"cn=moved,{GROUPS}",
                *("objectClass: referral", "objectClass: extensibleObject", f"ref: {rogue}/cn=moved,{GROUPS}"),
            ),
        ]
    )


class Slapd:
    """One slapd with the test directory on free ports; its log tells what reached it."""

    def __init__(
        self,
        folder: Path,
        certificate: tuple[Path, Path] | None,
        rogue: str = "ldap://127.0.0.1:9",
        tree: str = "",
        schema: str = FOREIGN,
    ) -> None:
        self.folder = folder
        self._suffix = tree.partition("dn: ")[2].partition("\n")[0] or BASE
        self._schema = schema
        self.port, self.tls_port = held_port(), held_port()
        self.url, self.tls_url = f"ldap://127.0.0.1:{self.port}", f"ldaps://127.0.0.1:{self.tls_port}"
        self._addresses = f"{self.url}/ {self.tls_url}/" if certificate else f"{self.url}/"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "slapd.conf").write_text(self._conf(certificate))
        (folder / "people.ldif").write_text(tree or ldif(rogue))
        sh("slapadd", "-q", "-f", str(folder / "slapd.conf"), "-l", str(folder / "people.ldif"))

    def _conf(self, certificate: tuple[Path, Path] | None) -> str:
        schemas = "".join(
            f"include /etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine", "nis", "inetorgperson")
        )
        tls = f"TLSCertificateFile {certificate[0]}\nTLSCertificateKeyFile {certificate[1]}\n" if certificate else ""
        return (
            f"{schemas}{self._schema}modulepath /usr/lib/ldap\nmoduleload back_mdb.la\nmoduleload ppolicy.la\n{tls}"
            # What makes an empty password dangerous: slapd then answers it with success.
            "allow bind_anon_cred bind_anon_dn\nsizelimit unlimited\n"
            f'database mdb\nsuffix "{self._suffix}"\nrootdn "cn=admin,{self._suffix}"\nrootpw {ADMIN_PASSWORD}\n'
            f"directory {self.folder}/data\nmaxsize 536870912\n"
            f'overlay ppolicy\nppolicy_default "cn=policy,{BASE}"\n'
            "access to attrs=userPassword by anonymous auth by * none\n"
            f'access to dn.children="{PEOPLE}" by dn.exact="{service("sees-nobody")}" none by * read\n'
            f'access to attrs=member by dn.exact="{service("sees-no-member")}" none by * read\n'
            "access to * by * read\n"
        )

    def change(self, dn: str, *lines: str) -> None:
        """Change an entry as the directory's administrator: the lines of LDIF below its DN."""
        subprocess.run(
            ["ldapmodify", "-x", "-H", self.url, "-D", f"cn=admin,{self._suffix}", "-w", ADMIN_PASSWORD],
            input="\n".join([f"dn: {dn}", *lines, ""]),
            text=True,
            check=True,
            capture_output=True,
        )

    @property
    def log(self) -> str:
        """What slapd says about its connections."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> Slapd:
        """Start it and wait until it listens."""
        has_tls = "TLSCert" in (self.folder / "slapd.conf").read_text()
        addresses = f"{self.url}/ {self.tls_url}/" if has_tls else self.url
        command = ["slapd", "-d", "stats", "-h", addresses, "-f", str(self.folder / "slapd.conf")]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        # It says "slapd starting" before it listens, and a connection made to find out would count in its log.
        ports = [self.port, self.tls_port] if has_tls else [self.port]
        eventually(lambda: all(map(is_listening, ports)), "slapd listens", every_s=0.02)
        return self

    def stop(self) -> None:
        """Stop it; a second stop is no fault. One that has ended by itself says so, where its test failed."""
        if self._process:
            if self._process.poll() is not None:
                print(f"slapd ended by itself with status {self._process.returncode}:\n{self.log}")
            self._process.terminate()
            self._process.wait(timeout=10)
            self._process = None

    def count(self, pattern: str) -> int:
        """How many lines of the log match."""
        return len(re.findall(pattern, self.log))

    @property
    def logins(self) -> int:
        """How many binds reached it."""
        return self.count(r" BIND dn=.* method=128")

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return self.count(r" ACCEPT from ") - self.count(r" closed")

    @property
    def is_quiet(self) -> bool:
        """True when whoever came has gone, and every request has its result in the log."""
        requests = self.count(r" op=\d+ (EXT|BIND dn=.* method=\d+|SRCH base=)")
        return self.count(r" UNBIND") > 0 and not self.open_connections and self.count(r" RESULT ") == requests

    def operations(self) -> list[str]:
        """The kinds of everything that happened, without numbers and names; slapd's threads log in any order."""
        return sorted(re.findall(r"op=\d+ (RESULT .*?err=\d+|\w+)", self.log))
