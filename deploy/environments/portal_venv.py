"""Set up the portal's own environment, ``.venv``: what `make setup` calls.

    setup.py             the hub, the single-user server, the proxy, and the portal itself
    setup.py --dev       and what the tests, lint and types need
    setup.py --database postgresql    and that driver for portal.database_url (`make setup DATABASE=…`); it stays

DSPORTAL_VENV names another place for it, such as /opt/dsportal; DSPORTAL_PYTHON another Python than the system's
(`make setup PYTHON=…`), which later runs keep (deploy/interpreter.py).

Every step has a stamp made from what it was given, so a second run finishes at once; what was fetched is kept
below the state folder, so a run after an interruption goes on from there. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from deploy import interpreter, own_lock
from deploy.demo import state_folder
from deploy.demo.console import DemoError
from deploy.environments import own_pip
from deploy.environments.wheels import BuildError, Pip, compile_folder, end_on_signals, folder_mib

CHECKOUT = Path(__file__).resolve().parents[2]
DEPLOY = CHECKOUT / "deploy"
VENV = Path(os.environ.get("DSPORTAL_VENV") or CHECKOUT / ".venv").resolve()
LOCKS = DEPLOY / "locks"
STATE = Path(os.environ.get("DSPORTAL_DEMO") or CHECKOUT / ".demo").resolve()
DATABASES = ("postgresql", "mariadb")  # the drivers for portal.database_url, each with a lock of its own
STORE = STATE / "cache" / "wheels"
PYTHON_NOTE = ".made-with"
FIRST_RUN = """\
First run: the portal's environment, 235 MB to fetch and 770 MB on disk. For the demo follow the kernels' environments
(300 MB) and Debian packages (125 MB), 4 GB on disk in all: 3 to 6 minutes at 50 Mbit/s. An interrupted run goes on
where it was."""
SOURCES = (
    "portal",
    "spawners",
    "templates",
    "notebooks",
    "deploy/site",
    "deploy/proxy",
    "templates/lab/install.json",
    "pyproject.toml",
)


def digest(paths: Iterable[Path]) -> str:
    """One value for the contents of files and folders."""
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(p for p in ([path] if path.is_file() else path.rglob("*")) if p.is_file()):
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(CHECKOUT)}\n".encode() + file.read_bytes())
    return found.hexdigest()


def step(name: str, paths: Iterable[Path], do: Callable[[], None]) -> bool:
    """Do a step unless its stamp says that it was done with the very same files."""
    stamp = VENV / ".stamps" / name
    wanted = digest(paths)
    if stamp.is_file() and stamp.read_text() == wanted:
        return False
    started = time.monotonic()
    do()
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(wanted)
    print(f"  {name:<58} {time.monotonic() - started:6.1f} s", flush=True)
    return True


def make_venv() -> None:
    """An environment without pip in it: works without Debian's python3-venv."""
    if VENV.is_dir() and any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").exists():
        raise BuildError(f"{VENV} holds other files: choose an empty folder (DSPORTAL_VENV)")
    call([sys.executable, "-I", "-m", "venv", "--without-pip", "--clear", str(VENV)])
    (VENV / PYTHON_NOTE).write_text(this_python())


def this_python() -> str:
    """The version of the Python that was chosen, which this runs on (deploy/run_module.py): another needs all anew."""
    return f"Python {platform.python_version()}"


def noted_python() -> str:
    """The version that the environment was made with."""
    note = VENV / PYTHON_NOTE
    return note.read_text() if note.is_file() else ""


def is_other_python() -> bool:
    """Whether the environment was made with another Python, or one at another place."""
    made_of = re.findall(r"^home = (.+)$", (VENV / "pyvenv.cfg").read_text(), re.MULTILINE)
    home = Path(made_of[0]) if made_of else VENV
    return this_python() != noted_python() or home.resolve() != Path(sys.executable).parent.resolve()


def check_machine() -> None:
    """Refuse a machine that the locked packages are not for; say it where others cannot run this Python.

    Raises:
        BuildError: before anything is fetched.
    """
    if words := interpreter.machine_fault():
        raise BuildError(words)
    if closed := interpreter.closed_folder(sys.executable):
        print(f"  {sys.executable} is below {closed}, which other accounts cannot pass: only yours can run this portal")


