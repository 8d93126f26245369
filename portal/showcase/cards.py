"""The notebook templates as the cards of a page, and what of them a person looks for. Reads files; no event loop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from portal.language.texts import _
from portal.notebooks.catalogue import templates
from portal.notebooks.style import LEVELS
from portal.notebooks.template import Template, mark_of, needs_of

TEMPLATES = "templates"  # where the catalogue is in a person's files


@dataclass(frozen=True)
class Card:
    """One template.

    Attributes:
        name: ``<framework>/<lesson>``.
        place: the notebook in the files of a session.
        gpus: how many it makes use of.
        minutes: what a run takes on two cores.
        level: where on the way it comes, a key of ``LEVELS``.
    """

    name: str
    place: str
    title: str
    summary: str
    framework: str
    dataset: str
    gpus: int
    minutes: int
    level: int = 2

    @property
    def mark(self) -> str:
        """Two letters that stand for the framework."""
        return mark_of(self.framework)

    @property
    def needs(self) -> str:
        """What it makes use of, and how long a run takes."""
        return needs_of(self.gpus, self.minutes)


def read(folders: Sequence[Path], kernels: Collection[str]) -> tuple[Card, ...]:
    """The templates of all folders whose kernel is offered; of two with one name the first folder's counts.

    Arguments:
        kernels: the names of the kernels that the site offers; empty: it is not known, and all are shown.

    Raises:
        OSError: a folder cannot be read.
    """
    offered = {kernel.lower() for kernel in kernels}
    found: dict[str, Template] = {}
    for folder in folders:
        for one in templates(folder, folders):
            found.setdefault(one.name, one)
    return tuple(_card(one) for one in found.values() if not offered or one.kernel.lower() in offered)


def _card(one: Template) -> Card:
    place = f"{TEMPLATES}/{one.name}.ipynb"
    return Card(
        one.name, place, one.title, one.summary, one.framework, one.dataset, one.gpus, one.minutes_cpu, one.level
    )


def levels(cards: Sequence[Card]) -> list[tuple[str, list[Card]]]:
    """The cards in the order in which one learns: each level that there is, with its title."""
    found = [(_(title), [card for card in cards if card.level == level]) for level, title in sorted(LEVELS.items())]
    return [(title, there) for title, there in found if there]


def frameworks(cards: Iterable[Card]) -> list[str]:
    """The frameworks that there are, in the order of the alphabet."""
    return sorted({card.framework for card in cards}, key=str.lower)


def matching(cards: Iterable[Card], words: str, framework: str = "") -> list[Card]:
    """The cards in which every word stands, wherever; of one framework where one is named."""
    wanted = words.lower().split()
    return [
        card
        for card in cards
        if (not framework or card.framework == framework) and all(word in _text(card) for word in wanted)
    ]


def _text(card: Card) -> str:
    return " ".join((card.name, card.title, card.summary, card.framework, card.dataset)).lower()
