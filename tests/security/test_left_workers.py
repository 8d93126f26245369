"""What a session's page has left in a browser at the hub's address, before each person had an address of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.hub.conftest import Hub
from tests.inside import eventually

PORT = 18500
PORTAL = f"localhost:{PORT}"
EVIL = "/user/bob/evil"
WORKER = b"""
self.addEventListener("fetch", (event) => event.respondWith(new Response("the worker saw it")));
"""
LEAVES_ONE = "navigator.serviceWorker.register('/user/bob/worker.js').then(() => navigator.serviceWorker.ready)"
LEFT = "navigator.serviceWorker.getRegistrations().then((found) => found.length)"


class Before(BaseHTTPRequestHandler):
    """All that was at that address."""

    def do_GET(self) -> None:
        """A page, or a service worker."""
        is_script = self.path.endswith(".js")
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_script else "text/html")
        self.end_headers()
        self.wfile.write(WORKER if is_script else b"a page")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def before() -> Iterator[None]:
    """The address as it was."""
    with ThreadingHTTPServer(("127.0.0.1", PORT), Before) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def test_a_worker_that_was_left_at_the_hubs_address_goes_with_the_first_page_of_the_hub(chromium: Browser) -> None:
    context = chromium.new_context(base_url=f"http://{PORTAL}")
    page = context.new_page()
    with before():
        page.goto("/user/bob/")
        page.evaluate(LEAVES_ONE)
    hub = Hub(Path("/cluster/test-security-left-workers"), PORT, domain=PORTAL)
    hub.prepare()
    hub.start()
    try:
        page.goto(EVIL)
        expect(page.locator("body")).to_have_text("the worker saw it")

        page.goto("/hub/login")

        eventually(lambda: page.evaluate(LEFT) == 0, "no worker is left")
        page.goto(EVIL)
        expect(page.locator("body")).not_to_contain_text("the worker saw it")
    finally:
        hub.stop()
        context.close()
