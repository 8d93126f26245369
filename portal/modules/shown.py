"""What a module does, as ``module show`` prints it: Tcl's words of Environment Modules, Lua's of Lmod. Pure.

Checked with Environment Modules 5.2.0 and Lmod 8.6.19.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

HELP_MOST = 4000
_LUA = re.compile(r"([a-z_]+)([({])(.*)[)}]\s*\Z", re.DOTALL)
_LUA_HELP = re.compile(r"^help\(\[=*\[(.*?)\]=*\]\)", re.MULTILINE | re.DOTALL)
_LUA_NAMED = re.compile(r',\s*[A-Za-z]+\s*=\s*(?:"[^"]*"|[^",]*)')  # as in {"PATH","/opt",delim=":"}
_TCL_WORD = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}|\"((?:[^\"\\]|\\.)*)\"|((?:\\.|\S)+)")
_PATHS = {"prepend-path": "begins with", "append-path": "ends with", "remove-path": "loses"}
_LOADS = ("load", "load_any", "try_load", "always_load", "add", "try-load", "try-add", "load-any")
_NEEDS = ("prereq", "prereq_any", "prereq-any", "prereq-all", "depends_on", "depends-on", "depends_on_any")


@dataclass(frozen=True)
class ShownModule:
    """A module.

    Attributes:
        file: its modulefile.
        summary: what it says of itself, line by line.
        sets: what it does to the environment, each as a sentence.
        conflicts: the modules that may not be loaded beside it.
        needs: the modules that have to be loaded before, or that it loads itself.
        before: of a hierarchy, what has to be loaded so that it is there.
    """

    name: str
    file: str = ""
    summary: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    help: str = ""
    before: tuple[str, ...] = ()


def parse_show(name: str, text: str) -> ShownModule:
    """Read what ``module show NAME`` prints on standard error."""
    said = _LUA_HELP.search(text)
    lines = _LUA_HELP.sub("", text).splitlines()
    file = next(
        (line.strip()[:-1] for line in lines if line.strip().startswith("/") and line.strip().endswith(":")), ""
    )
    acts = [act for line in lines if (act := _act(line.strip()))]
    return ShownModule(
        name=name,
        file=file,
        summary=tuple(words[0] for word, words in acts if word in ("whatis", "module-whatis") and words),
        sets=tuple(sentence for act in acts if (sentence := _sentence(*act))),
        conflicts=(*dict.fromkeys(_conflicts(name, file, acts)), *_families(acts)),
        needs=tuple(dict.fromkeys(_of(acts, lambda word: word in _NEEDS or word in _LOADS))),
        help=said[1].strip()[:HELP_MOST] if said else "",
    )


Act = tuple[str, Sequence[str]]


def _act(line: str) -> Act | None:
    """A line of either language: its word, with Tcl's hyphens, and what stands behind it."""
    if not line or line.startswith(("-", "/")):
        return None
    if lua := _LUA.match(line):
        texts = _LUA_NAMED.sub("", lua[3]) if lua[2] == "{" else lua[3]
        return _tcl(lua[1]), texts.removeprefix('"').removesuffix('"').split('","')
    words = [_text(found) for found in _TCL_WORD.finditer(line)]
    if words[0] == "module" and len(words) > 1:  # module load NAME
        return words[1], words[2:]
    return words[0], list(_without_options(words[1:]))


def _text(found: re.Match[str]) -> str:
    """A word of a Tcl list, without what keeps it together."""
    if found[1] is not None:
        return found[1]
    return re.sub(r"\\(.)", r"\1", found[2] if found[2] is not None else found[3])


def _without_options(words: Sequence[str]) -> Iterator[str]:
    """The words behind options, ``-d :`` or ``--delim=:``."""
    is_value = False
    for number, word in enumerate(words):
        if is_value:
            is_value = False
        elif word in ("-d", "--delim"):
            is_value = True
        elif not word.startswith("-"):
            yield from words[number:]
            return


def _tcl(word: str) -> str:
    return word.replace("_", "-") if word in ("prepend_path", "append_path", "remove_path", "set_alias") else word


def _sentence(word: str, words: Sequence[str]) -> str:
    """What one of its acts does to the environment; "" for one that does nothing to it."""
    name = words[0] if words else ""
    value = " ".join(words[1:])
    if word in ("setenv", "pushenv"):
        return f"{name}={value}"
    if word in _PATHS:
        return f"{name} {_PATHS[word]} {words[1] if len(words) > 1 else ''}"
    if word == "use":
        return f"MODULEPATH begins with {name}"
    if word == "unsetenv":
        return f"{name} is taken away"
    return f"{name} is short for {value}" if word == "set-alias" else ""


def _of(acts: Sequence[Act], is_wanted: Callable[[str], bool]) -> Iterator[str]:
    for word, words in acts:
        if is_wanted(word):
            yield from (one for one in words if one and not one.startswith("-"))


def _conflicts(name: str, file: str, acts: Sequence[Act]) -> Iterator[str]:
    """What may not be loaded beside it; most modules exclude their own other versions."""
    for other in _of(acts, lambda word: word == "conflict"):
        is_own = f"{name}/".startswith(f"{other}/") or f"/{other}/" in file
        yield f"other versions of {other}" if is_own else other


def _families(acts: Sequence[Act]) -> Iterator[str]:
    """Modules of one family exclude each other (Lmod)."""
    yield from (f"others of the family {words[0]}" for word, words in acts if word == "family" and words)
