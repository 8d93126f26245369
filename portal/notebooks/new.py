"""Start a new notebook template: a short lesson of the house style that runs as it is, to be written over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import PortalError
from portal.homes.held_place import NEW, held


class NotCreated(PortalError):
    """A new template cannot be written; the message says what is allowed."""

    reason = "notebook"


@dataclass(frozen=True)
class Kernelspec:
    """A kernelspec that exists: its name, its title, and its language ("python" or "R")."""

    name: str
    title: str
    language: str


def create(folder: Path, name: str, kernel: Kernelspec, title: str = "") -> Path:
    """Write ``folder/<name>.ipynb``, which has no fault of style and runs; answers its path.

    Raises:
        NotCreated: the name is not ``<framework>/<lesson>``, the template exists, the kernel speaks another language,
            or the folder cannot be written.
    """
    import nbformat

    check_name(name)
    if kernel.language not in _CODE:
        raise NotCreated(f"The kernel {kernel.name} speaks {kernel.language}; this starts lessons in {_LANGUAGES}.")
    path = folder / f"{name}.ipynb"
    if path.exists():
        raise NotCreated(f"There is a template {name} already, and it stays as it is: {path}.")
    notebook = _notebook(name, kernel, title or path.stem.replace("_", " ").capitalize())
    try:
        _put(path.absolute(), nbformat.writes(nbformat.from_dict(notebook)))
    except OSError as error:
        raise NotCreated(
            f"{path} cannot be written ({error.filename}: {error.strerror}): name a folder of yours with --folder."
        ) from error
    return path


def _put(path: Path, text: str) -> None:
    """A new file in its folder, which is made if it is missing; no link of others is followed on the way."""
    with held(path.parent, follow=False) as place, suppress(FileExistsError):
        os.mkdir(place.name, dir_fd=place.folder)
    with (
        held(path, follow=False) as place,
        open(place.name, "w", encoding="utf-8", opener=lambda name, _: os.open(name, NEW, 0o666, dir_fd=place.folder))
        as file,
    ):  # fmt: skip
        file.write(text if text.endswith("\n") else f"{text}\n")


def check_name(name: str) -> None:
    """Raise :class:`NotCreated` for a name that is not ``<framework>/<lesson>``."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*", name):
        raise NotCreated(
            f"{name!r} is no name for a template: write <framework>/<lesson> with small letters, digits and '_', "
            "for example pytorch/my_lesson."
        )


def choose(kernels: Mapping[str, Kernelspec], wanted: str, framework: str, used: str = "") -> Kernelspec:
    """The kernel of a new template: the one wanted, else the one called like its folder, else ``used`` by its brothers.

    Raises:
        NotCreated: there is none of that name.
    """
    for name in [wanted] if wanted else [framework, used]:
        if name in kernels:
            return kernels[name]
    known = ", ".join(sorted(kernels)) or "none"
    what = f"no kernel {wanted!r}" if wanted else f"no kernel called like the folder {framework!r}: name one (--kernel)"
    raise NotCreated(f"There is {what}; there are {known}.")


def _notebook(name: str, kernel: Kernelspec, title: str) -> dict[str, Any]:
    framework = name.partition("/")[0]
    card = {
        "dataset": "none: the numbers are made in the notebook",
        "framework": {"python": "Python"}.get(framework, framework),
        "gpus": 0,
        "kernel": kernel.name,
        "minutes_cpu": 1,
        "summary": "Say in one sentence what a person learns here.",
    }
    spec = {"display_name": kernel.title, "language": kernel.language, "name": kernel.name}
    return {
        "cells": list(_cells(title, card["summary"], _CODE[kernel.language])),
        "metadata": {"dsportal": card, "kernelspec": spec, "language_info": {"name": kernel.language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells(title: str, summary: object, code: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, text in {"title": f"# {title}\n\n{summary}\n\n{_RUN}", **_PROSE}.items():
        yield {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}
        for cell in _BELOW.get(name, ()):
            tags = {"tags": ["parameters"]} if cell == "parameters" else {}
            yield {
                "cell_type": "code", "execution_count": None, "id": cell, "metadata": tags, "outputs": [],
                "source": code[cell].strip(),
            }  # fmt: skip


_RUN = "**Run it all:** menu *Kernel*, then *Restart Kernel and Run All Cells…*"
_PROSE = {
    "setup": "## Setup\n\nThese are the values to play with. Keep them in this one cell, each with a comment.",
    "measure": "## Measure\n\nSay what happens in the next cell and why. A long step tells now and then how far it is.",
    "check-result": "## Check\n\nA wrong result must not look like a right one: the lesson stops and says what to do.",
    "meaning": "## What the numbers mean\n\n* Say what a person should read out of them, and what to expect elsewhere.",
    "next": "## What next\n\n* Name a value to change, and what will be seen.",
}
_BELOW = {"setup": ("parameters", "imports"), "measure": ("work",), "check-result": ("check",)}
_CODE = {
    "python": {
        "parameters": """
points = 200_000  # random points in the square; more of them give more digits
seed = 0  # the same seed gives the same numbers again
""",
        "imports": """
import math
import random
import time

assert points >= 1_000, f"{points} points are too few to tell anything: give 1,000 or more."
random.seed(seed)
""",
        "work": """
started, inside = time.perf_counter(), 0
for number in range(1, points + 1):
    inside += math.hypot(random.random(), random.random()) < 1
    if number % max(1, points // 4) == 0:
        print(f"{number:>12,} points: {4 * inside / number:.4f}")
print(f"{points / (time.perf_counter() - started):,.0f} points/s")
""",
        "check": """
found, allowed = 4 * inside / points, 8 / math.sqrt(points)
assert abs(found - math.pi) < allowed, (
    f"{points:,} points give {found:.4f}, but {math.pi:.4f} with at most {allowed:.4f} beside it was expected; "
    "look at what you changed in the cell above."
)
print(f"As expected: {found:.4f} is not more than {allowed:.4f} away from {math.pi:.4f}")
""",
    },
    "R": {
        "parameters": """
points <- 200000  # random points in the square; more of them give more digits
seed <- 0  # the same seed gives the same numbers again
""",
        "imports": """
if (points < 1000) stop(points, " points are too few to tell anything: give 1,000 or more.")
set.seed(seed)
""",
        "work": """
started <- proc.time()[["elapsed"]]
inside <- 0
for (part in 1:4) {
  inside <- inside + sum(sqrt(runif(points / 4)^2 + runif(points / 4)^2) < 1)
  cat(sprintf("%12.0f points: %.4f\\n", part * points / 4, 4 * inside / (part * points / 4)))
}
cat(sprintf("%.1f seconds\\n", proc.time()[["elapsed"]] - started))
""",
        "check": """
found <- 4 * inside / points
allowed <- 8 / sqrt(points)
if (abs(found - pi) >= allowed) {
  stop(sprintf(paste(
    "%.0f points give %.4f, but %.4f with at most %.4f beside it was expected;",
    "look at what you changed in the cell above."
  ), points, found, pi, allowed))
}
cat(sprintf("As expected: %.4f is not more than %.4f away from %.4f\\n", found, allowed, pi))
""",
    },
}
_LANGUAGES = " and ".join(_CODE)
