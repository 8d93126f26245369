"""What a session puts into a person's home before Jupyter starts: the catalogue of templates, the storage links.

Quick: at an ordinary start it reads the templates and one manifest, and of what lies in the home only the metadata. It
runs as the person, in a folder that belongs to them: whatever they put in the way stays, and what cannot be done
becomes a note, because a session must start all the same.
"""

from __future__ import annotations

import contextlib
import json
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from portal.gallery import shelf
from portal.gallery.files import HeldFolder, real_folder
from portal.gallery.files import kind as kind_of
from portal.session_settings import SessionSettings

MANIFEST = Path(".local/share/dsportal/templates.json")


def prepare_home(
    home: str | Path,
    folders: Sequence[str | Path],
    storage: Iterable[tuple[str, str]],
    kernels: Collection[str] | None = None,
) -> list[str]:
    """Bring ``~/templates`` up to date and link the big storage; returns notes on what was left as it was.

    Nothing is written through a symbolic link that lies below ``home``.

    Arguments:
        folders: of templates, the portal's own first; their folders become folders of ``~/templates``.
        storage: ``(name, path)`` for each link ``~/name`` → ``path``.
        kernels: the names of the kernels that are offered; None = templates for any kernel are shown.
    """
    try:
        home = Path(home).resolve(strict=True)
    except OSError as error:
        return [_fault(error)]
    manifest = Manifest.read(home)
    notes = []
    faults = []
    catalogue = shelf.fill(home, [Path(folder) for folder in folders], manifest.copies, kernels)
    for step in (_links(home, storage, manifest), catalogue, manifest.write()):
        try:
            for note in step:  # what was noted before a fault is kept
                notes.append(note)
        except OSError as error:
            faults.append(_fault(error))
    return notes + faults[:1]


def preparing(settings: SessionSettings, home: Path) -> Future[list[str]]:
    """The notes on a home that is prepared beside the imports; nobody waits for it at the session's end."""
    notes: Future[list[str]] = Future()

    def prepare() -> None:
        try:
            notes.set_result(prepare_for(settings, home))
        except Exception as error:
            notes.set_exception(error)

    threading.Thread(target=prepare, daemon=True).start()
    return notes


def prepare_for(settings: SessionSettings, home: Path) -> list[str]:
    """:func:`prepare_home` for a session: with what its site offers, and the kernels that it finds."""
    from jupyter_core.paths import jupyter_path

    storage = [(folder.name, folder.path) for folder in settings.storage]
    return prepare_home(home, settings.template_folders, storage, shelf.offered(jupyter_path("kernels")))


def notes_of(preparing: Future[list[str]], wait_s: float) -> list[str]:
    """The notes, or one where they are waited for in vain: a file server that is silent keeps nobody from working."""
    try:
        return preparing.result(wait_s)
    except TimeoutError:
        return [f"Your home is not prepared after {wait_s:.0f} s: a file server is slow. The session goes on without."]
    except Exception as error:
        return [f"Your home could not be prepared: {error!r}. The session works without it."]


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
            with HeldFolder.at(home) as folder:
                known = json.loads(folder.read(str(MANIFEST)) or b"")
            return cls(home, _texts(known["copies"]), _texts(known["links"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls(home, {}, {})

    def write(self) -> Iterator[str]:
        """Keep the manifest, if it changed; a step like the others, with nothing to say."""
        yield from ()
        if self._text() != self._as_read and real_folder(self.home, MANIFEST.parent):
            with HeldFolder.at(self.home) as folder:
                folder.write(str(MANIFEST), self._text().encode(), 0o644)

    def _text(self) -> str:
        return json.dumps({"copies": self.copies, "links": self.links}, indent=1, sort_keys=True)


def _texts(value: Mapping[object, object]) -> dict[str, str]:
    return {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)}


def _links(home: Path, storage: Iterable[tuple[str, str]], manifest: Manifest) -> Iterator[str]:
    for name, path in storage:
        yield from _link(home, name, path, manifest)


def _link(home: Path, name: str, path: str, manifest: Manifest) -> Iterator[str]:
    link = home / name
    kind = kind_of(link)
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
