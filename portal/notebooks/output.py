"""The notebook that a run reads, once, and the one that it writes: its place is held from the beginning to the end.

In a folder that others can change they can put a link, or another folder, in its way at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import printable
from portal.homes.held_files import own_known_file, put
from portal.homes.held_place import FilePlace, LinkOfOthers, held
from portal.notebooks.catalogue import NotebookFailed


@dataclass(frozen=True)
class GivenInput:
    """A notebook as papermill reads one (``papermill.iorw``): what was in it before, whatever has its path by now."""

    path: Path
    text: bytes

    def read(self, path: str) -> str:
        """The notebook; another one whose path begins as that of this one is read now."""
        return self.text.decode() if path == str(self.path) else Path(path).read_text(encoding="utf-8")

    def pretty_path(self, path: str) -> str:
        """A path for a log."""
        return printable(path)


class HeldOutput:
    """An output as papermill writes one (``papermill.iorw``): each state of it replaces the one before as a whole."""

    def __init__(self, path: Path, place: FilePlace, source: GivenInput) -> None:
        self._path = path
        self._source = source
        self._place = place
        self._before = own_known_file(place.folder, place.name)
        self._text = ""

    @classmethod
    @contextmanager
    def at(cls, path: Path, source: GivenInput) -> Iterator[HeldOutput]:
        """The output at ``path``, absolute; a link of the person's own is followed where nobody else can change it.

        Raises:
            NotebookFailed: its folder is not there, or somebody else's link is in the way.
        """
        with ExitStack() as stack:
            try:
                place = stack.enter_context(held(path.absolute()))
            except OSError as error:
                raise _failed(path, error) from error
            yield cls(path, place, source)

    def write(self, text: str, _path: str) -> None:
        """Keep the notebook as it is now."""
        try:
            self._before = put(self._place, text.encode(), self._before) or self._before
        except OSError as error:
            raise _failed(self._path, error) from error
        self._text = text

    def read(self, path: str) -> str:
        """A notebook whose path begins as that of the output."""
        return self._source.read(path)

    def pretty_path(self, path: str) -> str:
        """A path for a log."""
        return self._source.pretty_path(path)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells as they were written last."""
        return list(json.loads(self._text)["cells"])


def _failed(path: Path, error: OSError) -> NotebookFailed:
    if not path.parent.is_dir():
        return NotebookFailed(f"There is no folder {path.parent}: make it first, or name another place with --output.")
    why = f"{error.filename} {error.strerror}" if isinstance(error, LinkOfOthers) else error.strerror
    return NotebookFailed(f"{path} cannot be written: {why}. Name another place with --output.")
