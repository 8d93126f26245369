"""A person's own programs on Unix sockets, such as a Dask cluster's dashboard: pages of the session, by its proxy."""

from __future__ import annotations

import os
import stat
from http import HTTPStatus
from pathlib import Path

from portal.forwarding.socket_pages import SocketPages
from portal.homes import temporary
from portal.tensorboard.error_page import from_elsewhere, page

NOT_THERE = "Nothing listens at this address."
A_PROGRAM = "a program"
PROGRAM_ADVICE = "It does what it is asked to as you. Open it if you meant to."
ADVICE = "The program that had it has ended, or has not started yet."


class OwnSocketProxy(SocketPages):
    """``sockets/NAME/…``: what listens on ``NAME.sock`` in a private folder, for the person of this session."""

    not_there = NOT_THERE

    def initialize(self, folder: Path) -> None:
        """Take the folder of the sockets."""
        self.folder = folder

    def points_at(self, name: str) -> bool:
        """Whether there is the socket; then the proxy points at it."""
        socket = self.folder / f"{name}.sock"
        self.unix_socket = str(socket)
        self.proxy_base = f"sockets/{name}"
        return is_own_socket(socket) and temporary.is_held(socket)

    def led_here(self, name: str) -> str:
        """The page for a request that a page of elsewhere sends."""
        return from_elsewhere(self.request, self.base_url, A_PROGRAM, PROGRAM_ADVICE)

    def say(self, name: str) -> None:
        """That nothing is there."""
        self.set_status(HTTPStatus.NOT_FOUND)
        self.finish(page(NOT_THERE, ADVICE, self.base_url))


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
