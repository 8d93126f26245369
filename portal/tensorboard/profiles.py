"""Whose profiles the page *Profile* shows: the person's own, below the board's folder, and nobody else's.

Its plug-in (xprof 2.24) takes a place from the address that a browser asks for, runs what the files there say as a part
of the page, and writes beside them, through links too. So a folder that somebody else can change is not for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from werkzeug.exceptions import Forbidden

from portal.homes.own_folder import is_own

WORDS = (
    "The page Profile shows profiles that you alone can change, below the folder of this TensorBoard. {place} {fault}. "
    "Copy the profile into a folder of your own (cp -rL), or keep others from writing there (chmod go-w)."
)


def fault(place: Path, folder: Path) -> str:
    """Why a profile is not shown; ``""`` for one's own.

    Arguments:
        place: the folder of the profile, as it was asked for.
        folder: the board's own, without links.
    """
    real = place.resolve()
    if not real.is_relative_to(folder):
        return "lies elsewhere"
    for part in [one for one in (real, *real.parents) if one.is_relative_to(folder)]:
        if not is_own(part):
            return "can be changed by others"
    with os.scandir(real) as entries:
        return "holds a link" if any(entry.is_symlink() for entry in entries) else ""


def show_own_alone(folder: str) -> None:
    """From now on xprof, where it is installed, looks at no other profile."""
    try:
        from xprof.profile_plugin import ProfilePlugin
    except ImportError:
        return
    find = ProfilePlugin._run_dir  # the one function by which each of its pages finds a profile
    real = Path(folder).resolve()

    def found(self: Any, run: str, request: Any = None) -> Any:
        place = find(self, run, request)
        try:
            said = fault(Path(place), real) if place else ""
        except OSError as error:
            said = f"cannot be read ({error.strerror})"
        if said:
            raise Forbidden(WORDS.format(place=place, fault=said))
        return place

    ProfilePlugin._run_dir = found
