"""The folder of an environment: empty, on top of another, settled where it will be used, and given its name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.environments.wheels import BuildError, compile_folder

NOT_SOURCE = shutil.ignore_patterns("__pycache__")


def packages(environment: Path) -> Path:
    """Where an environment keeps its packages, whichever Python 3 it is of."""
    return next(environment.glob("lib/python3.*/site-packages"))


def make_empty(python: str, folder: Path) -> None:
    """A virtual environment without pip in it: works without Debian's python3-venv."""
    done = subprocess.run(
        [python, "-I", "-m", "venv", "--without-pip", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{python} -m venv failed: {done.stdout}{done.stderr}".strip())


def see(environment: Path, others: Sequence[Path]) -> None:
    """Let an environment see the packages of others, which stay where they are."""
    ours = packages(environment)
    below = ours.relative_to(environment)  # the others may not be there yet, and are of the same Python
    (ours / "frameworks.pth").write_text("".join(f"{other}/{below}\n" for other in others))


def add_modules(environment: Path, modules: Iterable[Path]) -> None:
    """Copy modules, single files or folders of them, among the packages of an environment."""
    for module in modules:
        if module.is_dir():
            shutil.copytree(module, packages(environment) / module.name, ignore=NOT_SOURCE)
        else:
            shutil.copyfile(module, packages(environment) / module.name)


def settle(folder: Path, final: Path) -> None:
    """Let everything in ``folder`` name ``final``, the place where it will be used."""
    for file in [folder / "pyvenv.cfg", *(folder / "bin").iterdir()]:
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if str(folder).encode() in content:
            file.write_bytes(content.replace(str(folder).encode(), str(final).encode()))
    compile_folder(folder / "bin" / "python", folder / "lib")


def publish(staging: Path, folder: Path) -> None:
    """Give the finished environment its name; an older one makes room."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    staging.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
