"""The program that a session's job runs here: what JupyterHub's own ``mocksu`` answers, announced as the portal does.

The first line on its standard input is the session's environment as JSON; it ends when that input ends. It announces
its port with the very function of the session's server (``portal.singleuser.server.announce``); but where that one
asks again for two minutes, this one ends at once when the hub does not know its token.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from portal.forwarding import ports
from portal.singleuser import server
from portal.singleuser.hub_token import token

Post = Callable[[str, Mapping[str, object], float], int]


class Echo(BaseHTTPRequestHandler):
    """Answers ``.../env``, ``.../args``, and every other address with its path."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        known: dict[str, object] = {"env": dict(os.environ), "args": sys.argv}
        last = path.rpartition("/")[2]
        body = json.dumps(known[last]) if last in known else path
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """A test looks at answers, not at a log."""


def post_if_known(name: str, body: Mapping[str, object], timeout_s: float, post: Post = server.post) -> int:
    """The status that the hub answers; 403 ends this program."""
    status = post(name, body, timeout_s)
    if status == HTTPStatus.FORBIDDEN:
        raise SystemExit("the hub does not know this session's token")
    return status


def main() -> None:
    """Listen, announce, and serve until the input ends."""
    os.environ.update(json.loads(sys.stdin.readline()))
    token.take(dict(os.environ))  # theirs look for it in the environment, too
    listener = ports.listen("127.0.0.1")
    listener.setblocking(True)
    http = ThreadingHTTPServer(listener.getsockname(), Echo, bind_and_activate=False)
    http.socket.close()
    http.socket = listener
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.post = post_if_known
    server.announce({"port": server.port_of(listener), "restarts": 0})
    sys.stdin.read()


if __name__ == "__main__":
    main()
