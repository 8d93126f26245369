"""What comes before the Python of every kernel that a session starts: it keeps the kernel from opening ports.

And the kernel is started by a file of ours instead of ``-m``, for which Python looks into the notebook's folder first.
Kernels of other languages are often Python programs, too (``python -m bash_kernel``).

It works in any environment, a person's own included, because nothing in the environment is changed: Python is told by
PYTHONPATH to look into some folders more, and the kernel takes them back out of its environment at once; where others
may have left files beside the notebook, one stays for the Pythons that are started there. What stays is handed on to
jobs, too, which run on other nodes, and when the session is gone: it has a name that nobody else can give to a folder,
the portal's own, or one in the home, which a kernel in a container finds. The folder of the sockets, which it finds in
any case, is for those that take it out.
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from portal.homes.held_place import is_own_all_the_way
from portal.homes.own_folder import make_own
from portal.kernels.containers import RUNTIMES
from portal.kernels.delta import Environment

FIRST = Path(__file__).with_name("startup") / "sitecustomize.py"
LAUNCHER = FIRST.with_name("ipykernel_launcher.py")
NAMED = FIRST.with_name("named_module.py")
OWN = FIRST.with_name("own_place.py")
BY_NAME = ["-m", LAUNCHER.stem]
PYTHONS = ("python", "pypy")
PYTHON = re.compile(r"(python|pypy)[\d.]*")  # the program
WITH_VALUE = ("-X", "-W")
OF_RUBY = FIRST.with_name("irb_of_home.rb")
CONTENTS = {file.name: file.read_bytes() for file in (OWN, FIRST, LAUNCHER, NAMED, OF_RUBY)}  # as this session began
VERSION = f"startup-{zlib.crc32(b''.join(CONTENTS.values())):08x}"  # sessions of another one have theirs
DEBUGGER = "DSPORTAL_KERNEL_DEBUGGER"  # their names in that file
FOLDERS = "PORTAL_KERNEL_FOLDERS"
STARTED = "PORTAL_STARTED_BY_KERNEL"
IN_THEIRS = {"PORTAL_KERNEL_IN_THEIRS": "1"}  # others may have chosen where it begins, until the moment when it does
OF_COMPILERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH")
OF_LANGUAGES = ("CLASSPATH", "NODE_PATH", "PERL5LIB", "PERLLIB", "PKG_CONFIG_PATH", "PYTHONPATH", "RUBYLIB")
OF_R = ("R_LIBS", "R_LIBS_SITE", "R_LIBS_USER")
LIBRARIES = ("LD_PRELOAD", "LD_AUDIT")  # themselves; one without a slash is looked for where libraries are
OF_JUPYTER = ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH")
# Of folders. Not those in which an empty word is the usual ones, as in LUA_PATH.
LISTS = ("PATH", "LD_LIBRARY_PATH", *LIBRARIES, *OF_LANGUAGES, *OF_R, *OF_COMPILERS, *OF_JUPYTER)
BETWEEN = {"LD_LIBRARY_PATH": "[:;]", "LD_PRELOAD": "[: ]"}  # ld.so(8)
NONE_OF_R = "NULL"
SAFE_PATH = {"PYTHONSAFEPATH": "dsportal"}  # as in that file
OF_JULIA = ("JULIA_LOAD_PATH", "JULIA_DEPOT_PATH")  # in these, too; @name is an environment, and @. that folder's
OF_PROJECT = "JULIA_PROJECT"
# Of one file or folder; what it may begin with beside "/" is how its program has the home.
SINGLE = {
    **dict.fromkeys(("IPYTHONDIR", "IRBRC", "R_ENVIRON", "R_PROFILE"), "~"),
    **dict.fromkeys(("PYTHONSTARTUP", "PYTHONUSERBASE", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"), "/"),
    "BASH_ENV": "$HOME/",
}


def prepared(command: Sequence[str], env: Environment, runtime: Path, *, debugger: bool) -> Environment:
    """``env`` for a Python kernel.

    Arguments:
        command: how it is started; what it does not say to be a Python may be none in the end, which takes nothing out.
        runtime: the folder of the session's sockets, which only the person can read.
        debugger: whether the kernel may open the port of its debugger.
    """
    (runtime / "tmp").mkdir(mode=0o700, exist_ok=True)  # what it keeps for a while
    folders = places(command, env, runtime, is_sure=any(PYTHON.fullmatch(Path(word).name) for word in command))
    path = ":".join(filter(None, [*folders, env.get("PYTHONPATH", "")]))
    given = {name: value for name, value in env.items() if name != STARTED}  # by a kernel in whose cell this is
    told = {"PYTHONPATH": path, FOLDERS: ":".join([str(runtime), *folders])}
    return given | told | ({DEBUGGER: "1"} if debugger else {})


def places(command: Sequence[str], env: Environment, runtime: Path, *, is_sure: bool) -> list[str]:
    """Where these files are for a kernel.

    Those beside the session's sockets are for an image that may not have the home: only for a kernel that takes them
    out of what it hands on (``is_sure``), as somebody else can make a folder of that name where a job runs.
    """
    session = laid(runtime)
    is_image = any(Path(word).name in RUNTIMES for part in command for word in part.split())
    return [*lasting(env), *([session] if is_image and is_sure else [])]


def laid(runtime: Path) -> str:
    """The folder with these files beside the session's sockets."""
    folder = runtime / "startup"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in CONTENTS.items():
        if not (folder / name).exists():
            _put(folder / name, content)  # another kernel may start meanwhile
    return str(folder)


