"""The lines of ``scontrol --oneliner show …``: one record each, ``Name=value`` with blanks between.

What people may write freely (``Reason=`` and the like) stands last on a line. It is cut off before the line is read,
so that it cannot speak for another field; a field that is there twice is not believed either.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from portal.errors import SlurmUnavailable
from portal.slurm.jobs import unreadable

log = logging.getLogger(__name__)

Value = TypeVar("Value")
_FREE_TEXT = re.compile(r" (?=(?:Reason|Comment|Extra)=)")
_FIELD = re.compile(r"(?:^| )([A-Za-z]\w*)=(\S*)")
_odd: set[str] = set()  # the names of what could not be read: each is said in the log once


@dataclass(frozen=True)
class Record:
    """One line: its ``name``, its fields (``None`` for one that is there twice), and the free text after them.

    Every reading method raises :class:`~portal.errors.SlurmUnavailable` for what is not as expected.
    """

    name: str
    fields: Mapping[str, str | None]
    free_text: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def read(self, key: str, reader: Callable[[str], Value]) -> Value:
        """The field's value as ``reader`` understands it; a ``ValueError`` of the reader is a refusal."""
        value = self.fields.get(key)
        if value is None:
            raise self.unreadable(f"{key} is {'there twice' if key in self else 'missing'}")
        try:
            return reader(value)
        except ValueError as error:
            raise self.unreadable(f"{key}={value[:100]}") from error

    def text(self, key: str) -> str:
        """A field's value as it stands."""
        return self.read(key, str)

    def matching(self, key: str, pattern: str) -> str:
        """A field's value, all of which matches ``pattern``."""
        value = self.text(key)
        if not re.fullmatch(pattern, value):
            raise self.unreadable(f"{key}={value[:100]}")
        return value

    def number(self, key: str) -> int:
        """A field's value as a number."""
        return int(self.matching(key, r"\d+"))

    def reason(self) -> str:
        """The free text of ``Reason=`` without Slurm's ``[who@when]``."""
        found = re.match(r"Reason=(.*?)(?: \[\S+@\S+\]| (?:Comment|Extra)=|\Z)", self.free_text, re.DOTALL)
        return found[1] if found else ""

    def unreadable(self, why: str) -> SlurmUnavailable:
        """The error for a line that is not as expected."""
        return unreadable(f"scontrol printed for {self.name!r}: {why}")


def records(stdout: str, first: str) -> Iterator[Record]:
    """The records of a listing whose lines begin with the field ``first``. There is always one.

    Raises:
        SlurmUnavailable: a line that is none, a name that is there twice, or no line at all.
    """
    names: set[str] = set()
    for line in _lines(stdout, f"{first}="):
        record = _record(line)
        if record.name in names:
            raise record.unreadable("it is there twice")
        names.add(record.name)
        yield record
    if not names:
        raise unreadable(f"scontrol printed {stdout[:200]!r}")


def readable(
    found: Iterable[Record], reader: Callable[[Record], Value], unknown: Callable[[Record], Value] | None = None
) -> list[Value]:
    """The things of a listing: one that is odd does not hide the others, and is said in the log once.

    Arguments:
        unknown: what stands for a thing that cannot be read; without it such a thing is left out.

    Raises:
        SlurmUnavailable: nothing of it can be read.
    """
    values: list[Value] = []
    faults: dict[str, SlurmUnavailable] = {}
    for record in found:
        try:
            values.append(reader(record))
        except SlurmUnavailable as error:
            faults[record.name] = error
            if unknown:
                values.append(unknown(record))
    if faults and len(values) <= (len(faults) if unknown else 0):
        raise next(iter(faults.values()))
    for name in faults.keys() - _odd:
        log.warning("Slurm shows something that the portal cannot read, and passes over: %s", faults[name].detail)
        _odd.add(name)
    return values


def _lines(stdout: str, start: str) -> Iterator[str]:
    """Whole lines: a free text may hold newlines, and then lasts until the next record."""
    whole = ""
    for line in stdout.split("\n"):
        if line.startswith(start):
            if whole:
                yield whole
            whole = line
        elif _FREE_TEXT.search(whole):
            whole += f"\n{line}"
        elif line.strip():
            raise unreadable(f"scontrol printed {line[:200]!r}")
    if whole:
        yield whole


def _record(line: str) -> Record:
    head, *rest = _FREE_TEXT.split(line, maxsplit=1)
    found = _FIELD.findall(head)
    fields: dict[str, str | None] = {}
    for key, value in found:
        fields[key] = None if key in fields else value
    return Record(found[0][1], fields, rest[0].rstrip() if rest else "")
