"""One notebook template as its card describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portal.language import amounts
from portal.language.texts import _, ngettext
from portal.notebooks.style import TEXT_MAX, is_card, is_shown, titles

FILES_MAX = 200  # of one template


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
    minutes = ngettext("{number} minute", "{number} minutes", minutes_cpu).format(number=minutes_cpu)
    with_gpus = _("{gpus} or two cores, about {minutes}").format(gpus=amounts.gpus(gpus), minutes=minutes)
    return with_gpus if gpus else _("two cores, about {minutes}").format(minutes=minutes)


def parsed(content: bytes, path: Path) -> Template | None:
    """The template that a notebook's content is; None when it is no notebook, or its card is none that can be shown."""
    try:
        notebook = json.loads(content)
        card = notebook["metadata"]["dsportal"]
        found = Template(name=f"{path.parent.name}/{path.stem}", path=path, title=titles(notebook)[0], **card)
        if not is_card(card) or not is_shown(found.title):
            return None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    # Cards are kept while others are read: a list of a million names would be, too.
    return replace(found, files=[name for name in found.files[:FILES_MAX] if len(name) <= TEXT_MAX])
