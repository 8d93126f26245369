"""Web tools of the settings and of a session: what is refused, what is started, and what is said when it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.errors import RequestError, SiteError
from portal.session_settings import SETTINGS, OfferedTool, SessionSettings
from portal.site import parse
from portal.webtools.routes import SOCKET_PATH_MAX, socket_folder
from portal.webtools.tools import ToolPlace, Tools, WebTool

GOOD = {"name": "page", "title": "Page", "command": ["serve", "--uds", "{socket}"]}
SERVES = """
import http.server, os, socketserver, sys
class Page(http.server.BaseHTTPRequestHandler):
    def address_string(self): return "socket"
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
print("serving", os.environ.get("OF_THE_TOOL"), "JUPYTERHUB_API_TOKEN" in os.environ, flush=True)
socketserver.UnixStreamServer(sys.argv[1], Page).serve_forever()
"""


def tool(tmp_path: Path, *command: str) -> WebTool:
    """A tool of a session without modules."""
    offered = OfferedTool("page", "Page", command, environment={"OF_THE_TOOL": "set"})
    place = ToolPlace(tmp_path / "run", "/user/alice/", tmp_path)
    return Tools(SessionSettings(tools=(offered,)), place).tool("page")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  nobody sets an event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"command": ["serve", "--port", "5000"]}, "a port of a node is open to everybody on it"),
        ({"command": ["serve", "{socket}", "{port}"]}, "{port} is not possible"),
        ({"command": ["serve", "{socket}", "{user}"]}, "{user} is not known; known: {socket}, {base}, {home}"),
        ({"command": []}, "it names no program"),
        ({"command": ["{socket}"]}, "it names no program"),
        ({"command": "serve {socket}"}, "a list in [ ]"),
        ({"command": ["serve", "{socket}", "a\nb"]}, "a control character"),
        ({"modules": ["--help"]}, "is no name"),
        ({"modules": ["shared/*"]}, "is no name"),
        ({"modules": ["a b"]}, "is no name"),
        ({"name": "../x"}, "a name of letters"),
        ({"title": " "}, "it is empty"),
        ({"ready": "//elsewhere\r\nX: 1"}, "a path below"),
        ({"icon": "logo.svg"}, "an absolute path"),
        ({"environment": {"JUPYTERHUB_API_TOKEN": "x"}}, "names of variables"),
        ({"comand": ["x"]}, "did you mean 'command'?"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_with_what_is_allowed(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(SiteError) as refused:
        parse({"tool": [GOOD | wrong]})
    assert words in str(refused.value)


def test_a_name_stands_once() -> None:
    with pytest.raises(SiteError, match="the name 'page' stands 2 times"):
        parse({"tool": [GOOD, GOOD]})


def test_a_tool_for_a_group_is_told_to_its_sessions_alone() -> None:
    site = parse({"tool": [GOOD, GOOD | {"name": "other", "groups": ["staff"]}], "kernels": {"module_path": ["/cm"]}})

    assert "staff" in site.groups_mentioned
    assert [one.name for one in SessionSettings.of(site, "", {"users"}).tools] == ["page"]
    told = SessionSettings.of(site, "", {"staff"})
    assert [one.name for one in told.tools] == ["page", "other"]
    assert SessionSettings.from_environment({SETTINGS: told.to_text()}) == told


def test_what_fills_a_placeholder_stays_one_word_and_is_not_filled_again() -> None:
    values = {"socket": "/a b; rm -rf $HOME/{home}.sock", "home": "/h"}

    assert OfferedTool("x", "X", ("x", "--uds={socket}", "{}")).words(values) == [
        "x",
        "--uds=/a b; rm -rf $HOME/{home}.sock",
        "{}",
    ]


async def test_it_starts_answers_logs_and_ends_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    page = tool(tmp_path, sys.executable, "-c", SERVES, "{socket}")
    assert page.state == "stopped"

    await page.start()
    await until(lambda: page.state != "starting")

    assert page.as_json()["state"] == "ready", page.last_words()
    assert "serving set False" in page.log().text
    assert page.socket.parent.stat().st_mode & 0o777 == 0o700
    assert page.socket.stat().st_mode & 0o077 == 0
    await page.stop()
    assert (page.state, page.socket.exists()) == ("stopped", False)


async def test_one_that_ends_says_why_and_starts_again_only_when_asked(tmp_path: Path) -> None:
    page = tool(tmp_path, sys.executable, "-c", "raise SystemExit('no licence')", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert page.as_json()["state"] == "failed"
    assert page.why == "It ended before it was ready (exit status 1)."
    assert page.last_words() == "no licence"
    await page.start()
    assert page.as_json()["state"] == "starting"
    await page.stop()
    assert page.as_json() == {"name": "page", "title": "Page", "state": "stopped", "why": "", "started_at": None}


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    page = tool(tmp_path, "no-such-tool", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert "portal: page cannot start: The program 'no-such-tool' is not found" in page.last_words()


async def test_the_last_words_of_a_long_log_are_those_at_its_end(tmp_path: Path) -> None:
    page = tool(tmp_path, sys.executable, "-c", "print('x' * 200_000); print('last')", "{socket}")

    await page.start()
    await until(lambda: page.state != "starting")

    assert len(page.log().text) == 64 * 1024
    assert page.last_words().endswith("last")


def test_an_unknown_tool_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    place = ToolPlace(tmp_path, "/", tmp_path)

    with pytest.raises(RequestError, match="one of page"):
        Tools(SessionSettings(tools=(OfferedTool("page", "Page", ("x",)),)), place).tool("../page")


def test_a_socket_whose_path_would_be_too_long_is_elsewhere(tmp_path: Path) -> None:
    assert socket_folder(tmp_path, ["page"]) == tmp_path / "tools"
    short = socket_folder(tmp_path / ("x" * SOCKET_PATH_MAX), ["page"])
    assert short.stat().st_mode & 0o777 == 0o700
    short.rmdir()
