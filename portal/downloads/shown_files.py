"""What each page of JupyterLab shows: what it has read or saved last, in this session.

A page may be older than the session; and a link of somebody's opens another window, or has a notebook converted.
"""

from __future__ import annotations

from pathlib import Path

from jupyter_server.base.call_context import CallContext

from portal.homes.readers import KnownFile

NUMBER = "X-Portal-Number"
OPEN = "X-Portal-Open"
NUMBER_MAX = 64
SHOWN_MAX = 10_000


class ShownFiles:
    """What each page of JupyterLab has read or saved last, by the number that the page has given itself.

    So it is what that page shows, whatever another window or a conversion has read since. "" is who says no number.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, Path], KnownFile | None] = {}  # None = somebody else's

    def note(self, path: Path, file: KnownFile | None) -> None:
        """Remember a file for the page that asks."""
        self._files.pop((page(), path), None)
        self._files[page(), path] = file
        while len(self._files) > SHOWN_MAX:  # who has so many loads a page again
            del self._files[next(iter(self._files))]

    def has(self, path: Path) -> bool:
        """Whether the page that asks has read or saved what is there, in this session."""
        return (page(), path) in self._files

    def get(self, path: Path) -> KnownFile | None:
        """What that was, where it was the person's own."""
        return self._files.get((page(), path))

    def renamed(self, old: Path, new: Path) -> None:
        """Have what lies below a path go with it."""
        for number, path in [one for one in self._files if one[1].is_relative_to(old)]:
            self._files[number, new / path.relative_to(old)] = self._files.pop((number, path))

    def deleted(self, path: Path) -> None:
        """Forget what lies below a path."""
        self._files = {one: file for one, file in self._files.items() if not one[1].is_relative_to(path)}


def page() -> str:
    """The number of the page that asks for what is done now (templates/lab/src/whole.ts); "" where none says one."""
    return _said(NUMBER)[:NUMBER_MAX]


def is_open() -> bool:
    """Whether the page that saves a file shows it, by its own word."""
    return _said(OPEN) == "yes"


def _said(name: str) -> str:
    handler = CallContext.get(CallContext.JUPYTER_HANDLER)
    return "" if handler is None else handler.request.headers.get(name, "")
