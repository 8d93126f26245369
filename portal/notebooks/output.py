"""The notebook that a run reads, once, and the one that it writes: its place is held from the beginning to the end.

In a folder that others can change they can put a link, or another folder, in its way at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from portal.errors import printable
from portal.homes.held_files import own_known_file, put
from portal.homes.held_place import FilePlace, LinkOfOthers, held
from portal.homes.readers import READ, WRITE, Readers, rights_of
from portal.notebooks.catalogue import NotebookFailed


@dataclass(frozen=True)
class GivenInput:
    """A notebook as papermill reads one (``papermill.iorw``): what was in it before, whatever has its path by now."""

    path: Path
    text: bytes
    rights: Mapping[int, Readers]

    @classmethod
    def of(cls, path: Path, opened: IO[bytes] | None = None) -> GivenInput:
        """What a path holds now, or the file that was opened there, with who may read and write it.

        Raises:
            NotebookFailed: there is none, or it cannot be read.
        """
        if not opened and not path.is_file():
            raise NotebookFailed(f"There is no notebook {path}.")
        try:
            with nullcontext(opened) if opened else path.open("rb") as file:
                return cls(path, file.read(), rights_of(file.fileno(), READ, WRITE))
        except OSError as error:
            raise NotebookFailed(f"{path.name} cannot be read as a notebook: {error}") from error

    def read(self, path: str) -> str:
        """The notebook; another one whose path begins as that of this one is read now."""
        return self.text.decode() if path == str(self.path) else Path(path).read_text(encoding="utf-8")

    def pretty_path(self, path: str) -> str:
        """A path for a log."""
        return printable(path)


class HeldOutput:
    """An output as papermill writes one (``papermill.iorw``): each state of it replaces the one before as a whole.

    It has the source of what is run in it: a new one is shown to nobody who could not read that.
    """

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
            self._before = put(self._place, text.encode(), self._before, self._source.rights) or self._before
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
