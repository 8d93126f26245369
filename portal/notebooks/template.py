"""One notebook template as its card describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Template:
    """One notebook template; ``name`` is ``<folder>/<file>`` without the ending.

    Attributes:
        gpus: how many it makes use of, with its own kernel.
        minutes_cpu: what a run takes on two cores; ``minutes_gpu`` what it took on one GPU, ``None`` = not measured.
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
