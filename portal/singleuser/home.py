"""What a session puts into a person's home before Jupyter starts: the notebook templates, the storage links.

Standard library only, and quick: at an ordinary start it reads our few files and one manifest, and of the person's
copies only their metadata. It runs as the person, in a folder that belongs to them: whatever they put in the way
stays, and what cannot be done becomes a note, because a session must start all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from portal.launcher import open_regular

TEMPLATES = "templates"
MANIFEST = Path(".local/share/dsportal/templates.json")
READ_MAX = 64 * 2**20
LEFT_OUT = ("__pycache__",)


def prepare_home(home: str | Path, notebooks_folder: str | Path, storage: Iterable[tuple[str, str]]) -> list[str]:
    """Fill ``~/templates`` and link the big storage; returns notes on what was left as it was.

    A missing copy is made; a copy that the person has not changed follows our newer version; a changed one is
    never touched. Nothing is written through a symbolic link that lies below ``home``.

    Arguments:
        notebooks_folder: our templates; its folders become folders of ``~/templates``.
        storage: ``(name, path)`` for each link ``~/name`` → ``path``.
    """
    try:
        home = Path(home).resolve(strict=True)
    except OSError as error:
        return [_fault(error)]
    manifest = Manifest.read(home)
    notes = []
    faults = []
    for step in (_links(home, storage, manifest), _fill(home, Path(notebooks_folder), manifest), manifest.write()):
        try:
            for note in step:  # what was noted before a fault is kept
                notes.append(note)
        except OSError as error:
            faults.append(_fault(error))
    return notes + faults[:1]


def _fault(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"Your home could not be prepared: {error.strerror}{where}. The session works without it."


class Manifest:
    """What we put into this home: the hash of each copy, and the target of each storage link."""

    def __init__(self, home: Path, copies: dict[str, str], links: dict[str, str]) -> None:
        self.home = home
        self.copies = copies
        self.links = links
        self._as_read = self._text()

    @classmethod
    def read(cls, home: Path) -> Manifest:
        """The manifest of a home; an unreadable one counts as empty, so that nothing of it is trusted."""
        try:
            known = json.loads(_read(home / MANIFEST))
            return cls(home, _texts(known["copies"]), _texts(known["links"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls(home, {}, {})

    def write(self) -> Iterator[str]:
        """Keep the manifest, if it changed; a step like the others, with nothing to say."""
        yield from ()
        if self._text() != self._as_read and (folder := _real_folder(self.home, MANIFEST.parent)):
            _replace(folder / MANIFEST.name, self._text().encode())

    def _text(self) -> str:
        return json.dumps({"copies": self.copies, "links": self.links}, indent=1, sort_keys=True)


def _texts(value: Mapping[object, object]) -> dict[str, str]:
    return {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)}


def _fill(home: Path, notebooks_folder: Path, manifest: Manifest) -> Iterator[str]:
    if not notebooks_folder.is_dir():
        yield f"The notebook templates are missing: there is no folder {notebooks_folder}."
        return
    for source in _files(notebooks_folder):
        place = Path(TEMPLATES) / source.relative_to(notebooks_folder)
        folder = _real_folder(home, place.parent)
        if folder is None:
            yield f"~/{place.parent} is not a folder of yours (a file or a link is there): {place.name} was not copied."
        else:
            _copy(source, folder / place.name, str(place), manifest)


def _files(folder: Path) -> Iterator[Path]:
    """The files to copy; hidden ones (checkpoints, editors' files) are not."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in LEFT_OUT:
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _copy(source: Path, target: Path, name: str, manifest: Manifest) -> None:
    content = source.read_bytes()
    ours = _hash(content)
    kind = _kind(target)
    copied = manifest.copies.get(name)
    if kind is None:
        _replace(target, content)
    elif copied == ours or kind != stat.S_IFREG:
        return  # up to date when it was copied, or something else of that name
    else:
        theirs = _hash_of(target)
        if theirs not in (ours, copied):
            return  # changed by the person
        if theirs != ours:
            _replace(target, content)
    manifest.copies[name] = ours


def _links(home: Path, storage: Iterable[tuple[str, str]], manifest: Manifest) -> Iterator[str]:
    for name, path in storage:
        yield from _link(home, name, path, manifest)


def _link(home: Path, name: str, path: str, manifest: Manifest) -> Iterator[str]:
    link = home / name
    kind = _kind(link)
    if kind == stat.S_IFLNK:
        target = str(link.readlink())
        if target == path:
            return
        if target == manifest.links.get(name):  # ours: the storage has moved
            link.unlink()
            kind = None
    if kind is not None:
        yield f"~/{name} is something of yours: the storage {path} is not linked there. Rename it to get the link."
        return
    with contextlib.suppress(FileExistsError):  # another session of yours starts at this moment
        link.symlink_to(path)
    manifest.links[name] = path


def _real_folder(home: Path, place: Path) -> Path | None:
    """``home/place``, made if missing; None when a file or a symbolic link is in the way."""
    folder = home
    for part in place.parts:
        folder /= part
        kind = _kind(folder)
        if kind is None:
            folder.mkdir(exist_ok=True)
        elif kind != stat.S_IFDIR:
            return None
    return folder


def _kind(path: Path) -> int | None:
    """The kind of what lies at ``path`` itself (no link is followed), or None when nothing does."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_of(path: Path) -> str:
    """The hash of a file; '' when the person does not let it be read, so that it counts as changed."""
    try:
        return _hash(_read(path))
    except PermissionError:
        return ""


def _read(path: Path) -> bytes:
    """A file of the person's: no link, no pipe, and no more of it than any file of ours is long."""
    with open_regular(path) as file:
        return file.read(READ_MAX)


def _replace(target: Path, content: bytes) -> None:
    """Write the whole file or nothing; a full disk leaves what was there, and no half file."""
    handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(beside).chmod(0o644)
        Path(beside).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise
