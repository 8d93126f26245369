"""The files that JupyterLab opens, saves, renames, deletes and copies.

Jupyter writes through links, and through a copy of a known name beside the file: in a folder that others can change
they would choose which of the person's files is overwritten. Here nothing goes through a link that others made.
"""

from __future__ import annotations

import base64
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, reduce
from io import TextIOWrapper
from operator import and_
from pathlib import Path
from typing import IO, Any, BinaryIO

from anyio.to_thread import run_sync
from jupyter_core.paths import is_hidden
from tornado.web import HTTPError
from traitlets import default

from portal.downloads.files import FileHandler
from portal.downloads.folder_copy import copy_folder, move_anywhere
from portal.downloads.own_checkpoints import note_done
from portal.downloads.read_back import Save, own_file
from portal.downloads.read_files import COPIED, MAY_BE_LONG, ReadFiles
from portal.downloads.shown_files import is_open
from portal.homes.held_files import delete, has_home_trash, look, own_known_file, trash, usual_mode
from portal.homes.held_place import MAY_BE_THEIRS, FilePlace, LinkOfOthers, held
from portal.homes.readers import EVERYBODY, READ, WRITE, KnownFile, Readers, closed_as
from portal.uploads.untitled import IS_NEW, NameTaken, OneNameEach, under_new_name

THEIR_LINK = (
    "{} is a link that somebody else made, or may have put there (ls -l in a terminal shows whose it is). Open what it "
    "leads to itself, or make a link of your own in a folder that you alone can change."
)
LINK_STAYS = (
    "{} is a link in a folder that others can change: it can be renamed there, and is not moved into another folder, "
    "where it would count as yours. Make a link of your own there, or move what it leads to. If nobody else is in the "
    "group that may write there, as with umask 002, first take that right away: chmod g-w, also of the folders above."
)
LINKS_STAY = (
    ". If nobody else is in the group that may write there, as with umask 002, first take that right away: "
    "portal chmod g-w FOLDER"
)
EXCHANGED = (
    "{} is not saved where it was opened: the way there led through a link that is gone, or leads into somebody else's "
    "folder now. Save it in a folder of your own (Save Notebook As). To work on what is there now, duplicate that, and "
    "open the copy: a tab may still have what was opened before."
)
SHOWN = (
    "{} is not saved: another file is there by now, which others can read, and they could not read the one that was "
    "opened, or this page is older than your session. Save it in a folder of your own (Save Notebook As)."
)
FAR_AWAY = (
    "{} and {} are on different file systems, and others can change one of the two folders. "
    "Copy it, then delete it where it was."
)
COPY_IS_THERE = "The copy '{}' is there, without: {}{}"
STAYS = "{} stays where it is. Its copy on the other file system would be without: {}{}"
NAMES_MAX = 5


