"""Small notebooks with a card, for tests of templates, and the modules that lie beside the real ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@contextmanager
def module_of(place: str) -> Iterator[ModuleType]:
    """A module of a lesson's folder, such as ``ray/private_dashboard.py``, known by its name as long as this lasts."""
    file = NOTEBOOKS / place
    spec = spec_from_file_location(file.stem, file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks there for its module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def lesson(code: str, words: str = "What it teaches.", **card: Any) -> dict[str, Any]:
    """A notebook with a card."""
    cells = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# A lesson\n", "\n", words]},
        {"cell_type": "code", "id": "work", "metadata": {}, "execution_count": None, "outputs": [], "source": code},
    ]
    about: dict[str, Any] = {
        "framework": "TensorFlow", "kernel": "tensorflow", "gpus": 1, "minutes_cpu": 1, "dataset": "MNIST",
        "summary": "What it teaches.",
    }  # fmt: skip
    about |= card
    kernel = {"name": about["kernel"], "display_name": "", "language": "python"}
    return {"cells": cells, "metadata": {"dsportal": about, "kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(place: Path, content: str | dict[str, Any]) -> Path:
    """A file with its folder; a notebook from its values."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return place


def ran(place: Path, code: str = "") -> None:
    """A run leaves outputs and numbers in a notebook; a person may have written other code."""
    notebook = json.loads(place.read_bytes())
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "0.91"}]
    notebook["cells"][1]["execution_count"] = 1
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.11"}
    notebook["cells"][1]["source"] = code or notebook["cells"][1]["source"]
    place.write_text(json.dumps(notebook))
