"""Download the packages of a group: what is there is kept, what a nearby folder has is linked, apt brings the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from deploy.demo import debs
from deploy.demo.apt import Apt, last_lines
from deploy.demo.console import DemoError, Progress, say
from deploy.demo.debs import Deb
from deploy.demo.releases import OLDEST, Release
from deploy.demo.state_folder import State

SLOW_BYTES_PER_S = 2_500_000  # 20 Mbit/s: what the time that is announced assumes


def fetch(state: State, group: str, release: Release = OLDEST, is_host: bool = True) -> list[Path]:
    """The files of one group's packages, downloaded where they were missing; ``is_host``: the machine's own release.

    Raises ``DemoError`` when apt cannot bring them.
    """
    wanted = debs.load(group, release.lock)
    state.debs.mkdir(parents=True, exist_ok=True)
    files = remembered(state, group, wanted)
    if files is None:
        files = complete(state, group, wanted, None if is_host else release)
        memory = {"lock": debs.fingerprint(wanted), "files": [file.name for file in files]}
        (state.debs / f"{group}.json").write_text(json.dumps(memory))
    return files


def remembered(state: State, group: str, wanted: list[Deb]) -> list[Path] | None:
    """The files of an earlier, complete download for the same lock."""
    try:
        memory = json.loads((state.debs / f"{group}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    files = [state.debs / name for name in memory["files"]]
    fits = memory["lock"] == debs.fingerprint(wanted) and all(file.is_file() for file in files)
    return files if fits else None


def complete(state: State, group: str, wanted: list[Deb], other: Release | None = None) -> list[Path]:
    """Bring what is missing; the files of the whole group."""
    for deb in wanted:
        take_from_cache(state.debs / deb.filename, deb)
    missing = [deb for deb in wanted if not debs.is_intact(state.debs / deb.filename, deb)]
    names = {deb.package: deb.filename for deb in wanted}
    if missing:
        announce(group, missing)
        names |= download(Apt(state.folder / "apt", other), state, missing)
    return [state.debs / name for name in names.values()]


def take_from_cache(file: Path, deb: Deb) -> None:
    """Link (or copy) a package from the folder DSPORTAL_DEB_CACHE, when that has it whole."""
    folder = os.environ.get("DSPORTAL_DEB_CACHE")
    if not folder or debs.is_intact(file, deb) or not debs.is_intact(Path(folder) / deb.filename, deb):
        return
    kept = Path(folder) / deb.filename
    file.unlink(missing_ok=True)
    try:
        if kept.stat().st_uid == os.geteuid():  # another one could still change it
            file.hardlink_to(kept)
            return
    except OSError:  # another file system
        pass
    shutil.copyfile(kept, file)


def announce(group: str, missing: list[Deb]) -> None:
    """Say how much will be downloaded and how long that takes."""
    total = sum(deb.size_bytes for deb in missing)
    seconds = total / SLOW_BYTES_PER_S
    say(
        f"  {len(missing)} Debian packages ({group}), {total / 1e6:.0f} MB, come now: "
        f"about {seconds:.0f} s at 20 Mbit/s. They are unpacked below the state folder, not installed."
    )


def download(apt: Apt, state: State, missing: list[Deb]) -> dict[str, str]:
    """Download with apt; one more try with fresh lists when the archive has moved on. Package → file name."""
    for fresh in (False, True):
        if fresh:
            apt.update()
        versions = available(apt, missing, final=fresh)
        if versions and brought(apt, state.debs, missing, versions, final=fresh):
            break
    names = {deb.package: replaced(deb, versions[deb.package]).filename for deb in missing}
    for deb in missing:
        if versions[deb.package] == deb.version and not debs.is_intact(state.debs / deb.filename, deb):
            raise DemoError(f"{deb.filename} does not have the sum of the lock: the archive or the lock is wrong")
    return names


def replaced(deb: Deb, version: str) -> Deb:
    """The package with the version that the archive has now."""
    return Deb(deb.group, deb.package, version, deb.architecture, deb.size_bytes, deb.sha256)


def available(apt: Apt, missing: list[Deb], final: bool) -> dict[str, str]:
    """The version to take of each package: the pinned one, or at the last try the archive's current one."""
    known = apt.versions([deb.package for deb in missing])
    unknown = [deb.package for deb in missing if deb.package not in known]
    moved = [deb for deb in missing if deb.version not in known.get(deb.package, [])]
    if moved and not final:
        return {}
    if unknown:
        raise DemoError(f"the package sources of this machine do not have: {', '.join(unknown)} (see apt-cache policy)")
    for deb in moved:
        say(f"  {deb.package} {deb.version} is no longer in the archive: {known[deb.package][0]} is taken instead")
    return {deb.package: deb.version if deb not in moved else known[deb.package][0] for deb in missing}


def brought(apt: Apt, folder: Path, missing: list[Deb], versions: dict[str, str], final: bool) -> bool:
    """Run one download, show its progress. Raises ``DemoError`` with apt's message at the last try."""
    pins = [f"{package}={version}" for package, version in versions.items()]
    command = apt.command("apt-get", "download", *pins)
    errors = apt.folder / "download.err"
    with errors.open("w") as stream:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stream)
        watch(process, folder, missing)
    if process.returncode == 0:
        return True
    if final:
        raise DemoError(f"apt-get download failed: {last_lines(errors.read_text())}")
    return False


def watch(process: subprocess.Popen[bytes], folder: Path, missing: list[Deb]) -> None:
    """Show the progress of a download until it ends; end it when we are interrupted."""
    total = sum(deb.size_bytes for deb in missing) / 1e6
    names = [deb.package for deb in missing]
    try:
        with Progress(f"downloading {total:.0f} MB of Debian packages") as progress:
            while process.poll() is None:
                there = [file for name in names for file in folder.glob(f"{name}_*.deb")]
                done = sum(file.stat().st_size for file in there) / 1e6
                newest = max(there, key=lambda file: file.stat().st_mtime).name.split("_")[0] if there else ""
                progress.show(f"{done:.0f} of {total:.0f} MB  {newest}")
                time.sleep(0.2)
    finally:
        process.terminate()
        process.wait()
