"""Which Python the portal is made of: the one that was asked for, else one that fits, else words that help."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import interpreter
from deploy.environments import own_pip, wheels
from deploy.environments.wheels import BuildError

ROOT = Path(__file__).parents[2]
SETUP = ["/usr/bin/python3", str(ROOT / "deploy/setup.py"), "--print-pip"]
PIN = "aiohttp==3.14.5 \\\n    --hash=sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"
HELLO = b"hello"  # its sum is that of the pin


def stand_in(folder: Path, says: str, status: int = 0) -> str:
    """A program that answers as an interpreter would."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    program.chmod(0o755)
    return str(program)


def setup_with(python: str) -> subprocess.CompletedProcess[str]:
    """`make setup PYTHON=…`, as far as the choice."""
    environment = {**os.environ, interpreter.VARIABLE: python}
    return subprocess.run(SETUP, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("says", "status", "words"),
    [
        ("3.9.2 cpython", 0, "is Python 3.9.2"),
        ("3.15.0 cpython", 0, "is Python 3.15.0"),
        ("3.11.9 pypy", 0, "is pypy 3.11.9"),
        ("hello", 0, "is no Python"),
        ("No module named ssl", 1, "does not run, or lacks one of"),
    ],
)
def test_a_python_that_does_not_fit_is_refused_at_once_with_what_is_allowed(
    tmp_path: Path, says: str, status: int, words: str
) -> None:
    given = stand_in(tmp_path, says, status)

    done = setup_with(given)

    assert done.returncode == 1
    assert done.stderr.startswith(f"PYTHON={given}: {given} {words}")
    assert "The portal runs on CPython 3.11, 3.12, 3.13 or 3.14." in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_nobody_knows_is_said() -> None:
    assert setup_with("3.99").stderr.startswith("PYTHON=3.99: there is no program python3.99. ")


def test_what_was_asked_for_is_what_the_command_runs_on(tmp_path: Path) -> None:
    python = tmp_path / "python3.12"
    python.write_text("#!/bin/sh\ncase $* in *-c*) echo 3.12.4 cpython;; *) echo here: $*;; esac\n")
    python.chmod(0o755)

    done = setup_with(str(python))

    words = f"here: -B {ROOT / 'deploy/run_module.py'} deploy.environments.portal_venv --print-pip\n"
    assert (done.stdout, done.stderr) == (words, "")


def test_later_runs_keep_the_python_that_the_environment_was_made_of(tmp_path: Path) -> None:
    python = stand_in(tmp_path / "other", "3.12.4 cpython")
    (tmp_path / "pyvenv.cfg").write_text(f"home = {tmp_path / 'other'}\nexecutable = {python}\n")

    assert interpreter.chosen(str(tmp_path)) == python


def test_a_python_that_was_taken_away_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /gone\nexecutable = /gone/python3.11\n")

    assert interpreter.chosen(str(tmp_path)) == interpreter.chosen(str(tmp_path / "none"))


@pytest.mark.parametrize("file", ["interpreter.py", "run_module.py", "setup.py", "demo/demo"])
def test_what_an_old_python_reads_first_is_written_for_it(file: str) -> None:
    """Python 3.6 is that of RHEL 8, 3.9 that of Debian 11 and RHEL 9."""
    text = (ROOT / "deploy" / file).read_text()

    compile(text, file, "exec", dont_inherit=True)
    assert "from __future__ import annotations" not in text
    assert not [line for line in text.splitlines() if ":=" in line or line.lstrip().startswith("match ")]


def test_an_interpreter_below_a_closed_folder_is_seen(tmp_path: Path) -> None:
    python = stand_in(tmp_path / "closed" / "bin", "3.12.4 cpython")
    (tmp_path / "closed").chmod(0o700)

    assert interpreter.closed_folder(python)
    assert interpreter.closed_folder("/usr/bin/python3") == ""


