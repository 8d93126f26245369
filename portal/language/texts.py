"""Texts for people: each is English in the code, and is shown in the language of the request. Pure.

``_`` and ``ngettext`` are called where a text is shown; ``N_`` marks one that stands in a table, for ``_`` to translate
later. What varies is filled in afterwards: ``_("{number} more").format(number=3)``. ``python -m tests.texts`` collects
them for the catalogues.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from portal.language import catalogue

ENGLISH = "en"
LONGEST_HEADER = 500  # characters of Accept-Language that are looked at
_WANTED = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]*)?\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?")
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def chosen(accepted: str) -> str:
    """The language to answer in.

    Arguments:
        accepted: the header ``Accept-Language`` (RFC 9110, 12.5.4), ``de-CH, en;q=0.8``; of equals the first counts.
    """
    found = [_WANTED.fullmatch(one) for one in accepted[:LONGEST_HEADER].split(",")]
    wanted = [(float(one[2] or 1), one[1].lower()) for one in found if one]
    offered = [(-weight, name) for weight, name in wanted if weight and name in (ENGLISH, *catalogue.languages())]
    return min(offered, key=lambda one: one[0])[1] if offered else ENGLISH


def speak(language: str) -> None:
    """Answer in a language from here on, in this request and in what it starts."""
    _language.set(language)


def language() -> str:
    """The language that is spoken now."""
    return _language.get()


def _(text: str) -> str:
    """A text in the language that is spoken now."""
    return catalogue.translations(language()).gettext(text) if text else ""


def ngettext(one: str, many: str, number: int) -> str:
    """The form of a text that goes with a number, in the language that is spoken now."""
    return catalogue.translations(language()).ngettext(one, many, number)


def N_(text: str) -> str:
    """The text itself, marked for the catalogue: ``_`` translates it where it is shown."""
    return text


def script_texts() -> dict[str, str]:
    """What the pages' scripts say, by the English text, in the language that is spoken now."""
    return catalogue.script_texts(language())
