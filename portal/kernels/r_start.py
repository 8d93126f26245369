"""How R starts for a kernel in a folder that others can change: nothing of what lies there is run or read.

R reads ``.Rprofile``, ``.Renviron`` and ``.RData`` of the folder that it is started in. In a folder of one's own that
is as everywhere; elsewhere the files of the person's home take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from portal.homes.own_folder import is_own
from portal.kernels.delta import Environment

PROGRAM = "R"


def prepared(command: Sequence[str], env: Environment, folder: str) -> tuple[list[str], Environment]:
    """The command and environment of an R kernel that is started in ``folder``."""
    if is_own(folder):
        return list(command), env
    home = env.get("HOME", "")
    files = {"R_PROFILE_USER": f"{home}/.Rprofile", "R_ENVIRON_USER": f"{home}/.Renviron"}
    is_plain = bool(command) and Path(command[0]).name == PROGRAM
    return [*command[:1], *(["--no-restore-data"] if is_plain else []), *command[1:]], files | env
