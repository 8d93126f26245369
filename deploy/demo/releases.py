"""The releases of Debian that the cluster can be made of, and the package sources of one that is not this machine's.

A host of the release gives its own /usr, over which the packages lie. On another one the whole system comes out of
packages: the lock of the release has them as the group ``base``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.console import DemoError

SOURCES = Path("/etc/apt")
BASE = "base"  # the group of what every host of the release has anyway


@dataclass(frozen=True)
class Release:
    """One release: its number, its name in package sources, its lock, and its Python."""

    version: str
    codename: str
    lock: Path
    python: str

    @property
    def is_whole(self) -> bool:
        """Whether the lock has a whole system, which starts on a host of another release."""
        return any(line.startswith(f"{BASE} ") for line in self.lock.read_text().splitlines())


HERE = Path(__file__).parent
RELEASES = {
    "12": Release("12", "bookworm", HERE / "debs.lock", "3.11"),
    "13": Release("13", "trixie", HERE / "debian13.lock", "3.13"),
}
OLDEST = RELEASES["12"]


def of_host(version: str) -> str:
    """The release to take where none was asked for: that of the host's Debian; the oldest where it is another."""
    return version if version in RELEASES else OLDEST.version


def groups(release: Release, host_version: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The groups to unpack, the first on top: on a host of another release the system itself lies below them."""
    return wanted if release.version == host_version else (*wanted, BASE)


def write_sources(release: Release, folder: Path, machine: Path = SOURCES) -> None:
    """The machine's sources of Debian, its mirrors and keys, for another release: files below ``folder``.

    Raises ``DemoError`` when the machine has none.
    """
    found = {}
    for file in (machine / "sources.list", *machine.glob("sources.list.d/*.list")):
        if file.is_file():
            found[file.with_suffix(".list").name] = moved_lines(file.read_text(), release.codename)
    for file in machine.glob("sources.list.d/*.sources"):
        found[file.name] = moved_stanzas(file.read_text(), release.codename)
    if not any(text.strip() for text in found.values()):
        raise DemoError(
            f"the package sources in {machine} name no mirror of Debian, whence Debian {release.version} would come: "
            "start this on a Debian, or leave --debian out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name).write_text(text)


def moved_lines(text: str, codename: str) -> str:
    """The one-line sources of Debian, for another release; what is not Debian's own is left out."""
    found = (re.match(r"(deb (?:\[[^]]*\] )?\S+) (\S+) (.+)$", line.strip()) for line in text.splitlines())
    moved = [(match, moved_suite(match[2], codename)) for match in found if match]
    return "".join(f"{match[1]} {suite} {match[3]}\n" for match, suite in moved if suite)


def moved_stanzas(text: str, codename: str) -> str:
    """The sources in stanzas, by the same rule."""
    kept = []
    for stanza in re.split(r"\n\s*\n", text):
        suites = re.search(r"(?m)^Suites:(.*)$", stanza)
        moved = [moved_suite(suite, codename) for suite in suites[1].split()] if suites else []
        if suites and any(moved):
            named = " ".join(filter(None, moved))
            kept.append(f"{stanza[: suites.start()]}Suites: {named}{stanza[suites.end() :]}".strip("\n"))
    return "\n\n".join(kept) + "\n"


def moved_suite(suite: str, codename: str) -> str:
    """A suite of Debian in another release, such as bookworm-security in trixie; '' for one that is not Debian's."""
    names = "|".join([*(release.codename for release in RELEASES.values()), "oldstable", "stable"])
    match = re.fullmatch(rf"(?:{names})(-updates|-security)?/?", suite)
    return f"{codename}{match[1] or ''}" if match else ""
