"""Which Python the commands of deploy/ run on, and the portal's environment is made of: 3.11 to 3.14.

The one that was asked for (``make setup PYTHON=…``), else the one that the environment was made of, else the system's
``/usr/bin/python3``, else another one of the system. Written so that any Python 3 reads it: an old one says what to do.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
NEWEST = (3, 14)
SYSTEM = "/usr/bin/python3"
VARIABLE = "DSPORTAL_PYTHON"
FOLDERS = ("/usr/bin", "/usr/local/bin")
MACHINES = ("x86_64", "aarch64")
NEEDED = "venv, ssl, sqlite3, ctypes, bz2, zlib"
ASK = f"import sys, {NEEDED}; print('%d.%d.%d' % sys.version_info[:3], sys.implementation.name)"
ALLOWED = "The portal runs on CPython 3.11, 3.12, 3.13 or 3.14"


class NoPython(Exception):
    """No interpreter fits: what was found, what is allowed, what to do."""


def chosen(venv: str) -> str:
    """The interpreter to use.

    Raises:
        NoPython: the one that was asked for does not fit, or there is none that does.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked:
        return _asked(asked)
    fits = [python for python in _usual(venv) if not fault(python)]
    if fits:
        return fits[0]
    raise NoPython(f"{fault(SYSTEM)}. {ALLOWED}. {_advice()}")


def _asked(asked: str) -> str:
    name = f"python{asked}" if re.match(r"3\.\d+$", asked) else asked
    path = os.pathsep.join([*FOLDERS, os.environ.get("PATH", "")])  # the system's before somebody's own
    python = shutil.which(name, path=path)
    words = fault(python) if python else f"there is no program {name}"
    if words or python is None:
        raise NoPython(f"PYTHON={asked}: {words}. {ALLOWED}. {_advice()}")
    return str(Path(python).absolute())


def _usual(venv: str) -> "list[str]":
    config = Path(venv, "pyvenv.cfg")
    made_of = re.findall(r"^executable = (.+)$", config.read_text(), re.MULTILINE) if config.is_file() else []
    return [*made_of, SYSTEM, *_others()]


def _others() -> "list[str]":
    """Those that stand beside the system's, the ones that are tried most first."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    paths = [Path(folder, name) for name in names for folder in FOLDERS]
    return [str(path) for path in paths if path.is_file()]


def fault(python: str) -> str:
    """Why an interpreter cannot be used; ``""`` when it can."""
    if not Path(python).exists():
        return f"{python} is not there"
    pipe = subprocess.PIPE
    try:
        done = subprocess.run([python, "-I", "-c", ASK], stdout=pipe, stderr=pipe, check=False)
    except OSError as error:
        return f"{python} does not run ({error.strerror})"
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        return f"{python} does not run, or lacks one of {NEEDED} ({last})"
    said = re.match(r"(\d+)\.(\d+)\.(\d+) (\w+)\n$", done.stdout.decode(errors="replace"))
    if not said:
        return f"{python} is no Python"
    major, minor, micro, kind = said.groups()
    if kind == "cpython" and OLDEST <= (int(major), int(minor)) <= NEWEST:
        return ""
    return f"{python} is {'Python' if kind == 'cpython' else kind} {major}.{minor}.{micro}"


def _advice() -> str:
    fits = [python for python in _others() if not fault(python)]
    if fits:
        return f"This one fits: make setup PYTHON={fits[0]}"
    return (
        "Install one (Debian, Ubuntu: apt install python3.12; RHEL and its like: dnf install python3.12; or one of "
        "your site's, where all accounts can run it), then: make setup PYTHON=/path/to/python3.12"
    )


def usual() -> str:
    """This Python: by its short name when it is the system's, as stamps have it."""
    return SYSTEM if os.path.realpath(SYSTEM) == os.path.realpath(sys.executable) else sys.executable


def machine_fault() -> str:
    """Why the locked packages do not fit this machine; ``""`` when they do."""
    machine = platform.machine()
    if machine not in MACHINES:
        return f"this machine is {machine}: the locked packages are for {' and '.join(MACHINES)}"
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < (2, 28):
        found = f"{name} {version}".strip() or "another one"
        return f"the C library is {found}: the locked packages need glibc 2.28 or newer (Debian 10, RHEL 8)"
    return ""


def closed_folder(python: str) -> str:
    """The first folder on the way to an interpreter that other accounts cannot pass; ``""`` when all can."""
    real = Path(os.path.realpath(python))
    closed = [folder for folder in reversed(real.parents) if not folder.stat().st_mode & 0o001]
    return str(closed[0]) if closed else ""


def become(python: str, program: str, module: str) -> None:
    """Go on in another interpreter, unless it is this one."""
    if os.path.realpath(python) == os.path.realpath(sys.executable):
        return
    sys.stdout.flush()
    os.execv(python, [python, "-B", program, module, *sys.argv[1:]])  # noqa: S606
