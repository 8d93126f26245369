"""Whose profiles the page *Profile* shows: the person's own, below the board's folder, and nobody else's.

Its plug-in (xprof 2.24) takes a place from the address that a browser asks for, runs what the files there say as a part
of the page, and writes beside them, through links too. So a folder that somebody else can change is not for it. It does
not fetch profiles from programs at ports of a node: they may be anybody's, and whose files those are is not seen later.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from werkzeug.exceptions import Forbidden

from portal.homes.held_place import is_own_all_the_way

WORDS = (
    "The page Profile shows profiles that you alone can change, below the folder of this TensorBoard. {place} {fault}. "
    "Copy the profile into a folder of your own (cp -rL), or keep others from writing there (chmod go-w)."
)
LED = (
    "The page Profile shows nothing here: a link of others, or one that others may have put there, led to this folder. "
    "Open TensorBoard for {folder} itself, if its profiles are yours."
)
CAPTURE = (
    "Profiles are not captured from here: at a port of a node anybody may listen. Write them where the training runs, "
    "as the template tensorflow/tensorboard does (the callback's profile_batch), with jax.profiler or torch.profiler."
)


def fault(real: Path, folder: Path) -> str:
    """Why a profile is not shown; ``""`` for one's own.

    Arguments:
        real: the folder of the profile, without links.
        folder: the board's own, without links.
    """
    if not real.is_relative_to(folder):
        return "lies elsewhere"
    if not is_own_all_the_way(real):
        return "can be changed by others"
    with os.scandir(real) as entries:
        faults = (_fault_of(entry) for entry in entries)
        return next(filter(None, faults), "")


def _fault_of(entry: os.DirEntry[str]) -> str:
    """Why a file of a profile is not the person's own."""
    found = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return "holds a link"
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"holds {entry.name!r}, which can be changed by others"
    is_known = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return "" if is_known else f"holds {entry.name!r}, which is no file"


def show_own_alone(folder: str, *, is_chosen: bool = True) -> None:
    """From now on xprof, where it is installed, looks at no other profile, and captures none.

    Arguments:
        folder: the board's own, without links when it was opened.
        is_chosen: whether the person alone has chosen it; else none is looked at.
    """
    try:
        from xprof.profile_plugin import ProfilePlugin
    except ImportError:
        return
    find = ProfilePlugin._run_dir  # the one function by which each of its pages finds a profile
    real = Path(folder).resolve()
    is_there = is_chosen and str(real) == folder  # else others have put a link in its place since it was opened

    def found(self: Any, run: str, request: Any = None) -> Any:
        place = find(self, run, request)
        if not place:
            return place
        if not is_there:
            raise Forbidden(LED.format(folder=real))
        found_at = Path(place).resolve()  # once: a link on the way may say something else by the next time
        try:
            said = fault(found_at, real)
        except OSError as error:
            said = f"cannot be read ({error.strerror})"
        if said:
            raise Forbidden(WORDS.format(place=place, fault=said))
        return str(found_at)

    ProfilePlugin._run_dir = found
    ProfilePlugin.capture_route = _refused
    ProfilePlugin.capture_route_impl = _refused


def _refused(_: Any, environ: Any, start_response: Any) -> Iterable[bytes]:
    """Answers a request to capture a profile, as WSGI has it (PEP 3333)."""
    return Forbidden(CAPTURE)(environ, start_response)
