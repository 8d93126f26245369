"""One notebook template as its card describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from portal.notebooks.files import NOTEBOOK_MAX, read_file
from portal.notebooks.style import is_card, is_shown, titles


@dataclass(frozen=True)
class Template:
    """One notebook template; ``name`` is ``<folder>/<file>`` without the ending.

    Attributes:
        gpus: how many it makes use of, with its own kernel.
        minutes_cpu: what a run takes on two cores; ``minutes_gpu`` what it took on one GPU, ``None`` = not measured.
        level: where on the way it comes (:data:`portal.notebooks.style.LEVELS`).
        files: what a copy of it needs and its cells do not name: files and folders beside it.
    """

    name: str
    path: Path
    title: str
    summary: str
    framework: str
    kernel: str
    gpus: int
    minutes_cpu: int
    dataset: str
    minutes_gpu: int | None = None
    level: int = 2
    files: Sequence[str] = ()


def mark_of(framework: str) -> str:
    """Two letters that stand for a framework in its card's picture: ``TF``, ``Ke``."""
    capitals = re.sub(r"[^A-Z]", "", framework.partition(" ")[0])
    return capitals[:2] if len(capitals) > 1 else framework[:2]


def needs_of(gpus: int, minutes_cpu: int) -> str:
    """``1 GPU or two cores, about 5 minutes``; the time is that on two cores."""
    wanted = {0: "", 1: "1 GPU or "}.get(gpus, f"{gpus} GPUs or ")
    return f"{wanted}two cores, about {minutes_cpu} minute{'s' if minutes_cpu != 1 else ''}"


def read(path: Path, roots: Sequence[Path]) -> Template | None:
    """The template in a file; None when it cannot be read, has no card, or is not really below ``roots``."""
    try:
        notebook = json.loads(read_file(path, NOTEBOOK_MAX, roots))
        card = notebook["metadata"]["dsportal"]
        found = Template(name=f"{path.parent.name}/{path.stem}", path=path, title=titles(notebook)[0], **card)
        return found if is_card(card) and is_shown(found.name) and is_shown(found.title) else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
