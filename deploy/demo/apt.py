"""Debian's apt, used as an ordinary user and without touching the machine's own package state.

The sources and the keys are the machine's; lists, cache and the (empty) status file lie in a folder of ours. For
another release than the machine's the same sources are asked for that one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from deploy.demo.console import DemoError
from deploy.demo.releases import Release, write_sources

# Hooks of the machine (a container image's cache cleaner, for one) must not run for downloads of ours.
CONFIG = """\
Dir::State::status "{folder}/status";
Dir::State::lists "{lists}";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
{sandbox}{sources}"""
OTHER_SOURCES = 'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{folder}/sources";\n'
MACHINE_LISTS = Path("/var/lib/apt/lists")


class Apt:
    """apt with folders of its own below ``folder``; with ``release``, for that one instead of the machine's."""

    def __init__(self, folder: Path, release: Release | None = None) -> None:
        self.folder = folder / release.codename if release else folder
        folder = self.folder
        self.is_other = release is not None
        if release:
            write_sources(release, folder / "sources")
        self.own_lists = folder / "lists"
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_bytes(b"")
        has_own = any(self.own_lists.glob("*_Packages*"))
        of_machine = not has_own and not self.is_other and any(MACHINE_LISTS.glob("*_Packages*"))
        self._use(MACHINE_LISTS if of_machine else self.own_lists)

    def _use(self, lists: Path) -> None:
        self.is_own = lists == self.own_lists
        sandbox = 'APT::Sandbox::User "root";\n' if os.geteuid() == 0 else ""
        sources = OTHER_SOURCES.format(folder=self.folder) if self.is_other else ""
        text = CONFIG.format(folder=self.folder, lists=lists, sandbox=sandbox, sources=sources)
        (self.folder / "apt.conf").write_text(text)

    def command(self, tool: str, *arguments: str) -> list[str]:
        """The argv of one call of ``apt-get`` or ``apt-cache``."""
        return [tool, "-c", str(self.folder / "apt.conf"), "-q", *arguments]

    def ask(self, tool: str, *arguments: str) -> str:
        """What a query prints; names that apt does not know are simply missing from it."""
        done = subprocess.run(self.command(tool, *arguments), capture_output=True, text=True, check=False)
        return done.stdout

    def update(self) -> None:
        """Fetch the archive's package lists into our own folder (a source that fails does not stop the others).

        Raises ``DemoError`` when no list at all is there afterwards.
        """
        if not self.is_other and not any(self.own_lists.glob("*_Packages*")):
            for file in MACHINE_LISTS.glob("*_*"):
                shutil.copy2(file, self.own_lists)
        self._use(self.own_lists)
        command = self.command("apt-get", "update")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not any(self.own_lists.glob("*_Packages*")):
            raise DemoError(f"apt-get update brought no package list: {last_lines(done.stderr)}")

    def versions(self, packages: list[str]) -> dict[str, list[str]]:
        """The versions that the archive has of each package, the newest first."""
        if self.is_own and not any(self.own_lists.glob("*_Packages*")):
            self.update()
        return parse_madison(self.ask("apt-cache", "madison", *packages))


def parse_madison(text: str) -> dict[str, list[str]]:
    """Read ``apt-cache madison``: lines of ``package | version | source``."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return found


def last_lines(text: str, lines: int = 3) -> str:
    """The last lines of a program's messages, in one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:]) or "no message"
