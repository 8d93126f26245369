"""The gallery for the Lab extension: JSON of the session's server, for who may use the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tornado.web import authenticated

from portal.gallery import copies, told
from portal.gallery.compare import compare
from portal.gallery.shelf import is_offered
from portal.gallery.stamp import TEMPLATES, TemplateRefused
from portal.gallery.units import Unit, find
from portal.notebooks.style import LEVELS
from portal.notebooks.template import mark_of, needs_of
from portal.session_pages.calls import SessionCall

Answer = dict[str, Any]
ACTIONS = {"update": copies.update, "reset": copies.reset}


@dataclass(frozen=True)
class Gallery:
    """What the pages need.

    Attributes:
        home: where the file browser begins.
        folders: those of templates.
        gpus: how many this session has; None where it is no job.
    """

    home: Path
    folders: tuple[Path, ...]
    gpus: int | None = None

    def catalogue(self, kernels: Collection[str] | None) -> Answer:
        """Every template with its card, and why it cannot be used here where that is so."""
        return {"templates": [self._card(unit, kernels) for unit in find(self.folders).values()]}

    def new(self, name: str, folder: str) -> Answer:
        """A copy of a template, in a folder of the file browser."""
        unit = told.unit_called(name, find(self.folders))
        with copies.opened_parent(self._place(folder)) as parent:
            copy = told.new(unit, self.home, parent)
        return {"path": self._shown(copy / unit.notebook)}

    def copy(self, path: str) -> Answer:
        """What has become of a copy, and how it differs from its template."""
        units = find(self.folders)
        with told.opened(self._folder(path)) as folder:
            found = copies.state(folder, units)
            differences = compare(folder, units)
        return {
            "template": found.template,
            "state": found.word,
            "words": told.described(found),
            "differences": differences,
        }

    def act(self, path: str, action: str) -> Answer:
        """Update or reset a copy; ``path`` of the answer is where to look now."""
        if action not in ACTIONS:
            raise TemplateRefused(f"{action!r} cannot be done with a copy; there are {', '.join(ACTIONS)}.")
        with told.opened(self._folder(path)) as folder:
            outcome = ACTIONS[action](folder, find(self.folders))
            where = outcome.beside or folder.path
        return {"words": told.done(outcome), "path": self._shown(where)}

    def _card(self, unit: Unit, kernels: Collection[str] | None) -> Answer:
        one = unit.template
        is_usable = is_offered(unit, kernels)
        return {
            "name": unit.name,
            "title": one.title,
            "summary": one.summary,
            "framework": one.framework,
            "kernel": one.kernel,
            "gpus": one.gpus,
            "minutes_cpu": one.minutes_cpu,
            "minutes_gpu": one.minutes_gpu,
            "needs": needs_of(one.gpus, one.minutes_cpu),
            "fits": one.gpus <= (self.gpus or 0),
            "mark": mark_of(one.framework),
            "level": one.level,
            "level_title": LEVELS[one.level],
            "dataset": one.dataset,
            "version": unit.version,
            "path": f"{TEMPLATES}/{unit.template.path.relative_to(unit.root)}" if is_usable else "",
            "refused": "" if is_usable else f"The kernel {one.kernel!r} is not offered here.",
        }

    def _folder(self, path: str) -> Path:
        """The folder of a copy; of a file in it, the one that it is in."""
        place = self._place(path)
        return place if place.is_dir() else place.parent

    def _place(self, path: str) -> Path:
        parts = PurePosixPath(path.strip("/")).parts
        if ".." in parts or "\0" in path:
            raise TemplateRefused(f"{path!r} is not below your files: choose a folder of the file browser.")
        return self.home.joinpath(*parts)

    def _shown(self, place: Path) -> str:
        return str(place.relative_to(self.home))


class _GalleryHandler(SessionCall):
    def initialize(self, gallery: Gallery) -> None:
        self.gallery = gallery

    async def answer(self, act: Callable[..., Answer], *arguments: object) -> None:
        """Answer with what is done in a thread: a file server may be silent."""
        try:
            found = await asyncio.to_thread(act, *arguments)
        except (TemplateRefused, OSError) as error:
            words = error if isinstance(error, TemplateRefused) else told.refused(error)
            self.set_status(400)
            found = {"message": words.message}
        self.finish(json.dumps(found))

    def texts(self, *names: str) -> list[str]:
        """The texts of a JSON body."""
        body = self.get_json_body()
        given = body if isinstance(body, Mapping) else {}
        return [str(given.get(name, "")) for name in names]


class CatalogueHandler(_GalleryHandler):
    """``dsportal/api/templates``: the catalogue, and a new copy."""

    @authenticated
    async def get(self) -> None:
        """Every template that there is."""
        self._track_activity = False
        specs = await asyncio.to_thread(self.kernel_spec_manager.find_kernel_specs)
        await self.answer(self.gallery.catalogue, {name.lower() for name in specs})

    @authenticated
    async def post(self) -> None:
        """Copy ``template`` into ``folder``."""
        await self.answer(self.gallery.new, *self.texts("template", "folder"))


class CopyHandler(_GalleryHandler):
    """``dsportal/api/copy``: one copy, looked at, brought up to date, or made as it was."""

    @authenticated
    async def get(self) -> None:
        """What has become of the copy at ``path``."""
        await self.answer(self.gallery.copy, self.get_query_argument("path", "", strip=False))

    @authenticated
    async def post(self) -> None:
        """Do ``action`` with the copy at ``path``."""
        await self.answer(self.gallery.act, *self.texts("path", "action"))
