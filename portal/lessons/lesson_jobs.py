"""Starts a lesson's programs in jobs: a folder that others can change gives them neither a module nor a program.

Python looks for modules first in the folder where ``python -m`` begins, also by an empty word in PYTHONPATH, and a job
begins where the notebook is. So the lesson's own modules are laid into a private folder, as they were when the kernel
imported them (:func:`read`, :func:`lay`), and this file, which lies among them there, runs a module of any name:

    python -I CODE/lesson_jobs.py WORK BESIDE -m MODULE WORD...

The job works in WORK. What lies there, and in BESIDE where the lesson came from, is found by ``import`` only where
nobody but the person can change the folder, and nothing in it is of others: each node looks for itself.

It runs in the kernels' own Pythons, with the standard library alone. The original is in portal/lessons; the copies
beside lessons are the same file.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

AS_MODULE = "-m"
# Of folders; an empty or relative word leads to where one works, for compilers, too (GCC, "Environment Variables").
OF_COMPILERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH")
LISTS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", *OF_COMPILERS)
BETWEEN = {"LD_LIBRARY_PATH": "[:;]"}  # ld.so(8)


def read(*files: str) -> dict[str, bytes]:
    """What modules are, by the names of their files, this one and ``lesson_folders`` among them."""
    own = Path(__file__)
    return {place.name: place.read_bytes() for place in (own, own.with_name("lesson_folders.py"), *map(Path, files))}


def lay(modules: Mapping[str, bytes], folder: Path) -> Path:
    """Make ``folder``, which nobody else may enter, with these modules: where the programs of jobs take them from."""
    folder.mkdir(mode=0o700)
    for name, content in modules.items():
        (folder / name).write_bytes(content)
    return folder


def start(code: Path, python: str = sys.executable) -> list[str]:
    """How a command begins that goes on with WORK, BESIDE, ``-m`` and a module; ``code`` is what :func:`lay` made."""
    return [python, "-I", str(code / Path(__file__).name)]


def environment(given: Mapping[str, str], first: Sequence[str]) -> dict[str, str]:
    """The environment without what leads to where one works, with ``first`` before the other folders of modules."""
    words = {name: re.split(BETWEEN.get(name, ":"), given[name]) for name in LISTS if name in given}
    lists = {name: [word for word in folders if word.startswith("/")] for name, folders in words.items()}
    lists["PYTHONPATH"] = list(dict.fromkeys([*first, *lists.get("PYTHONPATH", ())]))
    others = {name: value for name, value in given.items() if name not in lists}
    return others | {name: ":".join(folders) for name, folders in lists.items() if folders}


def is_alone(folder: str) -> bool:
    """Whether nobody but the person can change a folder and what is in it, as a kernel that starts there looks."""
    try:
        place = importlib.import_module("lesson_folders").unshared(folder, make=False)
        found = [entry.lstat().st_mode for entry in place.iterdir()]
    except (ValueError, OSError):  # FolderOfOthers is a ValueError
        return False
    may_change = stat.S_IWGRP | stat.S_IWOTH
    return ":" not in folder and not any(mode & may_change for mode in found if not stat.S_ISLNK(mode))


def _go_on(words: list[str]) -> None:
    """Begin once more, in the folder to work in, with an environment of which Python has read nothing so far (-I)."""
    code = str(Path(__file__).resolve().parent)
    sys.path.insert(0, code)  # -I leaves it out
    work, beside = map(os.path.abspath, words[:2])
    os.chdir(work)
    env = environment(os.environ, [code, *filter(is_alone, (work, beside))])
    os.execve(sys.executable, [sys.executable, f"{code}/{Path(__file__).name}", *words[2:]], env)  # noqa: S606


if __name__ == "__main__":
    if sys.argv[1] != AS_MODULE:
        _go_on(sys.argv[1:])
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
