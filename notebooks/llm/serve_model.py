"""A small server for one language model, with ``/v1/completions`` as OpenAI's interface has it, on a UNIX socket.

    python serve_model.py --model FOLDER --socket PRIVATE_FOLDER/socket

Other people share the node. Whoever is on it reaches a port of 127.0.0.1; a socket in a folder of mode 0700 is reached
by its owner alone, so that no token is needed, and nobody else can hold the server up. Requests that wait at the same
time are computed together (a batch). The answers are greedy: the same prompt gives the same text. The server ends with
its standard input, so it does not outlive the notebook that started it.

``ask`` is the client. The framework is imported where a model is loaded, so a client needs the standard library alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import lesson_folders
from completions import WAITING_MAX, Answer, Batcher, Refused, Request, answered, parse

BODY_MAX = 1 << 20  # bytes of a request


class Handler(BaseHTTPRequestHandler):
    """One client's requests: ``POST /v1/completions`` and ``GET /v1/models``."""

    server: Server
    protocol_version = "HTTP/1.1"  # a client keeps its connection
    timeout = 60  # seconds that a client may be silent

    def do_GET(self) -> None:
        """Which model this is."""
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": self.server.name, "object": "model"}]})
        else:
            self._refuse(Refused(404, "There are POST /v1/completions and GET /v1/models."))

    def do_POST(self) -> None:
        """Go on from a prompt."""
        try:
            if self.path != "/v1/completions":
                raise Refused(404, "There are POST /v1/completions and GET /v1/models.")
            request = parse(self._body())
            self.server.check(request)
            answer = self.server.batcher.ask(request)
            self._send(200, answered(answer, self.server.name, self.server.next_number()))
        except Refused as refused:
            self._refuse(refused)
        except ConnectionError:
            self.close_connection = True  # the client is gone
        except Exception as error:
            print(f"a batch failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._refuse(Refused(500, "The model failed; the server's log says why."))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_MAX:
            self.close_connection = True  # what was not read would be taken for the next request
            raise Refused(413 if length.isdigit() else 411, f"Give Content-Length, {BODY_MAX:,} bytes at most.")
        return self.rfile.read(int(length))

    def _refuse(self, refused: Refused) -> None:
        self._send(refused.status, {"error": {"message": str(refused), "code": refused.status}})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No line for each request: the log is for what goes wrong."""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One thread for each client; the model has its own (:class:`Batcher`).

    Arguments:
        name: what the model is called.
        check: raises :class:`Refused` for what the model cannot answer.

    Raises:
        FolderOfOthers: others may enter the socket's folder, or put another one in its place.
    """

    daemon_threads = True
    request_queue_size = WAITING_MAX

    def __init__(self, path: Path, name: str, batcher: Batcher, check: Callable[[Request], None]) -> None:
        lesson_folders.private(path.parent, make=False)
        self.name, self.batcher, self.check = name, batcher, check
        self.numbers, self.numbers_lock = 0, threading.Lock()
        super().__init__(str(path), Handler)

    def next_number(self) -> int:
        """A number for an answer."""
        with self.numbers_lock:
            self.numbers += 1
            return self.numbers

    def get_request(self) -> tuple[socket.socket, Any]:
        """A connection; HTTP's module wants an address with two parts, which a UNIX socket has not."""
        connection, _ = super().get_request()
        return connection, ("local", 0)


class Connection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: Path, timeout_s: float = 120) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self.path = path

    def connect(self) -> None:
        """Connect to the socket instead of a port."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def ask(path: Path, prompt: str, max_tokens: int) -> dict[str, Any]:
    """Ask a server for a completion.

    Raises:
        Refused: it did not answer with one; the words are the server's.
    """
    connection = Connection(path)
    try:
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    if response.status != 200:
        raise Refused(response.status, content["error"]["message"])
    return content


def serve(server: Server) -> None:
    """Answer until standard input ends; says ``ready`` when it begins."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    server.shutdown()
    server.batcher.end()
    server.server_close()
    Path(str(server.server_address)).unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Load a model and serve it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--model", type=Path, required=True, help="a folder in Hugging Face's format")
    parser.add_argument("--socket", type=Path, required=True, help="in a folder of yours that nobody else may enter")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "float16"], default="float32")
    parser.add_argument("--batch", type=int, default=8, help="requests that are computed together, at most")
    options = parser.parse_args(argv)
    os.environ["HF_HUB_OFFLINE"] = "1"
    import greedy

    model = greedy.Model(options.model, options.precision)

    def check(request: Request) -> None:
        if reason := model.too_long(request.prompt, request.max_tokens):
            raise Refused(400, reason)

    def generate(requests: Sequence[Request]) -> list[Answer]:
        found = model.complete([one.prompt for one in requests], [one.max_tokens for one in requests])
        return [Answer(*one) for one in found]

    try:
        server = Server(options.socket, options.model.name, Batcher(generate, options.batch), check)
    except (OSError, lesson_folders.FolderOfOthers) as error:
        print(f"serve_model: {error}", file=sys.stderr)
        return 1
    serve(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
