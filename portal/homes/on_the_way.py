"""What leads to a file: who can change a part of the way can have another one found there. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LINKS_MOST = 40  # as the kernel follows: path_resolution(7)
OVERFLOW = 65534  # who owns what a user namespace has no number for: user_namespaces(7)
ALL_NUMBERS = ["0", "0", str(2**32 - 1)]  # where there is no such namespace


def on_the_way(path: Path) -> Iterator[Path]:
    """The file, all folders above it, and each link that leads to it, with the folders above that one."""
    here = Path("/")
    todo = [*path.absolute().parts[1:]]
    links = 0
    yield here
    while todo:
        name = todo.pop(0)
        if name == "..":
            here = here.parent
            continue
        yield here / name
        target = _target(here / name) if links < LINKS_MOST else None
        if target:
            links += 1
            todo = [part for part in target.parts if part != "/"] + todo
            here = Path("/") if target.is_absolute() else here
        else:
            here /= name


def _target(path: Path) -> Path | None:
    """Where a link leads; None where there is none, or nobody here may look."""
    try:
        return path.readlink()
    except OSError:
        return None


def without_number() -> set[int]:
    """Who a user namespace has no number for: in the demo of an ordinary user also the machine's root."""
    try:
        is_whole = Path("/proc/self/uid_map").read_text().split() == ALL_NUMBERS
    except OSError:
        is_whole = True
    return set() if is_whole else {OVERFLOW}
