"""Somebody with a browser inside the machine: a program of its own, told what to do line by line.

It runs on the Python that the portal was installed with, and imports nothing of the portal. A line is a JSON list,
the name of a step and its arguments; the answer is what the step found, or ``{"error": …}``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any
from uuid import uuid4

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
STEP_S = 0.3


class Visitor:
    """One person's browser, with a kernel's web socket that stays open."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.hub = f"{url}/hub"
        self.http = httpx.Client(follow_redirects=True, timeout=30, trust_env=False, verify=CA_FILE)
        self.session = ""  # the address of the person's session
        self.socket: WebSocketClientConnection | None = None

    def _xsrf(self, part: str) -> str:
        found = [one for one in self.http.cookies.jar if one.name == "_xsrf" and part in f"{one.domain}{one.path}"]
        return (found[-1].value or "") if found else ""

    async def login(self, password: str) -> int:
        """Send the login form; the status of the page that follows."""
        self.http.get(f"{self.hub}/login")
        form = {"username": self.name, "password": password}
        return self.http.post(f"{self.hub}/login", params={"_xsrf": self._xsrf("/hub")}, data=form).status_code

    async def start(self, within_s: float) -> str:
        """Start a session with what the form offers first; where it is, once its own page has come."""
        self.http.get(f"{self.hub}/spawn")
        answer = self.http.post(f"{self.hub}/spawn", params={"_xsrf": self._xsrf("/hub")}, data={"hours": "1"})
        assert answer.status_code == 200, re.findall(r'"dsp-(?:words|log)"[^>]*>([^<]*)', answer.text)
        deadline = time.monotonic() + within_s
        while not await self.reaches():
            assert time.monotonic() < deadline, f"no session within {within_s} s: {self._model()}"
            await asyncio.sleep(STEP_S)
        return self.session

    def _model(self) -> str:
        headers = {"X-XSRFToken": self._xsrf("/hub")}
        return self.http.get(f"{self.hub}/api/users/{self.name}", headers=headers).text

    async def reaches(self) -> bool:
        """Whether the session answers this person."""
        page = self.http.get(f"{self.hub.removesuffix('/hub')}/user/{self.name}/lab")
        self.session = str(page.url).split("/lab")[0]
        if not self.session.endswith(f"/user/{self.name}"):  # still the page that waits
            return False
        return "content" in self.http.get(f"{self.session}/api/contents").text

    async def open_kernel(self, kernel: str) -> str:
        """Start a kernel and open its web socket; the kernel's id."""
        part = f"/user/{self.name}"
        made = self.http.post(
            f"{self.session}/api/kernels", json={"name": kernel}, headers={"X-XSRFToken": self._xsrf(part)}, timeout=60
        )
        assert made.status_code == 201, made.text[:500]
        return await self.connect(str(made.json()["id"]))

    async def connect(self, identifier: str) -> str:
        """Open a web socket to a kernel that runs, as JupyterLab does again when one was cut; the kernel's id."""
        url = f"{self.session}/api/kernels/{identifier}/channels?session_id={uuid4().hex}"
        asked = self.http.build_request("GET", url)
        headers = {"Cookie": asked.headers["Cookie"], "Origin": url.split("/user/")[0]}
        self.socket = await websocket_connect(
            HTTPRequest(url.replace("http", "ws", 1), headers=headers, ca_certs=CA_FILE)
        )
        return identifier

    async def run(self, code: str) -> str:
        """Run code in that kernel, over that web socket; what it printed."""
        assert self.socket is not None
        header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "username": "", "session": "", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": []}
        await self.socket.write_message(json.dumps({**message, "content": {"code": code, "silent": False}}))
        printed = ""
        while True:
            text = await asyncio.wait_for(self.socket.read_message(), 60)
            assert text is not None, "the web socket was closed"
            answer = json.loads(text)
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            content = answer["content"]
            if answer["msg_type"] in ("stream", "error"):
                printed += content.get("text") or f"{content['ename']}: {content['evalue']}"
            if answer["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed


def main(arguments: list[str]) -> None:
    """``visitor.py URL NAME``."""
    visitor = Visitor(*arguments)
    loop = asyncio.new_event_loop()
    for line in sys.stdin:
        step, *given = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"found": loop.run_until_complete(getattr(visitor, step)(*given))}
        except Exception as error:  # the one who asked is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
