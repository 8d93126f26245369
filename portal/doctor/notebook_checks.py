"""Checks of the site's own templates: what lies there, people run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from portal import data
from portal.doctor.check import Check
from portal.notebooks.files import is_below, real_roots
from portal.site import Site

PLACES_MAX = 20_000  # files and folders; a file server takes some seconds for them
PUT_THERE = "Put what it leads to into the folder itself, or name its folder in notebooks.folders as well."


def folders(site: Site) -> list[Check]:
    """Each of ``notebooks.folders``: there, for everybody to read, for nobody else to write, with no link out of it."""
    named = [Path(folder) for folder in site.notebooks.folders]
    roots = real_roots([data.folder("notebooks"), *named])
    return [_folder(folder, roots) for folder in named]


def _folder(folder: Path, roots: Sequence[Path]) -> Check:
    what = f"templates {folder.name}"
    if not folder.is_dir():
        repair = "Make it, mount it, or take it out of notebooks.folders: sessions show what is there."
        return Check(what, "failed", f"there is no folder {folder} on this host", repair)
    mode = folder.stat().st_mode
    places = [folder.resolve(), *islice(_places(folder), PLACES_MAX + 1)]
    if open_one := next((place for place in places if _all_write(place)), None):
        found = f"everybody can write into {open_one}, and so decide what others run"
        return Check(what, "failed", found, f"portal chmod o-w {folder.resolve()}")
    if not mode & stat.S_IROTH or not mode & stat.S_IXOTH:
        found = f"not everybody can read {folder} (mode {stat.S_IMODE(mode):04o}): those sessions do not show it"
        return Check(
            what,
            "warning",
            found,
            f"As its owner: portal chmod o+rX {folder.resolve()}, unless it is meant for its group alone",
        )
    if link := next((place for place in places if place.is_symlink() and not is_below(place, roots)), None):
        return Check(what, "warning", f"{link} leads out of the folders of templates: nobody gets it", PUT_THERE)
    if len(places) > PLACES_MAX + 1:
        found = f"{folder} has more than {PLACES_MAX} files and folders: the others were not looked at"
        return Check(what, "warning", found, "Keep data elsewhere: a template is a notebook and some small files.")
    return Check(what, "ok", f"{folder} ({len(list(folder.glob('*/*.ipynb')))} notebooks)")


def _places(folder: Path) -> Iterator[Path]:
    """What lies in a folder, at all levels; links to folders are not followed."""
    for here, inner, files in os.walk(folder):
        yield from (Path(here, name) for name in (*inner, *files))


def _all_write(place: Path) -> bool:
    try:
        mode = place.lstat().st_mode
    except OSError:  # it is gone by now
        return False
    return not stat.S_ISLNK(mode) and bool(mode & stat.S_IWOTH)
