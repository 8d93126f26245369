"""A person's own named choices: what may be a name, and the list that is kept of one person. Pure.

What is kept were the choices of a session when they were kept. The check behind every door looks at them anew when
they are used (:func:`portal.request.checked`).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from portal.errors import PortalError
from portal.language.texts import _

MOST = 20  # of one person
LONGEST = 60  # characters of a name
COMPOSED_OF = 4  # characters, at most, of one that is written with its marks apart (UAX 15)
Options = Mapping[str, object]


class NameRefused(PortalError):
    """A name that named choices cannot have, or that is not among the person's."""

    reason = "choices"


@dataclass(frozen=True)
class NamedChoices:
    """The choices of a session that a person keeps under a name."""

    name: str
    options: Options

    def as_json(self) -> dict[str, object]:
        """What the REST API says of them."""
        return asdict(self)


Kept = tuple[NamedChoices, ...]


def name_of(given: str) -> str:
    """A name as it is kept: without blanks around it, and composed (Unicode's NFC), so that what looks alike is alike.

    Raises:
        NameRefused: it is empty, too long, or holds what is no letter to see.
    """
    name = given.strip()
    if len(name) <= LONGEST * COMPOSED_OF:  # what has many marks takes the square of their number to compose
        name = unicodedata.normalize("NFC", name)
    if name.isprintable() and 0 < len(name) <= LONGEST:  # what UTF-8 cannot hold (a lone surrogate) is not printable
        return name
    shown = repr(given) if len(given) <= LONGEST else _("one of {number} characters").format(number=len(given))
    words = _(
        "{name} is not possible as a name of choices. Allowed: 1 to {most} characters that can be seen, in one line."
    )
    raise NameRefused(words.format(name=shown, most=LONGEST))


def find(kept: Kept, name: str) -> NamedChoices:
    """The choices of that name.

    Raises:
        NameRefused: there are none; the message lists those that there are.
    """
    found = next((one for one in kept if one.name == name), None)
    if found:
        return found
    listed = ", ".join(f"“{one.name}”" for one in kept)
    known = _("You have: {names}.").format(names=listed) if kept else _("You have none yet.")
    shown = name if name.isprintable() and len(name) <= LONGEST else ascii(name[:LONGEST])
    words = _("You have no choices named “{name}”.").format(name=shown)
    raise NameRefused(f"{words} {known}")


def with_choices(kept: Kept, given: str, options: Options) -> Kept:
    """The list with these choices; those of the same name are replaced, in their place.

    Raises:
        NameRefused: the name is not possible, or there are as many as there may be.
    """
    made = NamedChoices(name_of(given), options)
    if any(one.name == made.name for one in kept):
        return tuple(made if one.name == made.name else one for one in kept)
    if len(kept) >= MOST:
        words = _("You have {most} named choices, and may have no more. Remove one, or take its name.")
        raise NameRefused(words.format(most=MOST))
    return (*kept, made)


def renamed(kept: Kept, name: str, given: str) -> Kept:
    """The list with another name for one of them.

    Raises:
        NameRefused: there is none of the old name, or the new one is not possible, or another's.
    """
    old = find(kept, name)
    new = name_of(given)
    if new != name and any(one.name == new for one in kept):
        words = _("You have other choices named “{name}” already. Choose another name, or remove those first.")
        raise NameRefused(words.format(name=new))
    return tuple(replace(one, name=new) if one is old else one for one in kept)


def without(kept: Kept, name: str) -> Kept:
    """The list without one of them.

    Raises:
        NameRefused: there is none of that name.
    """
    gone = find(kept, name)
    return tuple(one for one in kept if one is not gone)


def to_text(kept: Kept) -> str:
    """The list as the database keeps it."""
    return json.dumps([one.as_json() for one in kept])


def from_text(text: str) -> Kept:
    """The list out of the database; ``""`` is nobody's yet."""
    return tuple(NamedChoices(one["name"], one["options"]) for one in json.loads(text or "[]"))
