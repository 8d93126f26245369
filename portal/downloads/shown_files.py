"""What each page of JupyterLab shows: what it has read or saved, in this session.

A page may be older than the session; and a link of somebody's opens another window, or has a notebook converted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from jupyter_server.base.call_context import CallContext

from portal.homes.readers import KnownFile

NUMBER = "X-Portal-Number"
OPEN = "X-Portal-Open"
NUMBER_MAX = 64
SHOWN_MAX = 10_000


@dataclass(frozen=True)
class Shown:
    """What the documents may show that a page has of one file.

    One that is read anew may show what it has shown before: of what it cannot show it keeps that.

    Attributes:
        last: what was read or saved last; None = somebody else's.
        own: which of all that were the person's own.
        is_known: nothing of it is of an earlier session.
        is_new: it was made, and no page has opened it yet.
        is_gone: the name was taken away since then; a page may show it still.
    """

    last: KnownFile | None
    own: tuple[KnownFile, ...] = ()
    is_known: bool = True
    is_new: bool = False
    is_gone: bool = False


class ShownFiles:
    """What each page of JupyterLab has read or saved, by the number that the page has given itself.

    So it is what that page shows, whatever another window or a conversion has read since. "" is who says no number.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, Path], Shown] = {}

    def read(self, path: Path, file: KnownFile | None) -> None:
        """Remember a file for the page that asks: beside what it shows of that path, if it does, or what was made."""
        before = self._last(path)
        if is_open():
            before = self._files.get((page(), path), Shown(None, is_known=False))
        elif file or not before.is_new:
            before = Shown(None)
        others = tuple(one for one in before.own if not (file and one.is_file(file)))
        self._put(path, Shown(file, (*others, file) if file else others, before.is_known))

    def saved(self, path: Path, file: KnownFile | None) -> None:
        """Remember what the page has saved: where that is the person's own, it is what all of its documents have."""
        if file:
            self._put(path, Shown(file, (file,), is_new=not is_open()))
        elif (page(), path) not in self._files:
            self._put(path, Shown(None))

    def _put(self, path: Path, shown: Shown) -> None:
        self._files.pop((page(), path), None)
        self._files[page(), path] = shown
        self._forget()

    def is_known(self, path: Path) -> bool:
        """Whether the page that asks has read or saved all that it may show of a path in this session."""
        shown = self._files.get((page(), path))
        return bool(shown and shown.is_known)

    def own(self, path: Path, *, of_page: bool) -> tuple[KnownFile, ...]:
        """What was the person's own of what the page that asks may show; or that of the last of all pages.

        In Notebook 7 the list is a page of its own, and shows no file.
        """
        if of_page:
            shown = self._files.get((page(), path))
            return shown.own if shown else ()
        shown = self._last(path)
        return (shown.last,) if shown.last else shown.own

    def _last(self, path: Path) -> Shown:
        found = (shown for (_, one), shown in reversed(self._files.items()) if one == path and not shown.is_gone)
        return next(found, Shown(None))

    def renamed(self, old: Path, new: Path) -> None:
        """Have what lies below a path go with it; another window may show it at its old name still."""
        for (number, path), shown in self._below(old):
            self._files[number, new / path.relative_to(old)] = shown
        self.deleted(old)
        self._forget()

    def deleted(self, path: Path) -> None:
        """What lies below a path is gone; a window may show it still."""
        for one, shown in self._below(path):
            self._files[one] = replace(shown, is_gone=True)

    def _forget(self) -> None:
        while len(self._files) > SHOWN_MAX:  # who has so many loads a page again
            del self._files[next(iter(self._files))]

    def _below(self, path: Path) -> list[tuple[tuple[str, Path], Shown]]:
        return [(one, shown) for one, shown in self._files.items() if one[1].is_relative_to(path)]


def page() -> str:
    """The number of the page that asks for what is done now (templates/lab/src/whole.ts); "" where none says one."""
    return _said(NUMBER)[:NUMBER_MAX]


def is_open() -> bool:
    """Whether the page that reads or saves a file shows it, by its own word."""
    return _said(OPEN) == "yes"


def _said(name: str) -> str:
    handler = CallContext.get(CallContext.JUPYTER_HANDLER)
    return "" if handler is None else handler.request.headers.get(name, "")
