"""How R, Julia and Ruby start for a kernel in a folder that others can change: nothing that lies there is run or read.

A folder of one's own counts as theirs, too, where such a file of it is of others: they may have left it there before
the folder was closed.

R reads ``.Rprofile``, ``.Renviron`` and ``.RData`` of the folder that it is started in. In a folder of one's own that
is as everywhere; elsewhere the files of the person's home take their place.

Julia's project says what packages are, and ``--project=@.``, as IJulia writes it into its kernelspec, means that folder
or one above it. Elsewhere than in a folder of one's own the person's own project counts.

Ruby's IRB reads ``.irbrc`` of that folder unless ``IRBRC`` names another one; since 1.13 it reads both, so that a file
of ours comes first, which keeps it from that folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from portal.homes.held_place import held, is_own_all_the_way
from portal.homes.own_folder import are_own, of_others_in
from portal.kernels.delta import Environment
from portal.kernels.python_start import FOLDERS, OF_PROJECT, OF_RUBY, PYTHONS, is_by_name, leads_there, places

PYTHON = "python"  # the language
R = "R"  # the program
RUBY = re.compile(r"i?ruby[\d.]*|irb[\d.]*")
RESTORES_NOTHING = {"Rscript", "--no-restore", "--no-restore-data", "--vanilla"}  # the first one by itself
CODE = ("-e", "--args")  # what follows is for R to run
OF_R = (".Rprofile", ".Renviron", ".RData")
OF_IRB = (".irbrc", "irbrc", "_irbrc", "$irbrc")
JULIA = re.compile(r"julia[\w.-]*")  # the program
KNOWN = {"julia": JULIA, "ruby": RUBY}
PROJECT_FILES = ("JuliaProject.toml", "Project.toml")
PROJECT = "--project"


def languages_of(command: Sequence[str], told: str) -> list[str]:
    """What a kernel is, or may be, by its own words: a site may have left Julia or Ruby to be told as Pythons.

    The words of a shell count, too. A folder that an image sees, or the image, may have the name of a language: then it
    is guarded as both.
    """
    if told != PYTHON:
        return [told]
    if [Path(word).name for word in command[:1]] == [R]:
        return [R.lower()]
    names = [Path(word).name for part in command for word in part.split()]
    found = [language for language, word in KNOWN.items() if any(map(word.fullmatch, names))]
    return [*found, *([PYTHON] if not found or any(name.startswith(PYTHONS) for name in names) else [])]


def prepared_r(command: Sequence[str], env: Environment, folder: str) -> tuple[list[str], Environment]:
    """The command and environment of an R kernel that is started in ``folder``."""
    if is_own_all_the_way(folder) and are_own(folder, OF_R):
        return list(command), env
    behind = _behind_r(command)
    if behind:
        restored = [*command[:behind], "--no-restore-data", *command[behind:]]
    elif any(Path(word).name in RESTORES_NOTHING for part in command for word in part.split()):  # a shell's, too
        restored = list(command)
    else:
        restored = _at_home(command, env, folder)
    return restored, with_r_of_home(env)


def _at_home(command: Sequence[str], env: Environment, folder: str) -> list[str]:
    """A command that starts its program in the home: words of a shell, or a wrapper, that take no option of ours.

    A Python that runs a kernel of that language is none of them, and is guarded as such. What starts a container has a
    word of its own for the folder.
    """
    if is_by_name(command):
        return list(command)
    home = env.get("HOME") or str(Path.home())
    inside = [home if before == "--pwd" and word == folder else word for before, word in pairwise(["", *command])]
    return ["env", f"--chdir={home}", *(f"--cd={home}" if word == f"--cd={folder}" else word for word in inside)]


def with_files_of_home(env: Environment, folder: str) -> Environment:
    """``env`` for a kernel of any language, which may start R and IRB, too, or be them behind a wrapper."""
    return with_r_of_home(prepared_ruby((), env, folder)[1])


def with_r_of_home(env: Environment) -> Environment:
    """``env`` for R, and for an R that a kernel of another language starts: its files are those of the home."""
    home = env.get("HOME", "")
    files = {"R_PROFILE_USER": f"{home}/.Rprofile", "R_ENVIRON_USER": f"{home}/.Renviron"}
    return files | {name: value for name, value in env.items() if name not in files or value.startswith(("/", "~"))}


def _behind_r(command: Sequence[str]) -> int:
    """Where R's options begin, 0: no R; what starts R may have such a word, too (``conda run -n R R``)."""
    named = [number for number, word in enumerate(command, start=1) if Path(word).name == R]
    first = min(named, default=0)
    code = next((number for number in range(first, len(command)) if command[number] in CODE), len(command))
    return max((number for number in named if number <= code), default=0)


