"""A hub as a session sees it: it knows one token, takes the port and the farewell, and notes every POST."""

from __future__ import annotations

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jupyterhub import __version__

PERSON = "person"
PREFIX = f"/user/{PERSON}/"
TOKEN = "token-of-the-session"
SCOPES = [f"access:servers!server={PERSON}/"]


class StubHub(ThreadingHTTPServer):
    """Listens on a free port of this machine until it is closed.

    ``posts`` holds (path, body, seconds on the monotonic clock) of each POST; ``refuses`` maps the last word of a
    path to the status that is answered instead; ``says`` are headers of its answers to what it takes; ``logins`` are
    the person's, whose tokens it knows for as long; what is asked about tokens that begin with "late" is answered when
    ``may_answer`` is set, and ``asked`` has them.
    """

    daemon_threads = True
    request_queue_size = 500

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posts: list[tuple[str, Any, float]] = []
        self.refuses: dict[str, int] = {}
        self.says: dict[str, str] = {}
        self.logins: set[str] = set()
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, *_: Any) -> None:
        """A session that went away does not wait for its answer; a handshake may be meant to fail."""

    @property
    def api_url(self) -> str:
        """The base of the hub's API, as in ``JUPYTERHUB_API_URL``."""
        return f"{self.scheme}://127.0.0.1:{self.server_port}/hub/api"

    def bodies(self, word: str) -> list[Any]:
        """What was posted to the addresses that end in ``word``."""
        return [body for path, body, _ in list(self.posts) if path.endswith(f"/{word}")]

    def environment(self) -> dict[str, str]:
        """What a session of this hub finds in its environment file."""
        return {
            "JUPYTERHUB_API_TOKEN": TOKEN,
            "JUPYTERHUB_API_URL": self.api_url,
            "JUPYTERHUB_ACTIVITY_URL": f"{self.api_url}/users/{PERSON}/activity",
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_CLIENT_ID": f"jupyterhub-user-{PERSON}",
            "JUPYTERHUB_DEFAULT_URL": "/lab",
            "JUPYTERHUB_DISABLE_USER_CONFIG": "1",
            "JUPYTERHUB_HOST": "",
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(SCOPES),
            "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback",
            "JUPYTERHUB_OAUTH_SCOPES": json.dumps(SCOPES),
            "JUPYTERHUB_SERVER_NAME": "",
            "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
            "JUPYTERHUB_SERVICE_URL": f"{self.scheme}://127.0.0.1:0{PREFIX}",
            "JUPYTERHUB_USER": PERSON,
        }


class _Handler(BaseHTTPRequestHandler):
    server: StubHub

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "").split(" ")[-1]
        self.server.asked.append(token)
        if token.startswith("late"):
            self.server.may_answer.wait(60)
        known = token in {TOKEN, *self.server.logins}
        if self.path.rstrip("/") == "/hub/api":
            self._answer(200, {"version": __version__})
        elif self.path == "/hub/api/user" and known:
            self._answer(200, {"name": PERSON, "kind": "user", "admin": False, "groups": [], "scopes": SCOPES})
        else:
            self._answer(404 if known else 403, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, body, time.monotonic()))
        known = self.headers.get("Authorization") == f"token {TOKEN}"
        refused = self.server.refuses.get(self.path.rpartition("/")[2])
        self._answer(refused or (204 if known else 403), None)

    def _answer(self, status: int, body: Any) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("X-JupyterHub-Version", __version__)
        for name, text in self.server.says.items() if status == 204 else ():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silence."""
