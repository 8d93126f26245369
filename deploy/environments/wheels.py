"""pip, as the environments use it: fetch the wheels of a lock file into a folder, then install from that folder.

Fetching and installing are two steps so that what was fetched survives an interruption, whatever the
registry says about caching, and so that the second step needs no network.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT_S = 10.0
BATCH = 8  # packages fetched by one pip: an interruption loses one batch at most
QUIET = ("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--no-cache-dir")
LOCKED = ("--require-hashes", "--no-deps", "--only-binary=:all:")

Say = Callable[[str], None]


class BuildError(Exception):
    """What stopped the build, in words for the person who started it."""


class Absent(BuildError):
    """A package is in none of the sources that pip uses; ``package`` is its name and version."""

    def __init__(self, message: str, package: str) -> None:
        super().__init__(message)
        self.package = package


@dataclass(frozen=True)
class Pin:
    """One package of a lock file; ``text`` is its whole entry, hashes included."""

    name: str
    version: str
    text: str
    hashes: frozenset[str]

    @property
    def wheel_prefix(self) -> str:
        """How the name of its wheel begins."""
        return f"{normal(self.name)}-{self.version}-"


def normal(name: str) -> str:
    """A package's name as wheel files spell it."""
    return re.sub(r"[-_.]+", "_", name).lower()


def pins(lock: str) -> list[Pin]:
    """The packages of a lock file."""
    entries = re.findall(r"^[A-Za-z0-9].*(?:\n[ \t]+.*)*", lock, re.MULTILINE)
    return [_pin(entry) for entry in entries]


def _pin(entry: str) -> Pin:
    match = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", entry)
    if not match:
        raise BuildError(f"the lock holds a line without '==': {entry.splitlines()[0]!r}; lock again")
    return Pin(match[1], match[2], entry, frozenset(re.findall(r"sha256:([0-9a-f]{64})", entry)))


def missing(lock: str, store: Path, minor: int = sys.version_info.minor) -> list[Pin]:
    """The packages whose wheel for Python 3.``minor`` is not in ``store``; a wheel that was cut short is taken out."""
    present: dict[str, list[Path]] = {}
    for file in store.glob("*.whl"):
        name, version, *_ = file.name.split("-")
        if fits(file.name, minor):
            present.setdefault(f"{normal(name)}-{version}-", []).append(file)
    return [
        pin for pin in pins(lock) if not any(_whole(file, pin.hashes) for file in present.get(pin.wheel_prefix, []))
    ]


def fits(wheel: str, minor: int) -> bool:
    """Whether a wheel is for CPython 3.``minor`` on this machine, by its name: a store may hold those of several."""
    tags, abi, platforms = wheel.removesuffix(".whl").split("-")[-3:]
    if platforms != "any" and not platforms.endswith(platform.machine()):
        return False
    made_for = [int(number) for number in re.findall(r"cp3(\d+)", tags)]
    return "py3" in tags.split(".") or minor in made_for or (abi == "abi3" and min(made_for, default=99) <= minor)


def _whole(wheel: Path, hashes: frozenset[str]) -> bool:
    with suppress(FileNotFoundError), wheel.open("rb") as file:  # taken out by another program
        if hashlib.file_digest(file, "sha256").hexdigest() in hashes:
            return True
        if os.path.samestat(os.fstat(file.fileno()), wheel.stat()):  # and not one that was put there meanwhile
            wheel.unlink()
    return False


def keep(wheel: Path, store: Path) -> None:
    """Put a whole wheel into ``store``, where others read at the same time: in one moment."""
    with suppress(OSError):  # another disk
        wheel.replace(store / wheel.name)
        return
    beside = store / f".{wheel.name}.{os.getpid()}"
    try:
        shutil.copyfile(wheel, beside)
        beside.replace(store / wheel.name)
    finally:
        beside.unlink(missing_ok=True)


