"""One notebook template as its card describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Template:
    """One notebook template; ``name`` is ``<folder>/<file>`` without the ending."""

    name: str
    path: Path
    title: str
    summary: str
    framework: str
    kernel: str
    gpus: int
    minutes_cpu: int
    minutes_gpu: int
    dataset: str
