"""Where the portal's own files are: installed under ``share/dsportal``, or in a checkout beside the package."""

from __future__ import annotations

import functools
import sys
from pathlib import Path


@functools.cache  # it does not move while a process lives, and the hub asks in its event loop
def folder(name: str) -> Path:
    """The folder of shared files called ``name`` ("templates", "notebooks", "deploy").

    Raises:
        FileNotFoundError: neither an installation nor a checkout holds it.
    """
    checkout = {"deploy": "deploy/site"}.get(name, name)
    candidates = (
        Path(sys.prefix) / "share" / "dsportal" / name,
        Path(__file__).resolve().parent.parent / checkout,
    )
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the portal's {name} are in none of {', '.join(map(str, candidates))}; reinstall it")
