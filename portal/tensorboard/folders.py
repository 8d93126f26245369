"""Which folders TensorBoard may show: those under the person's home and under the site's storage folders."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from portal.errors import PortalError
from portal.homes.held_place import held


class FolderRefused(PortalError):
    """TensorBoard cannot show a folder; ``status`` is the HTTP status of the page that says so."""

    reason = "tensorboard_folder"

    def __init__(self, status: int, fault: str, advice: str) -> None:
        super().__init__(f"{fault} {advice}")
        self.status = status
        self.fault = fault
        self.advice = advice


@dataclass(frozen=True)
class Folders:
    """The places below which TensorBoard may show folders."""

    home: Path
    storage: tuple[Path, ...] = ()

    def resolve(self, path: str) -> Path:
        """The real folder that ``path`` names, relative to the home or absolute.

        Raises:
            FolderRefused: it lies elsewhere, is missing, is no folder, or cannot be read.
        """
        shown = f"“{path or 'your home folder'}”"
        real = self._real(path, shown)
        roots = [root.resolve() for root in (self.home, *self.storage)]
        if not any(real.is_relative_to(root) for root in roots):
            fault = f"TensorBoard does not show {shown}: it is not one of your folders."
            raise FolderRefused(403, fault, self._allowed())
        if real in roots:
            raise FolderRefused(
                400,
                f"TensorBoard would read all of {shown}, every few seconds.",
                "Choose the folder that your training writes its summaries to, for example “logs”.",
            )
        _check_readable(real, shown)
        return real

    def is_chosen(self, path: str, real: Path) -> bool:
        """Whether the person alone has chosen the folder that ``path`` leads to: no link of others does.

        Nor one of the person's own that they may have put where it is.
        """
        try:
            with held(self.home.absolute() / path / "file", moved=False) as place:
                return os.path.samestat(os.fstat(place.folder), real.stat())
        except (OSError, ValueError):
            return False

    def _real(self, path: str, shown: str) -> Path:
        try:
            real = (self.home / path).resolve()
            _refuse_circle(real)
        except (OSError, RuntimeError, ValueError) as error:  # too long, a link to itself, a null byte
            fault = f"There is no folder {shown}: no path can look like that."
            raise FolderRefused(400, fault, self._allowed()) from error
        return real

    def _allowed(self) -> str:
        places = ["your home folder", *map(str, self.storage)]
        return f"Allowed: folders under {' and '.join(places)}."


def _refuse_circle(real: Path) -> None:
    """Raise for a link to itself: since Python 3.13 ``resolve`` leaves it as it is."""
    try:
        real.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise


def _check_readable(real: Path, shown: str) -> None:
    try:
        is_folder = real.stat() and real.is_dir()
    except PermissionError:
        is_folder = True
    except OSError as error:
        advice = "A training makes it when it writes its first summaries. Then open TensorBoard again."
        raise FolderRefused(404, f"There is no folder {shown}.", advice) from error
    if not is_folder:
        raise FolderRefused(400, f"{shown} is a file.", "TensorBoard shows folders: choose the one it lies in.")
    if not os.access(real, os.R_OK | os.X_OK):
        raise FolderRefused(403, f"You may not read the folder {shown}.", "Its owner can let you.")