class OwnFiles(OneNameEach, ReadFiles):  # type: ignore[misc]  # as Jupyter's own do
    """Jupyter's files; what is written goes through no link that others made, whenever they make it."""

    @default("files_handler_class")
    def _files_handler(self) -> type[FileHandler]:
        return FileHandler

    @contextmanager
    def placed(self, os_path: str) -> Iterator[FilePlace]:
        """The place of a file, held; what is refused is JupyterLab's own answer, in words."""
        with self.perm_to_403(os_path), self._refusing(), held(Path(os_path)) as place:
            yield place

    @contextmanager
    def saved_at(self, os_path: str) -> Iterator[Save]:
        """The same for what is saved, which goes into no folder that took the place where it was read."""
        with self.placed(os_path) as place:
            save = Save(Path(os_path), place, self.read_places.known(Path(os_path)), is_open())
            if not self.read_places.may_save(save.path, place):
                raise HTTPError(403, EXCHANGED.format(place.name))
            yield save
            self.read_places.saved(save)

    @contextmanager
    def atomic_writing(self, os_path: str, text: bool = True, encoding: str = "utf-8") -> Iterator[IO[Any]]:
        """A file that is as before where writing it fails."""
        with self.saved_at(os_path) as save, self.written_at(save, text, encoding) as file:
            yield file

    @contextmanager
    def _written(self, save: Save, *, append: bool = False) -> Iterator[BinaryIO]:
        """The file, open to be written; what is made now is shown to nobody more than what was there, or is copied."""
        shown = _not_to_all(save)
        is_closed = shown or self.read_places.is_unread(save)
        mode = 0o600 if is_closed else 0o666  # others may open it in the moment in which it is made

        def see(descriptor: int, is_made: bool) -> None:
            if is_made and shown:
                _show_as(shown, descriptor, save.place.folder)
            if not self.read_places.may_get(save, descriptor):
                raise HTTPError(403, SHOWN.format(save.place.name))
            save.file = own_file(descriptor)

        try:
            with save.place.written(append=append, is_new=IS_NEW.get(), mode=mode, seen=see) as file:
                yield file
        except FileExistsError as error:
            if not IS_NEW.get():
                raise
            raise NameTaken(save.place.name) from error

    @contextmanager
    def written_at(self, save: Save, text: bool = True, encoding: str = "utf-8") -> Iterator[IO[Any]]:
        """The same for a file whose place is held already."""
        with self._written(save) as raw:
            if not text:
                yield raw
                return
            words = TextIOWrapper(raw, encoding, newline="\n", write_through=True)
            try:
                yield words
            finally:
                words.detach()

    async def _save_large_file(self, os_path: str, content: str, format: str) -> None:
        """Write one more part of a file that is uploaded in parts."""
        try:
            data = content.encode() if format == "text" else base64.b64decode(content)
        except ValueError as error:
            raise HTTPError(400, f"Encoding error saving {os_path}: {error}") from error
        with self.saved_at(os_path) as save, self._written(save, append=True) as file:
            await run_sync(file.write, data)

    async def _save_directory(self, os_path: str, model: Any, path: str = "") -> None:
        with self.placed(os_path) as place:
            if place.is_private:
                return await super()._save_directory(os_path, model, path)  # type: ignore[no-any-return, no-untyped-call]
            self._refuse_hidden("create", os_path)
            try:
                os.mkdir(place.name, dir_fd=place.folder)
            except FileExistsError as error:
                if IS_NEW.get():
                    raise NameTaken(place.name) from error
                if not stat.S_ISDIR(look(place).st_mode):
                    raise HTTPError(400, f"Not a directory: {path}") from None

    async def rename_file(self, old_path: str, new_path: str) -> None:
        """Rename a file."""
        old = self._place_of(old_path)
        new = self._place_of(new_path)
        if old == new:
            return
        with self._answering(old_path), held(old, follow=False) as source, held(new, follow=False) as target:
            note_done({old: source, new: target})
            self._refuse_hidden("rename", str(old), str(new))
            try:
                await run_sync(move_anywhere, source, target)
                self.read_places.renamed(old, new, source, target)
            except FileExistsError as error:
                raise HTTPError(409, f"File already exists: {new_path}") from error
            except LinkOfOthers as error:
                if source.is_private:
                    raise
                raise HTTPError(403, LINK_STAYS.format(old_path)) from error
            except shutil.Error as error:
                raise HTTPError(400, STAYS.format(old_path, *_without(error))) from error
            except OSError as error:
                if error.errno == errno.EXDEV:
                    raise HTTPError(400, FAR_AWAY.format(old_path, new_path)) from error
                raise

    async def delete_file(self, path: str) -> None:
        """Delete a file: into the trash of the home, if it is on the same file system; else for good."""
        os_path = self._place_of(path)
        with self._answering(path), held(os_path, follow=False) as place:
            note_done({os_path: place})
            gone = None if place.is_private else own_known_file(place.folder, place.name)
            await self._delete(place, path)
            self.read_places.deleted(os_path, gone)

    async def _delete(self, place: FilePlace, path: str) -> None:
        os_path = self._place_of(path)
        is_trashed = self.delete_to_trash and has_home_trash(place)
        if place.is_private and is_trashed == self.delete_to_trash:
            await super().delete_file(path)  # type: ignore[no-untyped-call]
            return
        self._refuse_hidden("delete", str(os_path))
        if is_trashed:
            try:
                await run_sync(trash, place, os_path)
                return
            except OSError as error:
                if error.errno != errno.EXDEV:  # one file system, mounted twice
                    raise
        if not (self.delete_to_trash or self.always_delete_dir) and stat.S_ISDIR(look(place).st_mode):
            checkpoints = getattr(self.checkpoints, "checkpoint_dir", "")
            if any(entry.name != checkpoints for entry in os_path.iterdir()):
                raise HTTPError(400, f"Directory {path} not empty")
        await run_sync(delete, place)

    async def copy(self, from_path: str, to_path: str | None = None) -> dict[str, Any]:
        """Copy a file or a folder; not what a link leads to that somebody else made, or may have put there."""
        os_path = self._place_of(from_path)
        copy = partial(super().copy, from_path, to_path)
        is_named = to_path is not None and not await self.dir_exists(to_path)  # type: ignore[no-untyped-call]
        with self._answering(from_path), held(os_path, moved=False) as source, source.read() as descriptor:
            before = COPIED.set({os_path: descriptor})
            bound = MAY_BE_LONG.set(source.is_private)
            try:
                return await (copy() if is_named else under_new_name(copy))
            finally:
                COPIED.reset(before)
                MAY_BE_LONG.reset(bound)

    async def _copy_dir(self, from_path: str, to_path_original: str, to_name: str, to_path: str) -> dict[str, Any]:
        source = COPIED.get()[self._place_of(from_path)]
        try:
            with self._refusing(), held(self._place_of(to_path), follow=False) as place:
                await run_sync(copy_folder, source, place)
        except FileExistsError as error:
            raise NameTaken(to_name) from error
        except shutil.Error as error:
            raise HTTPError(400, COPY_IS_THERE.format(to_path, *_without(error))) from error
        except OSError as error:
            raise HTTPError(400, f"Can't copy '{from_path}' to '{to_path}': {error.strerror}") from error
        model: dict[str, Any] = await self.get(to_path, content=False)  # type: ignore[no-untyped-call]
        return model

    def _place_of(self, path: str) -> Path:
        os_path: Callable[..., str] = self._get_os_path
        return Path(os_path(path.strip("/")))

    def _refuse_hidden(self, act: str, *os_paths: str) -> None:
        if not self.allow_hidden and any(is_hidden(os_path, self.root_dir) for os_path in os_paths):
            raise HTTPError(400, f"Cannot {act} hidden file or directory {os_paths[0]!r}")

    @contextmanager
    def _answering(self, path: str) -> Iterator[None]:
        """JupyterLab's own answers to what goes wrong."""
        try:
            with self.perm_to_403(str(self._place_of(path))), self._refusing():
                yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise HTTPError(404, f"File or directory does not exist: {path}") from error
        except OSError as error:
            raise HTTPError(400, f"{path}: {error.strerror}") from error

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except LinkOfOthers as error:
            raise HTTPError(403, THEIR_LINK.format(error.filename)) from error


def _not_to_all(save: Save) -> list[KnownFile]:
    """What a file is made of, and what was in its place, where not everybody could read that."""
    known = [KnownFile.of(source) for source in COPIED.get().values()]
    if save.before and not save.place.is_private and not save.before.readers.include(EVERYBODY):
        known.append(save.before)
    return known


def _show_as(others: list[KnownFile], descriptor: int, folder: int) -> None:
    """Have a file that was made for the person alone shown to who could read each of these, as any new one there is."""
    modes = [stat.S_IMODE(one.found.st_mode) if one.found else 0 for one in others]
    with suppress(OSError):  # a file system without modes, or a full one
        mode = 0o600 | reduce(and_, modes, usual_mode(folder))
        rights = {
            READ: reduce(Readers.with_, [one.readers for one in others]),
            WRITE: reduce(Readers.with_, [one.writers for one in others]),
        }
        os.fchmod(descriptor, closed_as(rights, descriptor, mode))


def _without(error: shutil.Error) -> tuple[str, str]:
    """What could not be copied of a folder, and what to do about it."""
    failed: list[str] = error.args[0]
    return ", ".join(failed[:NAMES_MAX]), LINKS_STAY if any(MAY_BE_THEIRS in one for one in failed) else ""
