"""Make a release's lock anew (maintainers): resolve what each group needs beyond any Debian host of that release."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.demo import debs
from deploy.demo.apt import Apt
from deploy.demo.console import DemoError, say
from deploy.demo.releases import BASE, OLDEST, Release

WANTED = {
    "cluster": [
        "slurmctld",
        "slurmd",
        "slurmdbd",
        "slurm-client",
        "munge",
        "slapd",
        "ldap-utils",
        "nslcd",
        "libnss-ldapd",
        "mariadb-server-core",
        "mariadb-client-core",
        "environment-modules",
        "sudo",
        "iproute2",
        "openssl",
        "r-base-core",
        "r-cran-irkernel",
        "dataset-fashion-mnist",
        "python3-venv",
        "charliecloud-runtime",
    ],
    "browser": [
        "chromium-headless-shell",
        "fonts-dejavu-core",
        "fonts-liberation",
        "libfaketime",
    ],  # what the tests need
    "rootless-test": ["uidmap"],
    "lmod": ["lmod"],  # beside the cluster's own Environment Modules, for the second cluster of the tests
    "web-servers": ["nginx", "apache2"],  # what the ring front_doors puts before the portal, beside the browser
    "openmpi": ["openmpi-bin", "libopenmpi3"],
    # Real directories and real PAM, for the ring of that name.
    "directories": [
        "samba-ad-dc",
        "samba-ad-provision",
        "samba-dsdb-modules",
        "samba-vfs-modules",
        "winbind",
        "ldb-tools",
        "389-ds-base",
        "libpam-ldapd",
        "libpam-oath",
    ],
    "systems": [],
    "desktop": [],
    "databases": ["postgresql-15", "postgresql-client-15"],  # for `make test-databases`; MariaDB is in the cluster
}
# The lock of a release that starts on other hosts: Horovod's kernels are for the Python of the oldest.
OF_WHOLE = {group: WANTED[group] for group in ("cluster", "browser", "rootless-test", "lmod")}
# Whole by themselves: Horovod is built with its own alone (deploy/environments/horovod.py), the databases lie on any.
APART = {"openmpi", "databases"}
# Each beside the cluster and the browser, for one ring: none of them is there for another one.
FOR_A_RING = {"web-servers", "directories", "systems", "lmod", "desktop"}
# Taken without what they depend on: the headers, of which a build needs neither a Fortran nor a second C compiler;
# mmdebstrap is a Perl program beside the host's own apt; a desktop takes the pages of noVNC, not its server of Node.js,
# and draws no icons of all formats: 5 MB, not 55.
ALONE = {
    "openmpi": ["libopenmpi-dev"],
    "systems": ["mmdebstrap"],
    "desktop": [
        "tigervnc-standalone-server",
        "tigervnc-common",
        "libfile-readbackwards-perl",
        "libunwind8",
        "libxfont2",
        "x11-xkb-utils",
        "novnc",
        "icewm",
        "icewm-common",
        "libimlib2",
        "xterm",
        "libutempter0",
    ],
}
# On every host that can start the demo: what Debian requires, the apt and the Python that run it, and the C library.
HOST = ["apt", "dpkg", "libc6", "python3", "python3-minimal", "usr-is-merged"]
# What else a whole system has: what people, pip and the tests find on every machine.
SYSTEM = ["procps", "sqlite3", "less", "passwd", "util-linux-extra", "ca-certificates", "tzdata", "netbase"]
HEADER = """\
# The Debian {version} packages of the demo cluster, pinned: group, package, version, architecture, bytes, sha256.
# Made by `deploy/demo/demo lock --debian {version}`; what every host of the release has anyway is {where}.
"""


def write_lock(folder: Path, release: Release, is_host: bool) -> None:
    """Resolve every group against the archive's current state and write the release's lock."""
    apt = Apt(folder, None if is_host else release)
    apt.update()
    oldest = release == OLDEST
    known = records(apt.ask("apt-cache", "dumpavail"))
    required = [name for name, record in known.items() if record.get("Priority") == "required"]
    host = closure(required + HOST, known, alternatives=False)
    taken = set(host)
    lines = []
    for group, wanted in WANTED.items() if oldest else OF_WHOLE.items():
        chosen = resolved(apt, wanted) if wanted else set()
        whole = closure(wanted, {name: known[name] for name in chosen & known.keys()})
        needed = sorted(whole - (host if group in APART else taken) | set(ALONE.get(group, ())))
        lines += [deb_of(group, known[name]).line for name in needed]
        taken |= set() if group in APART | FOR_A_RING else set(needed)
        say(f"{group}: {len(needed)} packages")
    if not oldest:
        below = resolved(apt, [*required, *HOST, *SYSTEM]) | host
        system = sorted(below - {line.split()[1] for line in lines})
        lines += [deb_of(BASE, known[name]).line for name in system]
        say(f"{BASE}: {len(system)} packages")
    header = HEADER.format(version=release.version, where="left out" if oldest else f"the group {BASE}")
    release.lock.write_text(header + "\n".join(lines) + "\n")


def resolved(apt: Apt, wanted: list[str]) -> set[str]:
    """The packages that apt would install for ``wanted`` on an empty system (it picks among alternatives)."""
    plan = apt.ask("apt-get", "install", "--simulate", "--no-install-recommends", *wanted, "usr-is-merged")
    names = set(re.findall(r"^Inst (\S+) ", plan, flags=re.MULTILINE))
    if not names:
        raise DemoError(f"apt finds no way to install {' '.join(wanted)}")
    return names


def records(dump: str) -> dict[str, dict[str, str]]:
    """Read ``apt-cache dumpavail``: the record of each package's newest version."""
    found: dict[str, dict[str, str]] = {}
    for paragraph in dump.split("\n\n"):
        record = dict(re.findall(r"^(\S+): (.*)$", paragraph, flags=re.MULTILINE))
        if "Package" in record:
            found.setdefault(record["Package"], record)
    return found


def closure(names: list[str], known: dict[str, dict[str, str]], alternatives: bool = True) -> set[str]:
    """Everything that ``names`` depend on among ``known``, themselves included, without Recommends.

    ``alternatives=False`` leaves out ``a | b``: nobody knows which of them a host has.
    """
    seen: set[str] = set()
    waiting = [name for name in names if name in known]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [other for other in dependencies(known[name], alternatives) if other in known]
    return seen


def dependencies(record: dict[str, str], alternatives: bool) -> list[str]:
    """The names in Depends and Pre-Depends, with or without the choices ``a | b``."""
    clauses = ", ".join(record.get(key, "") for key in ("Depends", "Pre-Depends")).split(",")
    kept = [clause for clause in clauses if alternatives or "|" not in clause]
    parts = [part.strip() for clause in kept for part in clause.split("|")]
    return [re.split(r"[ (:]", part)[0] for part in parts if part]


def deb_of(group: str, record: dict[str, str]) -> debs.Deb:
    """The lock's entry of an archive record."""
    version = record["Version"]
    architecture = record["Architecture"]
    return debs.Deb(group, record["Package"], version, architecture, int(record["Size"]), record["SHA256"])