@dataclass(frozen=True)
class Pip:
    """A pip, the interpreter it works for, and a scratch folder for what it is at.

    Arguments:
        command: the start of the command line.
        python: the interpreter of the environment.
        scratch: an empty folder; pip's temporary files go there.
    """

    command: tuple[str, ...]
    python: Path
    scratch: Path
    say: Say

    def fetch(self, lock: str, store: Path) -> None:
        """Bring every wheel of ``lock`` into ``store``, which several programs may do at the same time.

        Raises:
            BuildError: one cannot be had.
        """
        store.mkdir(parents=True, exist_ok=True)
        wanted = missing(lock, store, self.minor())
        started = time.monotonic()
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            done = f"{time.monotonic() - started:5.0f} s  {start} of {len(wanted)} packages"
            self.say(f"  {done}; fetching {', '.join(pin.name for pin in batch)}")
            part = self.scratch / "batch.txt"
            part.write_text("\n".join(pin.text.rstrip(" \\") for pin in batch))
            fetched = self.scratch / "fetched"
            shutil.rmtree(fetched, ignore_errors=True)  # of a run that was killed
            fetched.mkdir()
            self.run("download", *LOCKED, "-d", str(fetched), "-r", str(part))
            for wheel in fetched.iterdir():
                keep(wheel, store)

    def minor(self) -> int:
        """Which Python 3 it works for."""
        ask = [str(self.python), "-I", "-c", "import sys; print(sys.version_info.minor)"]
        return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)

    def install(self, lock: Path, store: Path) -> None:
        """Install ``lock`` out of ``store`` without a network; the hashes are checked again."""
        where = ["--no-index", "--find-links", str(store), "-r", str(lock)]
        self.run("install", *LOCKED, "--no-compile", "--no-warn-script-location", *where)

    def run(self, verb: str, *options: str) -> None:
        """Run one verb of pip.

        Raises:
            BuildError: it failed; with its last lines.
        """
        argv = [*self.command, "--python", str(self.python), verb, *QUIET, *options]
        variables = {**os.environ, "TMPDIR": str(self.scratch), "PIP_ROOT_USER_ACTION": "ignore"}
        output = self.scratch / "pip.log"
        # A session of its own, so that an interrupted build takes pip's own child along.
        with (
            output.open("wb") as log,
            subprocess.Popen(
                argv, stdout=log, stderr=subprocess.STDOUT, env=variables, start_new_session=True
            ) as process,
        ):
            self._wait(process)
        if process.returncode:
            raise stopped(output.read_text(errors="replace").splitlines())

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for pip, with a sign of life when it takes long."""
        started = time.monotonic()
        while True:
            try:
                process.wait(HEARTBEAT_S)
                return
            except subprocess.TimeoutExpired:
                size = folder_mib(self.scratch)
                fetched = f", {size} MiB of it fetched" if size else ""
                self.say(f"        … {time.monotonic() - started:.0f} s{fetched}")
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise


def compile_folder(python: Path, folder: Path) -> None:
    """Compile the modules below ``folder`` once; a compilation that is interrupted leaves no process behind."""
    # Some packages carry files for other Pythons, which do not compile: not our business. Nor are their own tests.
    argv = [str(python), "-I", "-m", "compileall", "-q", "-j", "0", "-x", "/site-packages/.*/tests?/", str(folder)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=silent, stdout=silent, stderr=silent, start_new_session=True) as process:
        try:
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def end_on_signals() -> None:
    """A terminal that is closed, and a polite kill, end this program as Ctrl-C does: with what it has started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def folder_mib(folder: Path) -> int:
    """The size of the files below ``folder``, which may change while it is counted."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(where) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total >> 20


FULL = "the disk is full: free some space and run it again (what was fetched is kept)"
UNREACHED = (
    "the package registry cannot be reached: check the network and pip's settings (pip config list), "
    "then run it again (what was fetched is kept)"
)
CHANGED = "a package is not the one that was locked: a mirror or proxy may have changed it"
ABSENT = "a package cannot be had: does the registry in use (pip config list) carry the version below?"

REASONS = {  # in this order: a lost connection also ends in "No matching distribution"
    "No space left on device": FULL,
    "Failed to establish a new connection": UNREACHED,
    "Temporary failure in name resolution": UNREACHED,
    "Read timed out": UNREACHED,
    "DO NOT MATCH THE HASHES": CHANGED,
    "No matching distribution": ABSENT,
    "Permission denied": "a folder cannot be written: see below",
}


def stopped(output: Sequence[str]) -> BuildError:
    """What stopped pip: one sentence, then the end of its output."""
    text = "\n".join(output)
    reason = next((reason for sign, reason in REASONS.items() if sign in text), "pip failed")
    message = "\n".join([reason, *(f"    {line[:160]}" for line in output[-8:])])
    package = re.search(r"No matching distribution found for (\S+)", text)
    return Absent(message, package[1]) if reason == ABSENT and package else BuildError(message)


def pip_command(given: str) -> tuple[str, ...]:
    """The start of a pip command line, out of an interpreter that has pip or a pip wheel; '' = look for one.

    Raises:
        BuildError: there is none.
    """
    if given.endswith(".whl"):
        return (sys.executable, f"{given}/pip")
    tried = [given] if given else [sys.executable, "/usr/bin/python3"]
    for python in tried:
        command = (python, "-I", "-m", "pip")  # -m alone takes a pip.py of the folder that this is called in
        if shutil.which(python) and not subprocess.run([*command, "--version"], capture_output=True).returncode:
            return command
    raise BuildError(f"{' and '.join(tried)} have no pip: give --pip an interpreter that has it, or a pip wheel")