def call(argv: list[str], **variables: str) -> None:
    """Run one command quietly; its last lines are the error."""
    done = subprocess.run(
        argv, cwd=CHECKOUT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise BuildError(f"{' '.join(argv[:4])} … failed:\n{last}")


def find_pip() -> tuple[str, ...]:
    """A pip that fits this Python."""
    return own_pip.find(LOCKS / "pip.lock", STORE, STATE)


def pip() -> Pip:
    """The pip that installs into the environment."""
    scratch = STATE / "cache" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    return Pip(find_pip(), VENV / "bin" / "python", scratch, lambda text: print(text, flush=True))


def install(lock: Path) -> Callable[[], None]:
    """The step that brings one lock file into the environment."""

    def do() -> None:
        ours = pip()
        ours.fetch(lock.read_text(), STORE)
        ours.install(lock, STORE)

    return do


def install_portal() -> None:
    """Build the wheel and install it: not editable, so that other people can read it from a private checkout."""
    argv = [*find_pip(), "--python", str(VENV / "bin" / "python"), "install", "--disable-pip-version-check"]
    call([*argv, "--no-deps", "--no-build-isolation", "--force-reinstall", "--no-index", str(CHECKOUT)])


def compile_packages() -> None:
    """Compile once what every start would compile anew: nobody who runs this environment may write into it."""
    compile_folder(VENV / "bin" / "python", VENV / "lib")


def npm_ci(source: Path, target: Path) -> Callable[[], None]:
    """The step that installs a package-lock.json with the npm of the environment."""

    def do() -> None:
        target.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            (target / name).write_bytes((source / name).read_bytes())
        path = f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"
        npm = [str(VENV / "bin" / "npm"), "ci", "--prefix", str(target), "--ignore-scripts"]
        more = ("--no-audit", "--no-fund", "--cache", str(STATE / "cache" / "npm"))
        call([*npm, *more], PATH=path, NODE_DISABLE_COMPILE_CACHE="1")  # npm (10.9): code from a known name in /tmp

    return do


def alone() -> AbstractContextManager[None]:
    """Two set-ups of one environment come one after the other."""
    return own_lock.alone(CHECKOUT / ".setup.lock", lambda text: print(f"setup: {text}", flush=True))


def drivers(asked: str, dev: bool) -> list[str]:
    """The databases whose drivers belong into the environment: those that were asked for, now or before."""
    return [name for name in DATABASES if dev or name == asked or (VENV / ".stamps" / f"{name}.lock").is_file()]


def run(dev: bool, database: str = "") -> None:
    """All steps in order."""
    share = VENV / "share" / "dsportal"
    with_drivers = drivers(database, dev)  # asked before an environment of another Python is taken away
    check_machine()
    if not (VENV / ".stamps" / "portal.lock").is_file():
        print(FIRST_RUN, flush=True)
    if not (VENV / "bin" / "python").exists() or is_other_python():
        make_venv()
    step("portal.lock", [LOCKS / "portal.lock"], install(LOCKS / "portal.lock"))
    step("build.lock", [LOCKS / "build.lock"], install(LOCKS / "build.lock"))
    for name in with_drivers:
        step(f"{name}.lock", [LOCKS / f"{name}.lock"], install(LOCKS / f"{name}.lock"))
    step("proxy", [DEPLOY / "proxy"], npm_ci(DEPLOY / "proxy", share / "proxy"))
    if dev:
        step("dev.lock", [LOCKS / "dev.lock"], install(LOCKS / "dev.lock"))
        step("axe", [CHECKOUT / "tests/browser/package-lock.json"], npm_ci(CHECKOUT / "tests/browser", share / "axe"))
    step("bytecode", sorted(LOCKS.glob("*.lock")), compile_packages)
    step("portal", [CHECKOUT / name for name in SOURCES], install_portal)


def database_of(text: str) -> str:
    """One of :data:`DATABASES`, or ``""`` for none."""
    if text and text not in DATABASES:
        raise argparse.ArgumentTypeError(f"{text!r} is no database that has a driver here: {' or '.join(DATABASES)}")
    return text


def main() -> int:
    """Set up; answers the exit status."""
    os.umask(0o022)  # people of the cluster run this environment
    end_on_signals()
    parser = argparse.ArgumentParser(prog="setup.py", description="Set up the portal's own environment (.venv).")
    parser.add_argument("--dev", action="store_true", help="also what tests, lint and types need")
    given = os.environ.get("DSPORTAL_DATABASE", "")
    parser.add_argument("--database", type=database_of, default=given, help="also this driver: postgresql or mariadb")
    parser.add_argument("--print-pip", action="store_true", help="only print the pip in use, for build.py --pip")
    options = parser.parse_args()
    try:
        state_folder.chosen(None)  # what is fetched lies there, and is run
        if options.print_pip:
            command = find_pip()
            print(command[0] if "-m" in command else command[1].removesuffix("/pip"))
            return 0
        with alone():
            run(options.dev, options.database)
    except (BuildError, DemoError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: stopped; run it again to go on (what was fetched is kept)", file=sys.stderr)
        return 130
    print(f"setup: ready ({folder_mib(VENV)} MB in .venv)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
