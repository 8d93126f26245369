"""The rooms of the house: one folder is one process or one outside thing, and who may import whom.

The lines are drawn by folder, so that a new file is covered without a list. A module at the top of ``portal`` is in the
room ``pure``, but those of :data:`TOP`; so are those of :data:`PURE_FOLDERS`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = {
    "cli": "cli",
    "launcher": "launcher",
    "launch_rules": "launcher",
    "server": "singleuser",  # the old name, for jobs that an earlier version submitted
}
PURE_FOLDERS = {"settings", "options", "language"}
PAGES_OF_HUB = {"notebooks", "showcase", "assets", "history", "sessions", "receipts", "quotas"}
MAY_IMPORT = {
    "pure": set(),
    "homes": set(),
    "launcher": {"homes"},
    "slurm": {"pure"},
    "extending": {"pure", "homes", "launcher", "slurm"},
    "limits": {"pure", "slurm"},
    "forecasts": {"pure", "slurm"},
    "kernels": {"pure", "homes"},
    "forwarding": set(),
    "internal_tls": {"pure"},
    "tensorboard": {"pure", "homes", "forwarding", "session_pages"},
    "webtools": {*("pure", "homes", "kernels", "catalogue", "forwarding", "tensorboard", "session_pages", "trials")},
    "lessons": set(),  # copies of it lie beside notebooks, and run in the kernels' own Pythons
    "notebooks": {"pure", "lessons", "homes"},
    "gallery": {"pure", "notebooks", "homes", "session_pages"},
    "session_usage": {"pure", "assets", "lessons", "kernels", "homes", "session_pages"},
    "downloads": {"homes", "notebooks", "session_pages"},
    "uploads": {"homes", "session_pages"},
    "exports": {"homes", "kernels", "downloads", "session_pages"},  # kernels: what is secret in an environment
    "session_hub": {"pure", "session_usage", "session_pages"},
    "modules": {"pure", "homes", "kernels", "session_pages"},
    # launcher: what sbatch means
    "jobs": {"pure", "homes", "launcher", "slurm", "kernels", "notebooks", "modules", "session_pages"},
    "session_pages": {"pure", "forwarding"},
    "environments": {"pure", "homes", "kernels", "catalogue", "modules", "session_pages"},
    # launcher: its files' names
    "singleuser": {
        *("pure", "launcher", "tensorboard", "homes", "gallery", "lessons", "assets", "session_usage", "jobs"),
        *(
            "environments",
            "modules",
            "session_hub",
            "trials",
            "downloads",
            "exports",
            "uploads",
            "webtools",
            "forwarding",
        ),
        *("session_pages", "internal_tls"),
    },
    "administration": {"pure", "databases", "forecasts", "sessions"},
    "catalogue": {"pure", "homes", "kernels", "trials"},
    "trials": {"pure", "homes", "session_pages"},
    "guard": {"pure", "homes"},
    "assets": set(),
    "showcase": {"pure", "notebooks"},
    "proxy": {"pure", "forwarding"},
    "databases": {"pure"},
    "history": {"pure", "sessions"},
    "sessions": {"pure"},
    "receipts": {"pure", "databases", "slurm", "history"},
    "quotas": {"pure", "slurm"},
    "hub": {
        *("pure", "databases", "slurm", "limits", "forecasts", "administration", "guard", "proxy", "internal_tls"),
        *PAGES_OF_HUB,
    },
    "directory": {"pure", "hub"},  # hub: the certificates that are trusted
    "login": {"pure", "databases", "slurm", "hub", "administration", "directory"},
    "doctor": {
        "pure",
        "assets",
        "extending",
        "launcher",
        "databases",
        "slurm",
        "hub",
        "login",
        "directory",
        "kernels",
        "catalogue",
        "gpus",
        "notebooks",
        *("homes", "trials", "webtools"),
    },
    "testing": {"pure", "slurm", "homes", "launcher"},
    "gpus": {"pure", "homes", "slurm", "kernels", "catalogue", "lessons", "trials"},
    "commands": {
        *(
            "pure",
            "homes",
            "databases",
            "hub",
            "login",
            "catalogue",
            "gpus",
            "notebooks",
            "gallery",
            "jobs",
            "environments",
            "modules",
            "webtools",
        )
    },
    "cli": {"pure", "homes", "commands", "hub", "proxy", "singleuser", "notebooks", "doctor"},
    # jobs: why a job waits, in words
    "spawners": {
        *(
            "pure",
            "databases",
            "slurm",
            "limits",
            "forecasts",
            "history",
            "sessions",
            "hub",
            "assets",
            "quotas",
            "jobs",
        ),
        "extending",
        "guard",
    },
}
ONLY_IN = {  # an outside thing, and the one place that owns it
    "ldap3": {"portal/directory/conversation.py", "portal/directory/searches.py", "portal/directory/dns.py"},
    "pynvml": {"portal/session_usage/gpus.py"},
    "papermill": {"portal/notebooks/run.py"},
    "sqlite3": {"portal/hub/database.py"},
    "batchspawner": {"spawners/slurm.py", "spawners/callback.py"},
    "wrapspawner": {"spawners/profiles.py"},
}
STARTS_PROCESSES = {  # and why it does so itself
    "portal/slurm/runner.py": "the place where the hub starts a process",
    "portal/proxy/proxy_process.py": "becomes the proxy, which outlives the hub",
    "portal/launcher.py": "sbatch, squeue and scancel, as the person, with the standard library alone",
    "portal/extending/program.py": "squeue and scontrol, as an operator of Slurm, for more time",
    "portal/catalogue/tried.py": "asks the program of a kernel for its version and its frameworks, for root, too",
    "portal/gpus/as_person.py": "the same command as a person: root starts no kernels and no tools",
    "portal/gpus/job.py": "sbatch, as the person who types `portal kernels test --partition`",
    "portal/kernels/module_output.py": "the module command, in a kernel's start: no event loop, standard library alone",
    "portal/kernels/run_kernel.py": "becomes the kernel",
    "portal/kernels/watched/stderr.py": "passes on what a kernel says, and waits for nothing of the server's",
    "portal/exports/apart.py": "nbconvert, which ends with who asked for it",
    "portal/session_usage/before_end.py": "a person's own script, before the session ends",
    "portal/environments/desk.py": "what makes an environment, which neither a server nor a terminal waits for",
    "portal/environments/maker.py": "venv, uv, conda and pip, one after the other",
    "portal/forwarding/socket_process.py": "names the type of the processes that it ends",
    "portal/webtools/tools.py": "a web tool, which lives as long as the session's server",
    "portal/webtools/run_tool.py": "the tool itself, in the environment of its modules",
    "portal/tensorboard/boards.py": "TensorBoard, which lives as long as the session's server",
    "portal/singleuser/quick_start.py": "becomes the stock start after a surprise",
    "portal/singleuser/shutdown.py": "becomes what removes the session's folder, when its threads are gone",
    "portal/lessons/lesson_jobs.py": "becomes a program of a lesson in its job, with an environment made anew",
    "portal/cli.py": "becomes the driver of a bench, in a checkout",
}
PURE_NEEDS_NO = {"asyncio", "subprocess", "socket", "jupyterhub", "tornado", "traitlets", "ldap3"}
OF_KERNELS = {"tensorflow", "horovod", "keras", "torch", "jax"}
PROCESS_CALLS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"},
    "pty": {"fork", "spawn"},
    "multiprocessing": {"Process", "Pool"},
}
LONGEST_FUNCTION = 40
LONGEST_MODULE = 300
MODULES_PER_FOLDER = 12


def modules(*packages: str) -> Iterator[Path]:
    """Every module of some packages."""
    for package in packages:
        yield from sorted(path for path in (ROOT / package).rglob("*.py") if "node_modules" not in path.parts)


def name_of(path: Path) -> str:
    """``portal/hub/app.py``."""
    return str(path.relative_to(ROOT))


MODULES = {name_of(path): ast.parse(path.read_text()) for path in modules("portal", "spawners")}
DEPLOYED = {name_of(path): ast.parse(path.read_text()) for path in modules("deploy")}


def dotted(name: str) -> str:
    """``portal/hub/app.py`` as ``portal.hub.app``."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


