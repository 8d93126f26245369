"""The texts of the hub's pages, collected for their catalogues: ``python -m tests.texts`` brings these up to date.

A new language is a folder with an empty file: ``portal/language/fr/LC_MESSAGES/dsportal.po``.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from babel.messages import Catalog, extract, pofile

from portal.language import catalogue

ROOT = Path(__file__).parents[1]
KEYWORDS: dict[str, tuple[int, ...] | None] = {"_": None, "N_": None, "gettext": None, "ngettext": (1, 2)}
WIDTH = 120
HEADER = """\
# The texts of the hub's pages in {name}; `python -m tests.texts` brings it up to date.
msgid ""
msgstr ""
"Project-Id-Version: dsportal\\n"
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plurals}\\n"

"""
SOURCES = (
    ("portal", "**.py", "python"),
    ("spawners", "**.py", "python"),
    ("templates/hub", "**.html", "jinja2"),
    ("templates/hub/static/js", "**.js", "javascript"),
)
OPTIONS = {"trimmed": "true", "newstyle_gettext": "true", "silent": "false", "encoding": "utf-8"}


def collected() -> Catalog:
    """All texts that code, templates and scripts mark, each with the files it is in."""
    found = Catalog(fuzzy=False)
    for folder, pattern, method in SOURCES:
        rows = extract.extract_from_dir(
            ROOT / folder, [(pattern, method)], {pattern: OPTIONS}, KEYWORDS, comment_tags=()
        )
        for name, _, text, _, context in rows:
            found.add(text, locations=[(f"{folder}/{name}", 1)], context=context)
    return found


def read(language: str) -> Catalog:
    """The catalogue of a language as it lies there."""
    with catalogue.path_of(language).open("rb") as file:
        return pofile.read_po(file, locale=language, domain="dsportal")


def written(known: Catalog) -> bytes:
    """A catalogue as it lies in its file: the same bytes for the same texts."""
    for one in known:
        one.locations.sort()
    file = BytesIO()
    file.write(
        HEADER.format(name=known.locale.english_name, language=known.locale, plurals=known.plural_forms).encode()
    )
    pofile.write_po(
        file, known, width=WIDTH, omit_header=True, sort_by_file=True, ignore_obsolete=True, include_lineno=False
    )
    return file.getvalue()


def updated(language: str) -> bytes:
    """The catalogue of a language with all texts of now, and no others; what is new in it has no translation yet."""
    known = read(language)
    known.update(collected(), no_fuzzy_matching=True)
    return written(known)


def main() -> None:
    """Bring every catalogue up to date, and say what it lacks."""
    for language in catalogue.languages():
        catalogue.path_of(language).write_bytes(updated(language))
        missing = [one.id for one in read(language) if not one.string or not all(one.string)]
        print(f"{language}: {len(read(language))} texts, {len(missing)} without a translation")


if __name__ == "__main__":
    main()
