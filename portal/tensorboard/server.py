"""One TensorBoard on a Unix socket: ``python -I <this file> SOCKET FOLDER TITLE [led]``.

TensorBoard has no authentication, and a TCP port of a node is open to everybody on it; the socket lies in a
folder of mode 0700. ``server_class`` is TensorBoard's public way to bring another server (2.21, program.py).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorboard import default, program
from werkzeug import serving

from portal.tensorboard import assets, profiles, regular_files, steady_reading

OOM_SCORE_ADJ = Path("/proc/self/oom_score_adj")  # proc(5): with 1000 a process goes first where the memory ends


class UnixSocketServer(serving.ThreadedWSGIServer, program.TensorBoardServer):  # type: ignore[misc]
    """Werkzeug's threaded server on a Unix socket instead of a port."""

    socket_path = ""
    daemon_threads = True

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        super().__init__(f"unix://{self.socket_path}", 0, wsgi_app)

    def get_url(self) -> str:
        """An address with a number for a port: TensorBoard notes it in a file of its own and wants one."""
        return "http://localhost:0/"

    def print_serving_message(self) -> None:
        """Nothing: there is no address that a person could open."""


def main(socket_path: str, folder: str, title: str, *led: str) -> int:
    """Serve ``folder``, without links, until the process that started this one is gone.

    Arguments:
        led: one word where others may have led the person there.
    """
    os.umask(0o077)
    with suppress(OSError):  # what others write into a folder of logs ends this, and not a person's kernels
        OOM_SCORE_ADJ.write_text("1000")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    UnixSocketServer.socket_path = socket_path
    regular_files.read_no_others()
    steady_reading.read_on()
    profiles.show_own_alone(folder, is_chosen=not led)
    assets.take_as_packed()
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=UnixSocketServer)
    # load_fast would start a second process with a TCP port of its own.
    board.configure(["tensorboard", f"--logdir={folder}", f"--window_title={title}", "--load_fast=false"])
    return int(board.main())


def _end_with_parent() -> None:
    """Standard input ends when the Jupyter server does, even when it was killed."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
