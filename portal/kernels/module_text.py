"""What modulefiles look at while they are loaded, as their text shows it: so far a kept answer can be true again.

Modulefiles are programs, in Tcl or Lua. Which variables they ask for is read of them; one that runs or reads something
else, or asks for the time, gives an answer that is never kept. Checked with Environment Modules 5.2 and Lmod 8.6.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from portal.kernels.delta import Change, Environment

SIZE_MAX = 2**20
_OF_THE_JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "TMPDIR")
_OF_ALL_JOBS = {"/tmp", "/var/tmp", os.uname().nodename}  # noqa: S108  of a node that a cache knows
_READ = re.compile(r"(?<![A-Za-z0-9_])env\(([^)\n]*)\)|\bgetenv\b([^\n]{0,200})")
_NAME = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)\Z"  # $env(NAME)
    r"|\s*\(?\s*[\"'{]([A-Za-z_][A-Za-z0-9_]*)[\"'}]"  # os.getenv("NAME")
    r"|\s+([A-Za-z_][A-Za-z0-9_]*)(?=[\s\]])"  # [getenv NAME]
)
_ELSEWHERE = re.compile(
    # Tcl, where a command begins; then Lua
    r"(?:^|[\[{;])\s*(?:exec|source|source-sh|clock|pid|open|socket|system|upvar|array\s+\w+\s+(?:::)?env)\b"
    r"|\b(?:source_sh|loadfile|dofile|loadstring|require|inherit|execute|capture|subprocess|popen)\s*[({\"']"
    r"|\b(?:os\.(?!getenv\b|exit\b)|io\.)[a-z]+(?:\s*\(|\s+[\"'])",
    re.MULTILINE,
)


def asked_for(files: Iterable[str]) -> set[str] | None:
    """The names of the variables that these modulefiles ask for; ``None`` when more than that counts."""
    names: set[str] = set()
    for file in files:
        text = _text(file)
        if text is None or _ELSEWHERE.search(text):
            return None
        for found in _READ.finditer(text):
            name = _NAME.match(found[1] if found[1] is not None else found[2])
            if name is None:
                return None
            names.add(name[1] or name[2] or name[3])
    return names


def _text(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            text = opened.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    return text if len(text) <= SIZE_MAX else None


def names_the_job(changes: Iterable[Change], base: Environment, asked: set[str]) -> bool:
    """Whether a change holds a value of this job that no modulefile has asked for by name."""
    texts = [text for change in changes if change for text in ([change] if isinstance(change, str) else change)]
    values = {base[name] for name in _OF_THE_JOB if base.get(name) and name not in asked} - _OF_ALL_JOBS
    whole = [re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])") for value in values]
    return any(one.search(text) for one in whole for text in texts)
