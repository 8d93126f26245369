"""What nbformat says of a faulty notebook: at a cost that its size decides, and in words that have an end.

nbformat (5.11) asks jsonschema (4.26) what is wrong, which keeps each error below a cell to tell one of them: those of
some ten thousand faulty outputs take gigabytes. Here no more errors are made than are told, in nearly the same words.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, Self

WORDS_MAX = 2000  # characters of what is wrong with a notebook, which may hold the whole of it
SHOWN_MAX = 200  # values of a faulty part that are shown with it
DEPTH_MAX = 10
ITEMS_MAX = 16  # of one list or dict, and characters of one text: both as in nbformat
TEXT_MAX = 64
OBJECTS_MAX = 2_000_000  # of JSON, in a notebook: each takes half a KB, in a file two bytes
NAMES_FREE = 5  # of an object, which take no more than it takes without them
LISTS_OF_OBJECT = 4  # that take as much
NAMES_OF_OBJECT = 2
VALUES_OF_OBJECT = 8
MOST = tuple(f"{count * OBJECTS_MAX:,}" for count in (1, LISTS_OF_OBJECT, NAMES_OF_OBJECT, VALUES_OF_OBJECT))
_TEXT = re.compile(r'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def bound() -> None:
    """From now on nbformat makes no errors that nobody is told, in all of this process.

    Nor does it warn of each name that two cells have, in words that Python keeps for ever.
    """
    from jsonschema import Draft4Validator, validators
    from nbformat import validator
    from nbformat.warnings import DuplicateCellId

    if not any(category is DuplicateCellId for _, _, category, *_ in warnings.filters):
        warnings.simplefilter("ignore", DuplicateCellId)
    json_compat: Any = import_module("nbformat.json_compat")
    if getattr(json_compat, "_JsonSchemaValidator", None) is Draft4Validator:
        own = {"oneOf": _one_of, "anyOf": _any_of, "uniqueItems": _unique_items}
        json_compat._JsonSchemaValidator = validators.extend(Draft4Validator, own)
        validator.validators.clear()  # those that were made before
        validator._truncate_obj = partial(shortened, counted=("cells", "outputs"))


def has_too_much(text: str) -> bool:
    """Whether a notebook file has more than :data:`OBJECTS_MAX` objects of JSON, or what takes as much memory."""
    held = _Held.of(text)
    if held.objects(names_free=0) <= OBJECTS_MAX:
        return False
    texts = (text.count('"') - text.count(r"\"")) // 2  # at least; to look at each takes long
    if texts / VALUES_OF_OBJECT > OBJECTS_MAX + 1:
        return True
    for found in _TEXT.finditer(text):
        held -= _Held.of(found[0])
    return held.objects() > OBJECTS_MAX


@dataclass(slots=True)
class _Held:
    """What a part of a notebook file holds."""

    braces: int
    lists: int
    names: int
    values: int

    @classmethod
    def of(cls, text: str) -> _Held:
        """Of all of the text, as though no part of it stood in quotes."""
        return cls(*map(text.count, "{[:,"))

    def __isub__(self, part: _Held) -> Self:
        self.braces -= part.braces
        self.lists -= part.lists
        self.names -= part.names
        self.values -= part.values
        return self

    def objects(self, names_free: int = NAMES_FREE) -> float:
        """As many objects take as much memory."""
        names = max(0, self.names - names_free * self.braces)
        values = max(0, self.values - names)  # a name that counts has a comma, too
        lists = self.lists / LISTS_OF_OBJECT
        return self.braces + lists + names / NAMES_OF_OBJECT + values / VALUES_OF_OBJECT


def in_short(text: str) -> str:
    """A text of so many characters, with a mark where it had more."""
    return text if len(text) <= WORDS_MAX else f"{text[:WORDS_MAX]} …"


def shortened(value: object, counted: Collection[str] = ()) -> object:
    """A faulty part of a notebook, as much of it as is shown.

    Arguments:
        counted: the names of lists of which the length alone is shown.
    """
    return _shortened(value, counted, iter(range(SHOWN_MAX)), DEPTH_MAX)


def _shortened(value: object, counted: Collection[str], left: Iterator[int], depth: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}..."
    if not isinstance(value, (list, dict)):
        return value
    if not depth and value:
        return "..."
    if isinstance(value, list):
        shown = [_shortened(one, counted, left, depth - 1) for one, _ in zip(value[:ITEMS_MAX], left, strict=False)]
        return shown if len(shown) == len(value) else [*shown, f"...{len(value) - len(shown)} items truncated..."]
    part: dict[str, object] = {}
    for (name, one), _ in zip(islice(value.items(), ITEMS_MAX), left, strict=False):
        is_counted = name in counted and isinstance(one, list)
        short = [f"...{len(one)} {name}..."] if is_counted else _shortened(one, counted, left, depth - 1)
        part[name[:TEXT_MAX]] = short
    return part if len(part) == len(value) else {**part, "...": f"{len(value) - len(part)} keys truncated"}


def _fits(validator: Any, instance: object, schema: object) -> bool:
    return bool(validator.evolve(schema=schema).is_valid(instance))  # it stops at the first error


def _one_of(validator: Any, one_of: Sequence[Any], instance: object, schema: object) -> Iterator[Exception]:
    from jsonschema import ValidationError

    fitting = [repr(one) for one in one_of if _fits(validator, instance, one)]
    if len(fitting) > 1:
        yield ValidationError(f"{instance!r} is valid under each of {', '.join(fitting)}")
    elif not fitting:
        yield from _any_of(validator, (), instance, schema)


def _any_of(validator: Any, any_of: Sequence[Any], instance: object, _schema: object) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if not any(_fits(validator, instance, one) for one in any_of):
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")


def _unique_items(_validator: Any, is_wanted: bool, instance: object, _schema: object) -> Iterator[Exception]:
    """Of texts alone: anything else among them is an error of its own, and would be compared with each other one."""
    from jsonschema import ValidationError

    texts = [one for one in instance if isinstance(one, str)] if is_wanted and isinstance(instance, list) else []
    if len(set(texts)) < len(texts):
        yield ValidationError(f"{instance!r} has non-unique elements")
