"""What a session does where the home does not work: Jupyter's own files, and the person's, lie in the private folder.

Only where the site has set ``[session] private_folder``. A home that works is used as everywhere.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import replace
from pathlib import Path

from portal.homes.own_folder import is_own, make_own
from portal.homes.private_folder import VARIABLE, write_and_remove
from portal.session_settings import SessionSettings

FILES = "files"  # what the file browser shows then
FOLDERS = {  # each variable, and its folder in the private folder
    "JUPYTER_CONFIG_DIR": "jupyter/config",
    "JUPYTER_DATA_DIR": "jupyter/data",
    "IPYTHONDIR": "ipython",
    "XDG_CACHE_HOME": "cache",
    "MPLCONFIGDIR": "cache/matplotlib",
    "KERAS_HOME": "cache/keras",
}


def why_not(home: Path) -> str:
    """Why a home does not work here, in words; ``""`` where it can be written."""
    try:
        write_and_remove(home.resolve(strict=True))
    except OSError as error:
        return f"{home}: {error.strerror}"
    return ""


def take(settings: SessionSettings, environ: MutableMapping[str, str]) -> SessionSettings:
    """Put variables and settings right, where a home does not work and there is another place; says so in the log."""
    private = environ.get(VARIABLE, "")
    if not private or not (words := why_not(Path.home())):
        return settings
    files = settings.files or str(Path(private, FILES))
    for folder in (files, *(f"{private}/{name}" for name in FOLDERS.values())):
        make_own(Path(folder))
    environ.update({variable: f"{private}/{name}" for variable, name in FOLDERS.items()})
    print(f"[portal] Your home does not work here ({words}): your files are in {files}.", flush=True)
    return replace(settings, files=files)


def enter(folder: Path) -> None:
    """Work in the person's folder. Slurm starts a job whose home it cannot enter in /tmp, where others leave files.

    What Jupyter looks for where it works (nbconvert: templates, which are programs) is then the person's own.
    """
    if not is_own(Path.cwd()):
        os.chdir(folder)
