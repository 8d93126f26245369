"""Where JupyterLab keeps the checkpoint of a file that is opened or saved.

Jupyter's place is beside the file, or below /tmp, and it writes through links: in a folder that others can change they
would choose which of the person's files is overwritten. There the checkpoints are in the person's home.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints

from portal.homes.own_folder import is_own

FOLDER = ".local/share/dsportal/checkpoints"


class OwnCheckpoints(AsyncFileCheckpoints):
    """Jupyter's checkpoints, through no link and in no place that others can change."""

    def checkpoint_path(self, checkpoint_id: str, path: str) -> str:
        """The file of a checkpoint."""
        os_path: Callable[..., str] = self._get_os_path
        usual: Callable[..., str] = super().checkpoint_path
        file = Path(os_path(path=path.strip("/")))
        beside = file.parent / self.checkpoint_dir
        name = f"{file.stem}-{checkpoint_id}{file.suffix}"
        is_link = beside.is_symlink() or (beside / name).is_symlink()
        if is_own(file.parent) and os.access(file.parent, os.W_OK) and not is_link:
            return usual(checkpoint_id, path)
        folder = Path.home() / FOLDER / hashlib.sha256(os.fsencode(file.parent)).hexdigest()[:32]
        with self.perm_to_403():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder / name)
