"""``[quota]``: the site's own command that says how full somebody's folders are."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from portal.settings.values import Table

PERSON = "{user}"
FOLDER = "{folder}"
HOME = "home"  # what stands for {folder} when the home is meant
MOST_WORDS = 32


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words of one command: what is filled in is a whole word, so that nothing of a person's is part of another."""
    if not words:
        return words
    if not words[0].startswith("/"):
        raise ValueError("a command whose first word is an absolute path")
    if PERSON not in words[1:]:
        raise ValueError(f"a command with {PERSON} as one of its words")
    filled = [word for word in words if "{" in word or "}" in word]
    if set(filled) - {PERSON, FOLDER}:
        raise ValueError(f"a command in which {PERSON} and {FOLDER} are words of their own, and no other braces")
    return words


Word = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]


class QuotaTable(Table):
    """``[quota]``: a command of the site, run as the hub's account for one person at a time."""

    command: Annotated[tuple[Word, ...], Field(max_length=MOST_WORDS), AfterValidator(_command)] = ()

    def argv(self, person: str, folder: str) -> tuple[str, ...]:
        """The command for one person and one folder."""
        return tuple({PERSON: person, FOLDER: folder}.get(word, word) for word in self.command)

    @property
    def asks_for_each_folder(self) -> bool:
        """Whether the storage folders are asked about, too, and not the home alone."""
        return FOLDER in self.command
