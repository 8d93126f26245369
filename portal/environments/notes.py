"""What the portal remembers of a person's environments: one small file for each, in the person's private folder.

A note is there before anything is made, so that a making that was interrupted is seen, and can be removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from portal.environments.order import NAME_FORM, EnvironmentOrder, order_of
from portal.errors import RequestError
from portal.homes.own_folder import make_own
from portal.homes.private_folder import IN_HOME, VARIABLE
from portal.homes.regular_file import open_regular

SIZE_MAX = 65_536
_FILE = re.compile(rf"({NAME_FORM})\.json\Z", re.ASCII)


class MakingState(StrEnum):
    """How far an environment is."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class Maker:
    """The process that makes an environment; ``ticks`` is when it began, so that no other of its number is meant."""

    host: str = ""
    pid: int = 0
    ticks: int = 0


@dataclass(frozen=True)
class EnvironmentNote:
    """An environment.

    Attributes:
        path: its folder; "" for a kernel out of modules alone.
        words: of one that failed, why, in one line.
        made_at: when it was asked for, in seconds since 1970.
        size_bytes: how much room it took when its packages were ``measured_ns`` old (their folder's time).
    """

    order: EnvironmentOrder
    path: str
    state: MakingState
    made_at: int
    words: str = ""
    maker: Maker = field(default_factory=Maker)
    size_bytes: int = 0
    measured_ns: int = 0


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where a person's notes are."""
    private = environ.get(VARIABLE) or str(Path(environ.get("HOME") or Path.home()) / IN_HOME)
    return Path(private, "environments")


def log_of(folder: Path, name: str) -> Path:
    """The file that the making of an environment is written down in."""
    return folder / f"{name}.log"


def open_log(folder: Path, name: str) -> IO[bytes]:
    """The log of a making that begins, empty.

    Raises:
        OSError: the folder cannot be written.
    """
    log_of(folder, name).unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND
    return os.fdopen(os.open(log_of(folder, name), flags, 0o600), "wb")


def write(folder: Path, note: EnvironmentNote) -> None:
    """Keep a note: who reads sees the old one or the new one.

    Raises:
        OSError: the folder cannot be written.
    """
    make_own(folder)
    unfinished = folder / f".{note.order.name}.{os.getpid()}"
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(note), file)
        unfinished.replace(folder / f"{note.order.name}.json")
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def read(folder: Path, name: str) -> EnvironmentNote | None:
    """One note; None where there is none, or what is there is none."""
    try:
        with open_regular(folder / f"{name}.json") as opened:
            given: Any = json.loads(opened.read(SIZE_MAX))
        note = _note(given)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, RequestError):
        return None
    return note if note.order.name == name else None


def read_all(folder: Path) -> list[EnvironmentNote]:
    """All notes, by name; what cannot be read is passed over."""
    try:
        found = sorted(match[1] for one in folder.iterdir() if (match := _FILE.match(one.name)))
    except OSError:
        return []
    return [note for name in found if (note := read(folder, name))]


def remove(folder: Path, name: str) -> None:
    """Forget an environment, and what its making has said."""
    for file in (log_of(folder, name), folder / f"{name}.json"):
        file.unlink(missing_ok=True)


def _note(given: Any) -> EnvironmentNote:
    """A note out of its JSON, each part of it looked at as if somebody had asked for it now."""
    maker = given["maker"]
    numbers = [given[one] for one in ("made_at", "size_bytes", "measured_ns")] + [maker["pid"], maker["ticks"]]
    texts = [given["path"], given["words"], maker["host"]]
    if not all(type(one) is int for one in numbers) or not all(isinstance(one, str) for one in texts):
        raise ValueError("not a note")
    order = order_of(given["order"])
    if given["path"] and not (Path(given["path"]).is_absolute() and Path(given["path"]).name == order.name):
        raise ValueError("not a note")
    return EnvironmentNote(
        order,
        given["path"],
        MakingState(given["state"]),
        given["made_at"],
        given["words"],
        Maker(**maker),
        given["size_bytes"],
        given["measured_ns"],
    )
