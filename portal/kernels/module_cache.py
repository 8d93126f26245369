"""A person's cache of module environments: one small file for each set of modules.

An entry names every modulefile that was loaded and every folder on the way to it, with time, size and
inode, and what its modulefiles ask for (:mod:`portal.kernels.module_text`). When one of them has changed, or a value
that the entry was made from, the entry is a miss. What cannot be read or written is a miss too, never an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal.homes.own_folder import make_own
from portal.homes.private_folder import VARIABLE
from portal.kernels import module_text
from portal.kernels.delta import Change, Environment, difference

# Modulefiles may ask for these; entries of another person, node or module path are other entries.
_CONTEXT = ("MODULEPATH", "HOME", "USER", "LOADEDMODULES", "LMOD_CMD", "MODULES_CMD")
_VERSION_FILES = (".version", ".modulerc", ".modulerc.lua")
_KEPT = 100

Signature = list[Any]  # [path, mtime_ns, size, inode], the numbers None where there is no file


def folder_of(environ: Environment | os._Environ[str]) -> str | None:
    """The person's own cache folder, mode 0700; None where there is no such place."""
    private = environ.get(VARIABLE, "")
    folder = f"{private}/modules" if private else f"{environ.get('HOME', '')}/.cache/dsportal/modules"
    if not os.path.isabs(folder):
        return None
    with contextlib.suppress(OSError):
        make_own(Path(folder))
        found = os.stat(folder)
        # What another user can write decides what this person's kernels run.
        if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return folder
    return None


def file_of(folder: str, modules: tuple[str, ...], system: tuple[str, tuple[str, ...]], base: Environment) -> str:
    """The file of one entry, named by a digest of everything that chooses the environment.

    ``system`` is the module command and its MODULEPATH (:class:`portal.kernels.modules.ModuleSystem`).
    """
    context = {name: base.get(name) for name in _CONTEXT}
    parts = [modules, system, context, os.uname().nodename]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode(errors="surrogateescape")).hexdigest()
    return f"{folder}/{digest[:32]}.json"


def read(file: str, base: Environment) -> dict[str, Change] | None:
    """The changes kept in ``file``, if they are still true for ``base``; None otherwise."""
    try:
        with open(file, encoding="utf-8") as opened:
            entry = json.load(opened)
        unchanged = all(signature(known[0]) == known for known in entry["signatures"])
        known = {**entry["replaced"], **entry["asked"]}
        same_base = all(base.get(name) == value for name, value in known.items())
        changes = _checked(entry["changes"])
        # What was put around a value would leave an empty word without one: for many lists, the folder one works in.
        has_values = all(base.get(name) for name, change in changes.items() if isinstance(change, tuple))
        return changes if unchanged and same_base and has_values else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _checked(changes: dict[str, Any]) -> dict[str, Change]:
    return {name: _change(value) for name, value in changes.items()}


def _change(value: Any) -> Change:
    """A change as JSON keeps it: a text, a list of two, or null."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(text, str) for text in value):
        raise ValueError("not a change of a variable")
    return value[0], value[1]


def write(file: str, base: Environment, loaded: Environment, command: str) -> None:
    """Keep what made ``loaded`` of ``base``; a reader sees the old entry or the new one, never half of one.

    What may be another answer in another job, though nothing that is seen here has changed, is not kept.
    """
    changes = difference(base, loaded)
    files = watched(base, loaded, command)
    asked = module_text.asked_for(file for file in files if file != command and not os.path.isdir(file))
    if asked is None or module_text.names_the_job(changes.values(), base, asked):
        return
    entry = {
        "asked": {name: base.get(name) for name in asked},
        "changes": changes,
        "replaced": {name: base.get(name) for name, change in changes.items() if isinstance(change, str)},
        "signatures": [signature(path) for path in files],
    }
    unfinished = f"{file}.{os.getpid()}"
    with contextlib.suppress(OSError, ValueError):
        with open(unfinished, "x", encoding="utf-8", opener=_private) as opened:
            json.dump(entry, opened)
        os.replace(unfinished, file)
        _forget_old(os.path.dirname(file))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def signature(path: str) -> Signature:
    """What changes when a file or folder does."""
    try:
        found = os.stat(path)
    except OSError:
        return [path, None, None, None]
    return [path, found.st_mtime_ns, found.st_size, found.st_ino]


def watched(base: Environment, loaded: Environment, command: str) -> list[str]:
    """Every path whose change may change what the modules give."""
    roots = {*_paths(base.get("MODULEPATH")), *_paths(loaded.get("MODULEPATH"))}
    files = list(_paths(loaded.get("_LMFILES_")))
    folders = roots | {folder for file in files for folder in _folders_above(file, roots)}
    versions = {f"{folder}/{name}" for folder in folders for name in _VERSION_FILES}
    return sorted({*files, *folders, *versions, f"{base.get('HOME', '')}/.modulerc", command})


def _paths(value: str | None) -> Iterator[str]:
    yield from (path for path in (value or "").split(":") if path)


def _folders_above(file: str, roots: set[str]) -> Iterator[str]:
    folder = os.path.dirname(file)
    while any(folder.startswith(f"{root.rstrip('/')}/") for root in roots):
        yield folder
        folder = os.path.dirname(folder)


def _forget_old(folder: str) -> None:
    entries = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    for entry in entries[_KEPT:]:
        os.unlink(entry.path)
