"""The translations that lie beside this module: one gettext catalogue for each language but English. Pure."""

from __future__ import annotations

import gettext
from functools import cache
from io import BytesIO
from pathlib import Path

PLACE = Path(__file__).parent
SCRIPTS = ".js"


@cache
def languages() -> tuple[str, ...]:
    """The languages that there is a catalogue for, ``("de",)``: the texts themselves are English."""
    return tuple(sorted(path.parents[1].name for path in PLACE.glob("*/LC_MESSAGES/dsportal.po")))


def path_of(language: str) -> Path:
    """Where the catalogue of a language is."""
    return PLACE / language / "LC_MESSAGES" / "dsportal.po"


@cache
def translations(language: str) -> gettext.NullTranslations:
    """What answers ``gettext`` and ``ngettext`` in a language; English has its texts as they are."""
    return _loaded(language)[0] if language in languages() else gettext.NullTranslations()


@cache
def script_texts(language: str) -> dict[str, str]:
    """The texts of the pages' scripts in a language, by the English ones; none in English."""
    return _loaded(language)[1] if language in languages() else {}


@cache
def _loaded(language: str) -> tuple[gettext.NullTranslations, dict[str, str]]:
    from babel.messages import mofile, pofile  # a session's server and a kernel's start have no catalogue

    with path_of(language).open("rb") as file:
        catalogue = pofile.read_po(file, locale=language)
    compiled = BytesIO()
    mofile.write_mo(compiled, catalogue)
    compiled.seek(0)
    of_scripts = [one for one in catalogue if any(name.endswith(SCRIPTS) for name, _ in one.locations)]
    return gettext.GNUTranslations(compiled), {str(one.id): str(one.string) for one in of_scripts}