def prepared_julia(command: Sequence[str], env: Environment, folder: str) -> tuple[list[str], Environment]:
    """The command and environment of a Julia kernel that is started in ``folder``."""
    end = _program_file_at(command)
    words = [word.partition("=") for word in command[:end]]
    places = [place for option, _, place in words if option in (PROJECT, OF_PROJECT)]
    places += [env[OF_PROJECT]] if OF_PROJECT in env else []
    if is_own_all_the_way(folder) and all(_is_own_project(folder, place) for place in places):
        return list(command), env
    options = [word for word in command[:end] if not _is_from_there(word)]
    kept = {name: value for name, value in env.items() if name != OF_PROJECT or not leads_there(value)}
    rest = [*options, *command[end:]]
    is_plain = any(JULIA.fullmatch(Path(word).name) for word in rest)
    is_named = any(name in word for word in rest for name in (PROJECT, OF_PROJECT))  # in the words of a shell
    return rest if is_plain or not is_named else _at_home(rest, env, folder), kept


def _program_file_at(command: Sequence[str]) -> int:
    """Where the file stands that Julia runs; what is behind it is that file's own."""
    return next((number for number, word in enumerate(command) if word.endswith(".jl")), len(command))


def _is_from_there(word: str) -> bool:
    option, _, place = word.partition("=")
    return option in (PROJECT, OF_PROJECT) and leads_there(place)


def _is_own_project(folder: str, place: str) -> bool:
    """Whether nobody else has made, or can change, something of the project that Julia finds from a folder.

    It is the first one in the folder or above, where a sticky folder may be, as /scratch, that all people write to.
    """
    if not leads_there(place):
        return True
    start = Path(folder) / ("" if place == "@." else place)
    around = [start, *start.parents]
    found = next((one for one in around if any(os.path.lexists(one / name) for name in PROJECT_FILES)), start)
    if not os.path.lexists(found):
        return True
    try:
        with held(found / "file", follow=False) as project:
            return project.is_private and not of_others_in(found)
    except OSError:
        return False


def prepared_ruby(command: Sequence[str], env: Environment, folder: str) -> tuple[list[str], Environment]:
    """The command and environment of a Ruby kernel that is started in ``folder``."""
    own = Path(env.get("HOME", "/"), ".irbrc")
    elsewhere = {} if is_own_for_irb(folder) else {"IRBRC": str(own) if own.is_file() else os.devnull}
    return list(command), elsewhere | env


def is_own_for_irb(folder: str) -> bool:
    """Whether IRB may read the files of a folder."""
    return is_own_all_the_way(folder) and are_own(folder, OF_IRB)


def without_irbrc(command: Sequence[str], env: Environment, runtime: Path) -> Environment:
    """``env`` of a Ruby kernel whose IRB, of any version, loads nothing of the folder that it is started in.

    Arguments:
        runtime: the folder of the session's sockets, which a kernel in a container sees, too.
    """
    folders = places(command, env, runtime, is_sure=True)
    found = ":".join(filter(None, [*folders, env.get("RUBYLIB", "")]))
    options = " ".join(filter(None, [f"-r{OF_RUBY.stem}", env.get("RUBYOPT", "")]))
    return env | {"RUBYLIB": found, "RUBYOPT": options, FOLDERS: ":".join([str(runtime), *folders])}


PREPARED: dict[str, Callable[[Sequence[str], Environment, str], tuple[list[str], Environment]]] = {
    "r": prepared_r,
    "julia": prepared_julia,
    "ruby": prepared_ruby,
}
