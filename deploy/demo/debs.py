"""The locks of the demo's Debian packages: one package a line, read and written here.

A line is ``group package version architecture bytes sha256``. The groups: ``cluster`` (what runs the private
cluster), ``browser``, ``rootless-test``, ``lmod`` and ``web-servers`` (what only the tests need), ``openmpi`` (what
Horovod is built with) and ``databases``, which are whole by themselves, so that some of their packages are in another
group too, ``directories`` (real directory servers), ``systems`` (what makes bare roots: tests/systems), ``desktop`` (a
web tool, docs/howto/web-tools.md), and ``base`` (the system below all of them, for hosts of another release; the lock
of Debian 12 has none). Each release has a lock of its own (:mod:`deploy.demo.releases`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.releases import BASE, OLDEST

LOCK = OLDEST.lock
GROUPS = (
    "cluster",
    "browser",
    "rootless-test",
    "lmod",
    "web-servers",
    "openmpi",
    "directories",
    "systems",
    "desktop",
    "databases",
    BASE,
)


@dataclass(frozen=True)
class Deb:
    """One pinned package: where it belongs, its version, its size and the sum that it must have."""

    group: str
    package: str
    version: str
    architecture: str
    size_bytes: int
    sha256: str

    @property
    def filename(self) -> str:
        """The file name that apt gives it (a colon in the version is written %3a)."""
        return f"{self.package}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"

    @property
    def line(self) -> str:
        """The package as a line of the lock."""
        fields = (self.group, self.package, self.version, self.architecture, self.size_bytes, self.sha256)
        return " ".join(str(field) for field in fields)


def parse(text: str) -> list[Deb]:
    """Read a lock. Raises ``ValueError`` naming the first line that is none."""
    return [_deb(line) for line in text.splitlines() if line and not line.startswith("#")]


def _deb(line: str) -> Deb:
    fields = line.split()
    if len(fields) != 6 or fields[0] not in GROUPS or len(fields[5]) != 64:
        raise ValueError(f"debs.lock: {line!r} is not 'GROUP PACKAGE VERSION ARCHITECTURE BYTES SHA256'")
    group, package, version, architecture, size, sha256 = fields
    return Deb(group, package, version, architecture, int(size), sha256)


def load(group: str, lock: Path = LOCK) -> list[Deb]:
    """The packages of one group, in the lock's order."""
    return [deb for deb in parse(lock.read_text()) if deb.group == group]


def fingerprint(debs: Iterable[Deb]) -> str:
    """What an unpacked tree is stamped with: another lock gives another one."""
    return hashlib.sha256("\n".join(deb.line for deb in debs).encode()).hexdigest()


def is_intact(file: Path, deb: Deb) -> bool:
    """Whether ``file`` is there, whole, may be read, and has the lock's sum."""
    try:
        if not file.is_file() or file.stat().st_size != deb.size_bytes:
            return False
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == deb.sha256
    except PermissionError:  # a cache of somebody else's
        return False
