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
SAVED = "saved"  # the type of what was not read since then

Types = frozenset[str]
SAVED = "saved"  # and not read before


class ShownFiles:
    """What each page of JupyterLab has read or saved last, by the number that the page has given itself.

    So it is what that page shows, whatever another window or a conversion has read since. "" is who says no number.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, Path], dict[str, KnownFile | None]] = {}  # by type; None = somebody else's

    def note(self, path: Path, type: str, file: KnownFile | None) -> None:
        """Remember a file that was read for the page that asks.

        Arguments:
            type: Jupyter's, as which it was read: a page has a document of each, and so may have two of one file.
        """
        before = self._files.pop((page(), path), {})
        before.pop(type, None)
        self._put(path, {**before, type: file})

    def saved(self, path: Path, file: KnownFile | None) -> None:
        """Remember what the page has saved: where that is the person's own, none of its documents has another one."""
        before = self._files.pop((page(), path), {})
        self._put(path, {SAVED: file} if file or not before else before)

    def _put(self, path: Path, files: dict[str, KnownFile | None]) -> None:
        self._files[page(), path] = files
        while len(self._files) > SHOWN_MAX:  # who has so many loads a page again
            del self._files[next(iter(self._files))]

    def has(self, path: Path, types: Types) -> bool:
        """Whether the page that asks has read as each of some types, or saved, what is there, in this session."""
        known = self._files.get((page(), path), {})
        return SAVED in known or known.keys() >= types

    def own(self, path: Path, types: Types) -> list[KnownFile]:
        """What its documents of these types have, or what it has read last without any: where it was one's own."""
        known = self._files.get((page(), path), {})
        shown = [known.get(one, known.get(SAVED)) for one in types] or list(known.values())[-1:]
        return [file for file in shown if file]

    def renamed(self, old: Path, new: Path) -> None:
        """Have what lies below a path go with it."""
        for number, path in [one for one in self._files if one[1].is_relative_to(old)]:
            self._files[number, new / path.relative_to(old)] = self._files.pop((number, path))

    def deleted(self, path: Path) -> None:
        """Forget what lies below a path."""
        self._files = {one: files for one, files in self._files.items() if not one[1].is_relative_to(path)}


def page() -> str:
    """The number of the page that asks for what is done now (templates/lab/src/whole.ts); "" where none says one."""
    return _said(NUMBER)[:NUMBER_MAX]


def open_as() -> Types:
    """As which types the page that saves a file has it open, by its own word; none where it does not show it."""
    return frozenset(_said(OPEN).split(",")) - {""}


def _said(name: str) -> str:
    handler = CallContext.get(CallContext.JUPYTER_HANDLER)
    return "" if handler is None else handler.request.headers.get(name, "")
