"""Checks of the site's own templates: what lies there, people run."""

from __future__ import annotations

import stat
from pathlib import Path

from portal.doctor.check import Check
from portal.site import Site


def folders(site: Site) -> list[Check]:
    """Each of ``notebooks.folders``: there, for everybody to read, and for nobody else to write."""
    return [_folder(Path(folder)) for folder in site.notebooks.folders]


def _folder(folder: Path) -> Check:
    what = f"templates {folder.name}"
    if not folder.is_dir():
        repair = "Make it, mount it, or take it out of notebooks.folders: sessions show what is there."
        return Check(what, "failed", f"there is no folder {folder} on this host", repair)
    mode = folder.stat().st_mode
    places = (folder, *folder.glob("*"), *folder.glob("*/*"))
    if open_one := next((place for place in places if not place.is_symlink() and _all_write(place)), None):
        found = f"everybody can write into {open_one}, and so decide what others run"
        return Check(what, "failed", found, f"chmod -R o-w {folder}")
    if not mode & stat.S_IROTH or not mode & stat.S_IXOTH:
        found = f"not everybody can read {folder} (mode {stat.S_IMODE(mode):04o}): those sessions do not show it"
        return Check(what, "warning", found, f"chmod -R o+rX {folder}, unless it is meant for its group alone")
    return Check(what, "ok", f"{folder} ({len(list(folder.glob('*/*.ipynb')))} notebooks)")


def _all_write(place: Path) -> bool:
    return bool(place.stat().st_mode & stat.S_IWOTH)