def lasting(env: Environment) -> list[str]:
    """The folders with these files whose names nobody else can give to another one, on any node and at any time.

    The portal's own; and one in the home, for an image: not where the home is full, or others can change it.
    """
    home = Path(env.get("HOME") or "/none")
    place = home / ".cache" / "dsportal" / VERSION
    with suppress(OSError):
        if home.is_absolute() and home.is_dir():
            make_own(place)
        if home.is_absolute() and is_own_all_the_way(place):
            for name, content in CONTENTS.items():
                _put(place / name, content)
            return [str(FIRST.parent), str(place)]
    return [str(FIRST.parent)]


def _put(file: Path, content: bytes) -> None:
    """Have a file of this content, whole for each that reads it meanwhile."""
    with suppress(FileNotFoundError):
        if file.read_bytes() == content:
            return
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        beside.write_bytes(content)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def safe(command: Sequence[str], env: Environment) -> Environment:
    """``env`` for a kernel in a folder of others, by a program that may set PYTHONPATH anew, so that ours is not found.

    A wrapper, be it a Python itself, or an image's environment. From 3.11 on Python itself then looks for no modules in
    that folder.
    """
    is_kernel = [Path(word).name for word in command[1:2]] == [LAUNCHER.name]
    return env if is_kernel and Path(command[0]).name.startswith(PYTHONS) else SAFE_PATH | env


def without_folder(env: Environment) -> Environment:
    """``env`` without the folder that a program is started in, which empty words name, and relative ones lead into."""
    given = {name: parts_of(name, env[name]) for name in LISTS if name in env}
    lists = {name: ":".join(one for one in folders if _is_elsewhere(name, one)) for name, folders in given.items()}
    lists |= {name: ":".join(filter(_is_julias, env[name].split(":"))) for name in OF_JULIA if name in env}
    lists |= {
        name: env[name] if env[name].startswith(("/", home)) else "" for name, home in SINGLE.items() if name in env
    }
    lists |= {OF_PROJECT: "" if leads_there(env[OF_PROJECT]) else env[OF_PROJECT]} if OF_PROJECT in env else {}
    return {name: value for name, value in (env | lists).items() if value or name not in lists}


def leads_there(project: str) -> bool:
    """Whether Julia looks for a project in or above the present folder: "" is ``@.``, and ``@name`` is none such."""
    return project in ("", "@.") or not (project.startswith("@") or Path(project).is_absolute())


def parts_of(name: str, value: str) -> list[str]:
    """The words of a variable that is a list of folders, or of libraries."""
    return re.split(BETWEEN.get(name, ":"), value)


def _is_elsewhere(name: str, word: str) -> bool:
    is_bare = name in LIBRARIES and "/" not in word and bool(word)
    return word.startswith("/") or is_bare or (name in OF_R and word == NONE_OF_R)


def _is_julias(word: str) -> bool:
    return word == "" or (word.startswith(("/", "~", "@")) and word != "@.")


def by_file(command: Sequence[str], runtime: Path) -> list[str]:
    """A kernel's command that takes nothing out of the folder in which it is started."""
    words = list(command)
    for number in range(len(words) - 1):
        if words[number : number + 2] == BY_NAME:
            return [*words[:number], str(runtime / "startup" / LAUNCHER.name), *words[number + 2 :]]
    named = _named_at(words)
    return [*words[:named], str(runtime / "startup" / NAMED.name), *words[named + 1 :]] if named else words


def is_by_name(command: Sequence[str]) -> bool:
    """Whether a command has a Python run a module."""
    return _named_at(command) > 0


def _named_at(command: Sequence[str]) -> int:
    """Where a Python's own ``-m`` stands in a command that may begin with others; 0: it has none."""
    is_option = is_value = False
    for number, word in enumerate(command[:-1]):
        if is_value:
            is_value = False
        elif is_option and word == "-m":
            return number
        elif is_option and word in WITH_VALUE:
            is_value = True
        elif not (is_option and word.startswith("-") and word != "-c"):
            is_option = Path(word).name.startswith(PYTHONS)
    return 0
