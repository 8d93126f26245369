"""The pictures of the site's profiles: small files that only root can change, read once and beside the event loop."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Any, NamedTuple

from jupyterhub.handlers import BaseHandler
from tornado import web

ROOT = 0
LARGEST = 256 * 1024  # bytes
WITHIN_S = 3.0
_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
}  # what begins so; no SVG: it may hold scripts


class ProfilePicture(NamedTuple):
    """One picture, and what it is."""

    media_type: str
    content: bytes


def read(path: str) -> ProfilePicture:
    """A picture out of a file.

    Raises:
        ValueError: it is not one that is shown; its words say why.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        folder = os.stat(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH116, PTH120
        for what, found in (("it", os.fstat(descriptor)), ("its folder", folder)):
            if found.st_uid != ROOT or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ValueError(f"{what} is not root's alone: chown root, chmod go-w")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no file")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024} KiB")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return ProfilePicture("image/webp", content)
    for beginning, media_type in _TYPES.items():
        if content.startswith(beginning):
            return ProfilePicture(media_type, content)
    raise ValueError("it is no PNG, JPEG or WebP")


class ProfilePictures:
    """The pictures that have been asked for; each file is read once, whoever asks, as long as the hub lives."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Future[ProfilePicture]] = {}
        self._turn = asyncio.Lock()  # a file system that hangs keeps one thread of the hub, not all

    async def of(self, path: str) -> ProfilePicture:
        """The picture in a file of the settings.

        Raises:
            TimeoutError: its file system does not answer; the next one who asks waits for the same answer.
            ValueError, OSError: as :func:`read`.
        """
        if path not in self._found:
            self._found[path] = asyncio.ensure_future(self._read(path))
        reading = self._found[path]
        try:
            async with asyncio.timeout(WITHIN_S):
                return await asyncio.shield(reading)
        except (ValueError, OSError):
            if reading.done():
                self._found.pop(path, None)  # whoever mends the file need not restart the hub
            raise

    async def _read(self, path: str) -> ProfilePicture:
        async with self._turn:
            return await asyncio.to_thread(read, path)


PICTURES = ProfilePictures()


class PictureHandler(BaseHandler):  # type: ignore[misc]
    """``GET /hub/dsportal/picture/PROFILE``: the picture of a profile, for who may choose it."""

    is_picture = True  # for portal.guard

    @web.authenticated
    async def get(self, profile: str) -> None:
        """404 for any other profile, and for what is no picture; the log says why."""
        offer: Any = getattr(self.current_user.spawner, "offer", None)
        path = await offer.picture(profile) if offer else ""
        if not path:
            raise web.HTTPError(404)
        try:
            found = await PICTURES.of(path)
        except (TimeoutError, ValueError, OSError) as error:
            self.log.error("The picture of the profile %s, %s, is not shown: %s", profile, path, error or "no answer")
            raise web.HTTPError(404) from error
        self.set_header("Content-Type", found.media_type)
        self.set_header("Content-Security-Policy", "default-src 'none'; sandbox")
        self.finish(found.content)