OURS = {dotted(name): name for name in MODULES}


def room(name: str) -> str:
    """The room of a module, by its path."""
    parts = name.split("/")
    if parts[0] == "spawners":
        return "spawners"
    if len(parts) > 2:
        return "pure" if parts[1] in PURE_FOLDERS else parts[1]
    return TOP.get(Path(name).stem, "pure")


def imports(name: str, outside: bool = False) -> set[str]:
    """The modules that one imports, wherever in its file: ours, or those of others."""
    found = all_imports(name)
    if outside:
        return {one.split(".")[0] for one in found} - {"portal", "spawners"}
    return {OURS[one] for one in found if one in OURS and not OURS[one].endswith("__init__.py")}


@cache
def all_imports(name: str) -> frozenset[str]:
    """What one imports, wherever in its file: modules, and what else it takes out of them."""
    found: set[str] = set()
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return frozenset(found)


@pytest.mark.parametrize("name", MODULES)
def test_a_room_imports_only_the_rooms_that_it_may(name: str) -> None:
    here = room(name)

    there = {room(other) for other in imports(name)} - {here}

    assert here in MAY_IMPORT, f"{name} is in a room that has no line here: {here}"
    assert there <= MAY_IMPORT[here], name


def test_no_room_and_no_module_is_in_a_circle() -> None:
    circle_free(MAY_IMPORT)
    circle_free({name: imports(name) for name in MODULES})


