"""The commands of docs/howto/install.md as they stand there: what the tests type is what a reader copies."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "install.md"


def section(heading: str) -> str:
    """The text below a heading, to the next heading of the second level.

    Raises:
        AssertionError: the page has no such heading.
    """
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"install.md has no heading {heading!r}"
    return found[1]


def blocks(heading: str, language: str = "console") -> list[str]:
    """The code blocks of a section; a console's are commands, without the prompt."""
    found = re.findall(rf"^```{language}\n(.*?)^```", section(heading), re.MULTILINE | re.DOTALL)
    return [re.sub(r"^# ", "", text, flags=re.MULTILINE) for text in found] if language == "console" else found


def commands(heading: str, number: int) -> str:
    """One block of commands, the first is number 0."""
    return blocks(heading)[number]
