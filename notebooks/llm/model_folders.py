"""Where a site keeps language models: folders in Hugging Face's format, with the weights in them.

``find(name)`` looks into the folders of ``MODEL_PATH``, a list as ``PATH`` is, and into ``models`` in each folder of
``DATASET_PATH``, which the cluster sets. A model may lie deeper, as ``SmolLM2/135M``. The standard library alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

USUAL_FOLDER = "/usr/share/datasets"
SMALL = 2 << 30  # bytes of weights up to which a model is taken without being named
DEPTH = 3  # folders below a site's own in which models are looked for
WEIGHTS = "*.safetensors"  # no other format: PyTorch's older one can run any program while it is read


class ModelError(Exception):
    """There is no model of that name: one sentence that says what to do."""


class ModelFolder(NamedTuple):
    """A model that is there: its folder, and how many bytes its weights have on the disk."""

    folder: Path
    weights_bytes: int


def folders(variables: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders in which models are looked for, the first that has one first."""
    own = [Path(folder) for folder in variables.get("MODEL_PATH", "").split(":") if folder]
    data = (variables.get("DATASET_PATH") or USUAL_FOLDER).split(":")
    return own + [Path(folder, "models") for folder in data if folder]


def find(name: str = "", variables: Mapping[str, str] = os.environ) -> ModelFolder | None:
    """The model that is named; without a name the smallest that is small, or None where there is none.

    Arguments:
        name: a folder's path, or the part of it behind the site's folder.

    Raises:
        ModelError: there is none of that name.
    """
    places = folders(variables)
    if name:
        for place in (Path.cwd(), *places):
            if found := look(place / Path(name).expanduser()):
                return found
        known = ", ".join(names(places)) or "none"
        raise ModelError(
            f"There is no model {name!r} (config.json, tokenizer and {WEIGHTS}) in {', '.join(map(str, places))}; "
            f"these folders have {known}."
        )
    small = [model for place in places for model in models(place) if model.weights_bytes <= SMALL]
    return min(small, key=lambda model: model.weights_bytes, default=None)


def names(places: list[Path]) -> list[str]:
    """The models in some folders, as :func:`find` takes them."""
    return sorted({str(model.folder.relative_to(place)) for place in places for model in models(place)})


def models(place: Path, depth: int = DEPTH) -> Iterator[ModelFolder]:
    """The models in a folder and below."""
    try:
        inner = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:  # it is not there, or is not for everybody
        return
    for folder in inner:
        if found := look(folder):
            yield found
        elif depth > 1:
            yield from models(folder, depth - 1)


def look(folder: Path) -> ModelFolder | None:
    """The model in a folder, None where there is none that can be used for text."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        sizes = [file.stat().st_size for file in folder.glob(WEIGHTS)]
        has_tokenizer = any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model", "vocab.json"))
    except (OSError, ValueError):
        return None
    architectures = config.get("architectures") if isinstance(config, dict) else None
    writes = any(str(one).endswith(("ForCausalLM", "LMHeadModel")) for one in architectures or ())
    return ModelFolder(folder, sum(sizes)) if sizes and has_tokenizer and writes else None