def circle_free(arrows: dict[str, set[str]]) -> None:
    """Take away what imports nothing that is left, until nothing is left."""
    left = dict(arrows)
    while ends := [name for name, others in left.items() if not others & (left.keys() - {name})]:
        for name in ends:
            del left[name]
    assert not left, sorted(left)


def test_the_portal_never_imports_the_spawners() -> None:
    for name in MODULES:
        if name.startswith("portal/"):
            assert not [other for other in imports(name) if other.startswith("spawners/")], name


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) == "pure"])
def test_pure_rooms_import_no_effects(name: str) -> None:
    assert not imports(name, outside=True) & PURE_NEEDS_NO


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_each_outside_thing_has_one_owner(library: str) -> None:
    assert {name for name in MODULES if library in imports(name, outside=True)} == ONLY_IN[library]


def test_frameworks_belong_to_kernels() -> None:
    for name in MODULES:
        assert not imports(name, outside=True) & OF_KERNELS, name


def starts_a_process(name: str) -> bool:
    """True when a module calls, or hands on, what starts a process or becomes another program."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            library = node.value.id
            is_exec = library == "os" and node.attr.startswith(("exec", "spawn"))
            of_loop = node.attr in ("subprocess_exec", "subprocess_shell")  # of an event loop, whatever it is called
            if is_exec or of_loop or node.attr in PROCESS_CALLS.get(library, ()):
                return True
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            if names & PROCESS_CALLS.get(node.module, set()):
                return True
    return False


def test_processes_are_started_in_few_places_each_for_its_reason() -> None:
    assert {name for name in MODULES if starts_a_process(name)} == set(STARTS_PROCESSES)


@pytest.mark.parametrize("name", MODULES | DEPLOYED)
def test_modules_and_functions_stay_small(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= LONGEST_MODULE
    for node in ast.walk((MODULES | DEPLOYED)[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [part for part in node.body if not is_docstring(part)]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= LONGEST_FUNCTION, node.name


def is_docstring(node: ast.stmt) -> bool:
    """A text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_a_folder_has_no_more_modules_than_one_sees_at_a_glance() -> None:
    folders: dict[Path, int] = {}
    for name in MODULES:
        if not name.endswith("__init__.py"):
            folders[Path(name).parent] = folders.get(Path(name).parent, 0) + 1
    assert {str(folder): count for folder, count in folders.items() if count > MODULES_PER_FOLDER} == {}
