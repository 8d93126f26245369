"""A person's own programs on Unix sockets, such as a Dask cluster's dashboard: pages of the session, by its proxy."""

from __future__ import annotations

import os
import stat
from http import HTTPStatus
from pathlib import Path
from typing import Any

from portal.forwarding.private_proxy import PrivateProxy
from portal.tensorboard.error_page import from_elsewhere, is_from_elsewhere, page

NOT_THERE = "Nothing listens at this address."
GOING_AWAY = 1001  # RFC 6455 §7.4.1
A_PROGRAM = "a program"
PROGRAM_ADVICE = "It does what it is asked to as you. Open it if you meant to."
ADVICE = "The program that had it has ended, or has not started yet."


class OwnSocketProxy(PrivateProxy):
    """``sockets/NAME/…``: what listens on ``NAME.sock`` in a private folder, for the person of this session."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An open page asks again and again: that does not keep a session alive.
        super().__init__(*args, update_last_activity=False, **kwargs)

    def initialize(self, folder: Path) -> None:
        """Take the folder of the sockets."""
        self.folder = folder

    async def http_get(self, name: str, path: str) -> None:
        """Forward a request, whatever its method."""
        if self._found(name):
            await self.proxy("localhost", 0, path)

    post = put = delete = head = patch = options = http_get

    async def open(self, name: str, path: str) -> None:
        """Forward a web socket; what is not there is said by its end, for an open page asks again."""
        if is_from_elsewhere(self.request) or not self._points_at(name):
            self.close(GOING_AWAY, NOT_THERE)
            return
        await self.proxy_open("localhost", 0, path)

    def _found(self, name: str) -> bool:
        """Point the proxy at the socket; otherwise answer with a page."""
        if is_from_elsewhere(self.request):
            self.set_status(HTTPStatus.FORBIDDEN)
            self.finish(from_elsewhere(self.request, self.base_url, A_PROGRAM, PROGRAM_ADVICE))
            return False
        if not self._points_at(name):
            self.set_status(HTTPStatus.NOT_FOUND)
            self.finish(page(NOT_THERE, ADVICE, self.base_url))
            return False
        return True

    def _points_at(self, name: str) -> bool:
        """Whether there is the socket; then the proxy points at it."""
        socket = self.folder / f"{name}.sock"
        self.unix_socket = str(socket)
        self.proxy_base = f"sockets/{name}"
        return is_own_socket(socket)


def is_own_socket(path: Path) -> bool:
    """Whether there is a socket of this person's, and no link to one, in a folder that only this person may enter."""
    try:
        folder = path.parent.lstat()
        found = path.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(folder.st_mode) and not stat.S_IMODE(folder.st_mode) & 0o077
    own = folder.st_uid == found.st_uid == os.geteuid()
    return private and own and stat.S_ISSOCK(found.st_mode)
