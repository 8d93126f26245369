"""A person's own programs on Unix sockets, such as a Dask cluster's dashboard: pages of the session, by its proxy."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from portal.forwarding.socket_pages import SocketPages
from portal.homes import temporary
from portal.homes.held_place import is_own_all_the_way
from portal.tensorboard.error_page import from_elsewhere, page

NOT_THERE = "Nothing listens at this address."
A_PROGRAM = "a program"
PROGRAM_ADVICE = "It does what it is asked to as you. Open it if you meant to."
ADVICE = "The program that had it has ended, or has not started yet."


class OwnSocketProxy(SocketPages):
    """``sockets/NAME/…``: what listens on ``NAME.sock`` in a private folder, for the person of this session.

    That is the session's own, or Jupyter's in the home, for programs that know of no other one.
    """

    not_there = NOT_THERE

    def initialize(self, folders: Sequence[Path]) -> None:
        """Take the folders of the sockets, the first of which counts first."""
        self.folders = folders

    def points_at(self, name: str) -> bool:
        """Whether there is the socket; then the proxy points at it."""
        sockets = [folder / f"{name}.sock" for folder in self.folders]
        socket = next((one for one in sockets if is_own_socket(one) and temporary.is_held(one)), None)
        self.unix_socket = str(socket or sockets[0])
        self.proxy_base = f"sockets/{name}"
        return socket is not None

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
    private = private and is_own_all_the_way(path.parent)
    own = folder.st_uid == found.st_uid == os.geteuid()
    return private and own and stat.S_ISSOCK(found.st_mode)
