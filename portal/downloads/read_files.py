"""What JupyterLab opens, in this session's one thread: whatever others do with a file meanwhile, nobody waits for it.

In a folder that others can change a file may become a pipe between two steps, and its owner may have the kernel keep
whoever opens it for most of a minute (fcntl(2), ``F_SETLEASE``).
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import nbformat
from anyio.to_thread import run_sync
from tornado.web import HTTPError
from traitlets import default

from portal.downloads.listed_folders import LISTED, ListedFolders
from portal.downloads.own_notary import OwnNotary
from portal.downloads.read_back import LOOKS, ReadPlaces, look_at, open_looking
from portal.homes.held_place import KEPT_MAX, is_own_all_the_way
from portal.homes.own_folder import is_of_others, is_own_file
from portal.notebooks import validation

IS_KEPT = "Somebody keeps {} from being opened just now. Try again, or ask who it belongs to."
TOO_LONG = (
    "{} is longer than {} MB, and JupyterLab has all of a file in this session's memory, several times. "
    "Read it in a notebook, download it, or copy it in a terminal."
)
TOO_LONG_IN_JSON = (
    "{} is longer than {} MB as JupyterLab gets it: each of its control characters, and of those beyond ASCII, takes "
    "six letters there, or twelve. Read it in a notebook, download it, or copy it in a terminal."
)
HOLDS_TOO_MUCH = (
    "{} holds more than {} objects of JSON, {} lists, {} names or {} values, and JupyterLab has each of them in this "
    "session's memory. Download it, or have it saved without its outputs where it was made."
)
FAULTY = "Notebook validation failed: {}:\n{}"  # as Jupyter's own
OPENED_MAX = KEPT_MAX
TRIED_AFTER_S = (0.0, 0.1, 0.3, 1.0)  # a file server that has a lease gives it back when it is asked
OPEN = "/proc/self/fd/{}"
COPIED: ContextVar[Mapping[Path, int]] = ContextVar("COPIED", default=MappingProxyType({}))  # what is read instead
IS_SHOWN: ContextVar[bool] = ContextVar("IS_SHOWN", default=True)  # what is read is for a page that has it open then
MAY_BE_LONG: ContextVar[bool] = ContextVar("MAY_BE_LONG", default=False)  # and nobody else has made it so long


class ReadFiles(ListedFolders):
    """Jupyter's files, as far as they are read."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        validation.bound()
        self.read_places = ReadPlaces()

    @default("notary")
    def _own_notary(self) -> OwnNotary:
        return OwnNotary(parent=self)  # type: ignore[no-untyped-call]

    async def _file_model(self, path: str, content: bool = True, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with self._looking(path, content) as model:
            model |= await super()._file_model(path, content, *args, **kwargs)  # type: ignore[no-untyped-call]
        return model

    async def _notebook_model(self, path: str, content: bool = True, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with self._looking(path, content) as model:
            model |= await super()._notebook_model(path, content, *args, **kwargs)  # type: ignore[no-untyped-call]
        return model

    @contextmanager
    def _looking(self, path: str, is_read: bool) -> Iterator[dict[str, Any]]:
        """What is said of one file, and is writable only where it may be saved later: by the look that has read it.

        Of a folder's list nobody saves anything, and what is copied is saved elsewhere.
        """
        model: dict[str, Any] = {}
        if LISTED.get() or COPIED.get():
            yield model
            return
        before = LOOKS.set([])
        try:
            yield model
            place = Path(self._get_os_path(path.strip("/")))  # type: ignore[no-untyped-call]
            looks = LOOKS.get()
            look = min(looks or [look_at(place)], key=lambda one: one.is_writable)
        finally:
            LOOKS.reset(before)
        if is_read or looks:  # or what its hash was made of
            self.read_places.note(place, look, is_read=is_read and IS_SHOWN.get())
        model["writable"] = model["writable"] and self.read_places.is_writable(place, look)

    async def _read_file(self, os_path: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """What is copied is read from what was held."""
        held_file = COPIED.get().get(Path(os_path))
        place = os_path if held_file is None else OPEN.format(held_file)
        for wait_s in TRIED_AFTER_S:
            await asyncio.sleep(wait_s)
            with suppress(BlockingIOError):
                answer = await super()._read_file(place, *args, **kwargs)
                if held_file is None and answer[1] == "text" and await run_sync(in_json, answer[0]) > OPENED_MAX:
                    raise HTTPError(413, TOO_LONG_IN_JSON.format(Path(os_path).name, OPENED_MAX >> 20))
                return answer
        raise HTTPError(HTTPStatus.LOCKED, IS_KEPT.format(Path(os_path).name))

    async def _read_notebook(
        self, os_path: str, as_version: int = 4, capture_validation_error: Any = None, raw: bool = False
    ) -> Any:
        """Jupyter puts what was being saved in the place of a notebook that cannot be read: in a folder of one's own.

        Elsewhere the way to it may lead to another notebook by then; and others may have left a file of that name.
        """
        place = Path(os_path)
        answer = await self._read_file(os_path, "text", raw)
        if await run_sync(validation.has_too_much, answer[0]):
            raise HTTPError(413, HOLDS_TOO_MUCH.format(place.name, *validation.MOST))
        if is_own_all_the_way(place.parent) and is_own_file(place.with_name(f".~{place.name}")):
            return await super()._read_notebook(os_path, as_version, capture_validation_error, raw)
        read = partial(nbformat.reads, as_version=as_version, capture_validation_error=capture_validation_error)
        try:
            notebook = await run_sync(read, answer[0])
        except Exception as error:
            raise HTTPError(400, f"Unreadable Notebook: {os_path} {error!r}") from error
        return (notebook, answer[2]) if raw else notebook

    def validate_notebook_model(self, model: dict[str, Any], validation_error: Any = None) -> dict[str, Any]:
        """What is wrong with a notebook, in Jupyter's words, and not with all that is in it."""
        error = (validation_error or {}).get("ValidationError")
        if isinstance(error, nbformat.ValidationError):
            part = json.dumps(validation.shortened(error.instance), indent=1, default=str)
            model["message"] = FAULTY.format(validation.in_short(str(error)), validation.in_short(part))
        return model

    @contextmanager
    def open(self, os_path: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """A file that Jupyter reads as a whole; but for a copy of what is one's own, no more than memory bears."""
        try:
            with super().open(os_path, *args, **kwargs, opener=open_looking) as file:
                is_copied = os_path in map(OPEN.format, COPIED.get().values())  # then that is what it is called
                shown = os.path.realpath(os_path) if is_copied else os_path
                is_whole = is_copied and MAY_BE_LONG.get() and not is_of_others(os.fstat(file.fileno()))
                yield file if is_whole else Bounded(file, shown)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise HTTPError(400, f"{Path(os_path).name} {error.strerror}") from error
            raise


def in_json(text: Any) -> int:
    """The letters of a text in JSON, about: a file of nothing but NUL has six times as many as bytes.

    Those that take two count as one: a notebook is JSON itself, and nothing without content is made of them.
    """
    data: bytes = text.encode(errors="surrogatepass")
    if 6 * len(data) <= OPENED_MAX:  # whatever it holds
        return 6 * len(data)

    def count(which: Iterable[int]) -> int:
        return len(data) - len(data.translate(None, bytes(which)))

    as_six = count(range(32)) - count(b"\b\t\n\f\r") + count([127])
    beyond = 2 * count(range(128, 256)) - 3 * count(range(0xE0, 0xF0))  # of 2 or 3 bytes six letters, of 4 twelve
    return len(data) + 5 * as_six + beyond


class Bounded:
    """A file that is read as a whole, however long others make it meanwhile."""

    def __init__(self, file: BinaryIO, os_path: str) -> None:
        self._file = file
        self._name = Path(os_path).name

    def read(self) -> bytes:
        """All of it.

        Raises:
            HTTPError: 413, it is too long.
        """
        self.length()
        content = self._file.read(OPENED_MAX + 1)
        self._check(len(content))
        return content

    def length(self) -> int:
        """Its bytes now.

        Raises:
            HTTPError: 413, it is too long.
        """
        size = os.fstat(self._file.fileno()).st_size
        self._check(size)
        return size

    def _check(self, size: int) -> None:
        if size > OPENED_MAX:
            raise HTTPError(413, TOO_LONG.format(self._name, OPENED_MAX >> 20))
