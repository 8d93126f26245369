"""Faults of a settings file as sentences: the key as the file writes it, the value given, what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError


def sentences(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One sentence for each fault that ``model`` found."""
    faults = error.errors()
    deeper = {fault["loc"][:-1] for fault in faults}  # a list is not "too short" when its items are at fault
    return [_sentence(f, model) for f in faults if not (f["type"] == "too_short" and f["loc"] in deeper)]


def _sentence(fault: Any, model: type[BaseModel]) -> str:
    """One fault: the key, the value given, what is allowed."""
    key = _key(fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = _known_keys(fault["loc"][:-1], model)
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        return f"{key}: unknown key; {hint}"
    if fault["type"] == "missing":
        return f"{key}: missing"
    return f"{key}: {fault['input']!r} is not possible; allowed: {_allowed(fault)}"


def _key(location: tuple[int | str, ...]) -> str:
    """``portal.port``, ``partition[2].name``: where a fault is, as the file writes it."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        elif re.fullmatch(r"[a-z_]+", part):  # other parts are names of the validator, not of the file
            text += f".{part}" if text else part
    return text


_ALLOWED = {  # by the type of pydantic's error
    "int_type": "a whole number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "tuple_type": "a list in [ ]",
    "model_type": "a table",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "too_short": "a list of at least {min_length}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text like {pattern}",
}


def _allowed(fault: Any) -> str:
    if allowed := _ALLOWED.get(fault["type"]):
        return allowed.format(**fault.get("ctx", {}))
    return str(fault["msg"]).removeprefix("Value error, ")


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    for part in location:
        if not isinstance(part, int):
            model = _inner_model(model, part) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _inner_model(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return next(_models(field.annotation), None)
    return None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)
