"""How a choice of a session is declared: once, as a field of :class:`portal.request.SessionRequest`.

What follows it: the form, the check, the JSON schema (:mod:`portal.options.schema`) and docs/reference/http.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from portal.language.texts import _
from portal.settings.session_tables import PartitionTable
from portal.site import Site

T = TypeVar("T")
Within = Callable[[Site, PartitionTable, str, int], tuple[int, int]]
_KEY = "option"


class Shape(Enum):
    """What kind of value an option has."""

    NUMBER = "a whole number"
    NAME = "a name of the settings"
    LISTED = "what the partition's table has under the same key: one text is fixed, a list is a choice"


@dataclass(frozen=True)
class Option:
    """One choice of a session.

    Attributes:
        label: what the form calls it; ``hint`` stands below.
        meaning: what it is, for programs: in the schema and in the reference.
        within: the lowest and the highest number in a partition, by the kind and the number of GPUs.
        names: what may be named in a partition, the default first.
        is_choice: whether a partition lets people choose; ``None`` = everywhere, so that the form always has it.
        is_of_site: what may be named is not a partition's to say.
        usual: what comes by itself without a GPU, of a number that may be left empty.
        shown: what the form calls a value that may be named.
        name, default: those of the field; :func:`options_of` fills them in.
    """

    shape: Shape
    label: str
    meaning: str
    hint: str = ""
    unit: str = ""
    within: Within = lambda site, partition, kind, gpus: (0, 0)
    names: Callable[[PartitionTable], tuple[str, ...]] = lambda partition: ()
    is_choice: Callable[[PartitionTable], bool] | None = None
    is_of_site: bool = False
    usual: Callable[[Site, PartitionTable], int] | None = None
    shown: Callable[[str], str] = lambda value: value or _("none")
    name: str = ""
    default: object = None


def declared(default: T, option: Option) -> T:
    """The field of an option, for a dataclass."""
    made: Any = field(default=default, metadata={_KEY: option})
    return made  # type: ignore[no-any-return]


def options_of(request: type[Any]) -> dict[str, Option]:
    """The options that a dataclass declares, by name."""
    found = {one.name: one for one in fields(request)}
    return {name: replace(_own(name, one.metadata[_KEY]), default=one.default) for name, one in found.items()}


def _own(name: str, option: Option) -> Option:
    if option.shape is not Shape.LISTED:
        return replace(option, name=name)
    return replace(
        option,
        name=name,
        names=lambda partition: partition.offers(name),
        is_choice=lambda partition: isinstance(getattr(partition, name), tuple),  # also a list of one
    )
