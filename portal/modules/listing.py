"""Which modules there are: the arguments of the module command, and what its answers mean. Pure.

Environment Modules lists what its MODULEPATH has (``-t avail``) and what each is in a line (``whatis``); Lmod also what
is there after other modules only (``-t spider``). All of it is on standard error. Checked with 5.2.0 and 8.6.19.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

SHOWN_MOST = 200
WORDS_MOST = 10
_LINE = re.compile(r"(\S+?)(?:\s*[(<]([^)>]*)[)>])?\s*\Z")
_WHATIS = re.compile(r"\s*(\S+)\s*:\s(.*\S)\s*\Z")
_BEFORE = re.compile(r"^ {6}(\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ListedModule:
    """A module; ``summary`` is what it says of itself in a line, "" where that was not asked for."""

    name: str
    is_default: bool = False
    summary: str = ""


def is_lmod(command: str) -> bool:
    """Whether a module command is Lmod's."""
    return PurePath(command).name == "lmod"


def list_arguments(command: str) -> tuple[str, ...]:
    """The arguments that list all modules, a name on each line."""
    return ("-t", "spider") if is_lmod(command) else ("-t", "avail")


def parse_list(text: str) -> tuple[ListedModule, ...]:
    """The modules of such a list, each once, without folders and the names of trees."""
    found: dict[str, ListedModule] = {}
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match and not match[1].endswith((":", "/")) and not match[1].startswith("-"):
            is_default = "default" in (match[2] or "").split(":")
            found.setdefault(match[1], ListedModule(match[1], is_default))
    return tuple(found.values())


def parse_whatis(text: str) -> dict[str, str]:
    """What modules say of themselves, by name: the first line of each."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = None if line.startswith("-") else _WHATIS.match(line)
        if match:
            found.setdefault(match[1], match[2].removeprefix("Description: "))
    return found


def with_summaries(modules: Iterable[ListedModule], said: Mapping[str, str]) -> tuple[ListedModule, ...]:
    """The modules with what they say of themselves."""
    return tuple(replace(one, summary=said.get(one.name, "")) for one in modules)


def matching(modules: Iterable[ListedModule], words: str) -> list[ListedModule]:
    """The modules in whose name or line all of these words are, the ones with a word in the name first."""
    wanted = words.casefold().split()[:WORDS_MOST]
    found = [one for one in modules if all(word in f"{one.name} {one.summary}".casefold() for word in wanted)]
    return sorted(found, key=lambda one: not all(word in one.name.casefold() for word in wanted))


def parse_before(text: str) -> tuple[Sequence[str], ...]:
    """What has to be loaded before a module of a hierarchy, as Lmod's ``spider NAME`` says; of several ways each."""
    _, _, behind = text.partition("You will need to load all module(s)")
    return tuple(line.split() for line in _BEFORE.findall(behind.partition("\n    Help:")[0]))
