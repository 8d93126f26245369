"""Make the release: what `make dist` calls. A tarball with all packages in it, an `install`, sums, and a list of parts.

    make_dist.py                      dist/dsportal-VERSION-MACHINE.tar.gz, for CPython 3.11 to 3.14
    make_dist.py --pythons 3.13       for one Python, smaller
    make_dist.py --to DIR             the tarball there
    make_dist.py --folder DIR         the unpacked folder alone

The same commit gives the same tarball: names are sorted, times are the commit's, owners are root.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.demo import state_folder
from deploy.demo.console import DemoError, say
from deploy.environments import audit, portal_venv
from deploy.environments.portal_venv import CHECKOUT, DEPLOY, LOCKS, STORE, VENV
from deploy.environments.wheels import QUIET, BuildError, fits, missing, pins, stopped

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
INSTALL = Path(__file__).with_name("install")
SITE = ("dsportal.service", "dsportal-proxy.service", "sudoers.dsportal", "site.toml.example")


def version() -> str:
    """The version of the portal in this checkout."""
    found = re.search(r'^__version__ = "([^"]+)"', (CHECKOUT / "portal/__init__.py").read_text(), re.MULTILINE)
    if not found:
        raise BuildError("portal/__init__.py names no version")
    return found[1]


def gather(lock: Path, pythons: Sequence[str], to: Path) -> None:
    """Bring the wheels of a lock for some Pythons into ``to``: out of the store where they are, else fetched.

    Raises:
        BuildError: one cannot be had.
    """
    to.mkdir(parents=True, exist_ok=True)
    text = lock.read_text()
    ours = {pin.wheel_prefix for pin in pins(text)}
    for python in pythons:
        minor = int(python.split(".")[1])
        if missing(text, STORE, minor):
            download(lock, python)
        for wheel in STORE.glob("*.whl"):
            name, number, *_ = wheel.name.split("-")
            if f"{name.lower()}-{number}-" in ours and fits(wheel.name, minor) and not (to / wheel.name).exists():
                os.link(wheel, to / wheel.name) if same_disk(wheel, to) else shutil.copyfile(wheel, to / wheel.name)
        if absent := missing(text, to, minor):
            raise BuildError(f"wheels for Python {python} are missing: {', '.join(pin.name for pin in absent)}")


def same_disk(one: Path, other: Path) -> bool:
    """Whether a file can have a second name there."""
    return one.stat().st_dev == other.stat().st_dev


def download(lock: Path, python: str) -> None:
    """Fetch the wheels of a lock for another Python than this one into the store; the hashes are checked."""
    say(f"  fetching the packages for Python {python}")
    STORE.mkdir(parents=True, exist_ok=True)
    options = [*QUIET, "--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version", python]
    argv = [
        *portal_venv.find_pip(),
        "download",
        *options,
        "--find-links",
        str(STORE),
        "-d",
        str(STORE),
        "-r",
        str(lock),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise stopped((done.stdout + done.stderr).splitlines())


def fill(folder: Path, pythons: Sequence[str]) -> None:
    """Everything that the install needs, in one folder."""
    for name in ("portal", *portal_venv.DATABASES):
        gather(LOCKS / f"{name}.lock", pythons, folder / "wheels")
        shutil.copyfile(LOCKS / f"{name}.lock", folder / f"{name}.lock")
    gather(LOCKS / "pip.lock", [f"3.{sys.version_info.minor}"], folder)
    hatch = [str(VENV / "bin" / "python"), "-I", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    portal_venv.call(hatch)
    shutil.copytree(VENV / "share/dsportal/proxy/node_modules", folder / "proxy/node_modules", symlinks=True)
    (folder / "site").mkdir()
    for name in SITE:
        shutil.copyfile(DEPLOY / "site" / name, folder / "site" / name)
    for name in ("LICENSE", "CHANGELOG.md", "docs/howto/install.md"):
        shutil.copyfile(CHECKOUT / name, folder / Path(name).name)
    shutil.copy(INSTALL, folder / "install")
    (folder / "VERSION").write_text(f"{version()}\n")


def list_parts(folder: Path) -> None:
    """The list of all parts (SBOM), which `make audit` writes; without its tools it is left out, and that is said."""
    try:
        audit.tools()
        say(f"  SBOM: {audit.sbom()}")
        shutil.copyfile(audit.SBOM, folder / "sbom.cdx.json")
    except BuildError as error:
        say(f"  no SBOM, its tools cannot be had: {str(error).splitlines()[0]}")


def sign(folder: Path) -> None:
    """Write the sums of all files, in the form of sha256sum."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def pack(folder: Path, target: Path) -> None:
    """The tarball, the same one whenever the contents are the same."""
    at = commit_time()

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = at
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=at) as packed,  # wheels are packed
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted([folder, *folder.rglob("*")]):
            tar.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)


def commit_time() -> int:
    """The time of the commit, or of SOURCE_DATE_EPOCH; 0 where there is neither."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return int(done.stdout.strip() or 0)


def run(pythons: Sequence[str], folder: Path | None, to: Path) -> None:
    """Make the folder, or the tarball in the folder ``to``."""
    if not (VENV / ".stamps" / "portal").is_file():
        raise BuildError("the portal's environment is missing: run 'make setup' first")
    if folder:
        if folder.exists():
            raise BuildError(f"{folder} is there already: name another folder, or remove it")
        fill(folder, pythons)
        sign(folder)
        return
    name = f"dsportal-{version()}-{platform.machine()}"
    target = to / f"{name}.tar.gz"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        whole = Path(place) / name
        fill(whole, pythons)
        list_parts(whole)
        sign(whole)
        pack(whole, target)
    with target.open("rb") as file:
        total = hashlib.file_digest(file, "sha256").hexdigest()
    target.with_name(f"{target.name}.sha256").write_text(f"{total}  {target.name}\n")
    size = f"{target.stat().st_size >> 20} MB"
    say(f"{os.path.relpath(target, CHECKOUT)}: {size}, for Python {', '.join(pythons)}\n  {total}")


def main() -> int:
    """Make the release; answers the exit status."""
    os.umask(0o022)
    parser = argparse.ArgumentParser(prog="make_dist.py", description="Make the release tarball.")
    parser.add_argument("--pythons", nargs="+", choices=PYTHONS, default=PYTHONS, metavar="3.N", help="3.11 to 3.14")
    parser.add_argument("--to", type=Path, default=CHECKOUT / "dist", help="where the tarball comes (default: dist)")
    parser.add_argument("--folder", type=Path, help="only the unpacked folder, here")
    options = parser.parse_args()
    try:
        state_folder.chosen(None)  # what is fetched lies there, and is run
        run(options.pythons, options.folder and options.folder.resolve(), options.to.resolve())
    except (BuildError, DemoError) as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