@pytest.mark.parametrize(
    ("wheel", "minor", "fits"),
    [
        ("a-1-py3-none-any.whl", 13, True),
        ("a-1-py2.py3-none-any.whl", 14, True),
        ("a-1-cp311-cp311-manylinux_2_17_{machine}.whl", 11, True),
        ("a-1-cp311-cp311-manylinux_2_17_{machine}.whl", 13, False),
        ("a-1-cp39-abi3-manylinux_2_17_{machine}.whl", 13, True),
        ("a-1-cp312-abi3-manylinux_2_17_{machine}.whl", 11, False),
        ("a-1-py3-none-manylinux_2_17_riscv.whl", 11, False),
    ],
)
def test_a_wheel_counts_for_the_pythons_that_it_names(wheel: str, minor: int, fits: bool) -> None:
    assert wheels.fits(wheel.format(machine=os.uname().machine), minor) is fits


def test_a_store_with_the_wheels_of_one_python_lacks_those_of_another(tmp_path: Path) -> None:
    """Before, the second Python was told that its registry does not carry the package."""
    (tmp_path / f"aiohttp-3.14.5-cp311-cp311-manylinux_2_17_{os.uname().machine}.whl").write_bytes(HELLO)

    assert not wheels.missing(PIN, tmp_path, 11)
    assert [pin.name for pin in wheels.missing(PIN, tmp_path, 13)] == ["aiohttp"]


def test_a_machine_whose_pip_is_too_old_takes_the_pinned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = stand_in(tmp_path / "old", "pip 20.3.4 from here (python 3.9)")
    monkeypatch.setattr(own_pip, "_installed", lambda: (old,))
    monkeypatch.setattr(own_pip, "_shipped", tuple)
    lock = tmp_path / "pip.lock"
    lock.write_text(PIN.replace("aiohttp==3.14.5", "pip==99.1"))
    wheel = tmp_path / "pip-99.1-py3-none-any.whl"
    wheel.write_bytes(HELLO)
    monkeypatch.setattr(own_pip, "version", lambda command: (20, 3) if command == (old,) else (99, 1))

    assert own_pip.find(lock, tmp_path, tmp_path / "state") == (sys.executable, f"{wheel}/pip")


def test_without_any_pip_the_words_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for way in ("_installed", "_shipped"):
        monkeypatch.setattr(own_pip, way, tuple)
    monkeypatch.setattr(own_pip, "_debian", lambda state: ())
    lock = tmp_path / "pip.lock"
    lock.write_text(PIN.replace("aiohttp==3.14.5", "pip==99.1"))

    with pytest.raises(BuildError, match="apt install python3-pip"):
        own_pip.find(lock, tmp_path / "store", tmp_path)


def test_the_version_of_a_pip_is_read_and_one_that_does_not_run_has_none(tmp_path: Path) -> None:
    assert own_pip.version((stand_in(tmp_path, "pip 24.1.2 from /x (python 3.13)"),)) == (24, 1)
    assert own_pip.version((stand_in(tmp_path, "AttributeError: ImpImporter", 1),)) == (0, 0)


@pytest.mark.parametrize("given", ["", sys.executable])
def test_a_pip_that_lies_in_the_callers_folder_is_not_run(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "pip.py").write_text(f"open({str(ran)!r}, 'w').close()\nprint('pip 99.1 from here (python 3.11)')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with contextlib.suppress(BuildError):  # a machine need not have one
        own_pip.version(wheels.pip_command(given))

    assert not ran.exists()


def test_no_command_of_the_checkout_runs_a_module_out_of_the_callers_folder() -> None:
    """``-m`` looks there first; ``-I`` does not."""
    files = [file for room in ("deploy", "portal", "spawners") for file in (ROOT / room).rglob("*.py")]
    by_name = re.compile(r"""["']-m["'], ["'](?:pip|venv|compileall|hatchling|ensurepip|build)["']""")
    found = {file.name: by_name.findall(file.read_text()) for file in files}
    alone = re.compile(rf"""["']-I["'], {by_name.pattern}""")

    assert sum(map(len, found.values())) >= 5
    assert [file.name for file in files if len(found[file.name]) != len(alone.findall(file.read_text()))] == []


def test_xprof_alone_is_left_out_where_it_has_no_wheels() -> None:
    """On aarch64, where all other packages of the lock have theirs."""
    marked = [line for line in (ROOT / "deploy/locks/portal.lock").read_text().splitlines() if ";" in line]

    assert marked == ["xprof==2.24.2 ; platform_machine == 'x86_64' \\"]
