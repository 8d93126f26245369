"""Groups as a settings file names them: by their name, or by their whole DN. Pure.

JupyterHub keeps the groups of a person as short texts. So a DN of the settings counts there by its :func:`label`;
whether somebody is in the group with that DN is decided where the directory is asked (:mod:`portal.directory.groups`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

LONGEST = 1024  # characters of a group's name or DN
_LONGEST_LABEL = 255  # JupyterHub's column for a group's name, which PostgreSQL enforces
_DN = re.compile(r"[A-Za-z][A-Za-z0-9.-]*\s*=[^,]*(?:\\,[^,]*)*,\s*[A-Za-z][A-Za-z0-9.-]*\s*=.*", re.DOTALL)


def is_dn(group: str) -> bool:
    """Whether a group is given by its DN: at least two parts such as ``cn=users,dc=example``."""
    return bool(_DN.fullmatch(group))


def label(group: str) -> str:
    """The text that stands for a group of the settings among a person's groups."""
    if len(group) <= _LONGEST_LABEL:
        return group
    return f"{group[:190]}… {hashlib.sha256(group.encode()).hexdigest()[:16]}"


def labels(groups: Collection[str]) -> frozenset[str]:
    """The :func:`label` of each."""
    return frozenset(map(label, groups))
