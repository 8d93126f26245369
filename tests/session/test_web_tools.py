"""Web tools in a running session: a real one out of a real module, its pages and web sockets, its log and its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import websocket
from playwright.sync_api import Browser, Page, expect

from tests.forms import of_long_form
from tests.session.conftest import window
from tests.session.session_server import HUB_SECRET, TOKEN, Server, wait_for, write_module

JUPYTER = (
    *("jupyter-lab", "--ServerApp.sock={socket}", "--ServerApp.base_url={base}/", "--no-browser", "--allow-root"),
    *("--IdentityProvider.token=", "--ServerApp.allow_origin=*", "--ServerApp.disable_check_xsrf=True"),
    "--ServerApp.root_dir={home}",
)


SAYS_NOTHING = """
import http.server, socketserver, sys
class Page(http.server.BaseHTTPRequestHandler):
    def address_string(self): return "socket"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path[1:]: self.send_header("Referrer-Policy", self.path[1:].partition("?")[0])
        self.end_headers()
        self.wfile.write(b'<title>Quiet</title><a href="?on">Go on</a>')
socketserver.UnixStreamServer(sys.argv[1], Page).serve_forever()
"""


@pytest.fixture(scope="module")
def tools_server(start_server: Callable[..., Server], module_tree: Path, module_system: object) -> Server:
    """A session with a second JupyterLab out of a module as its tool, and with tools that fail."""
    write_module(module_tree / "shared/lab/1.0", f"prepend-path PATH {Path(sys.executable).parent}")
    tools = [
        {"name": "lab", "title": "Second Lab", "command": JUPYTER, "modules": ["shared/lab"], "whole_path": True}
        | {"ready": "/api", "hands_out": ["/static/"]},
        {"name": "dies", "title": "Dies", "command": ["sh", "-c", "echo no licence; exit 3", "{socket}"]},
        {"name": "quiet", "title": "Quiet", "command": [sys.executable, "-c", SAYS_NOTHING, "{socket}"]},
        {"name": "gone", "title": "Gone", "command": ["x", "{socket}"], "modules": ["shared/no-such"]},
    ]
    system = {"module_command": module_system.command, "module_path": module_system.path}  # type: ignore[attr-defined]
    return start_server(DSPORTAL_SESSION=json.dumps({"title": "Test Portal", "tools": tools} | system))


def state(server: Server, name: str) -> str:
    """What a tool does."""
    return str({one["name"]: one["state"] for one in server.json("dsportal/api/tools")["tools"]}[name])


@pytest.fixture(scope="module")
def lab(tools_server: Server) -> Iterator[Server]:
    """The session whose tool runs."""
    status, location = tools_server.ask("tools/lab/dsportal-open")
    assert (status, location.rstrip("#")) == (302, "/session/tools/lab/")
    status, text = tools_server.ask("tools/lab/lab")
    assert (status, "Second Lab is starting" in text) == (200, True)
    wait_for("tool", lambda: state(tools_server, "lab") != "starting")
    assert state(tools_server, "lab") == "ready", tools_server.ask("dsportal/api/tools/lab/log")[1]
    yield tools_server


def test_its_page_and_its_web_sockets_come_through(lab: Server) -> None:
    assert "version" in lab.json("tools/lab/api")
    terminal = lab.json("tools/lab/api/terminals", "POST", {})["name"]
    address = lab.url.replace("http", "ws", 1) + f"tools/lab/terminals/websocket/{terminal}"
    opened = websocket.create_connection(
        address, timeout=30, header=[f"Authorization: token {TOKEN}"], http_no_proxy=["127.0.0.1", "localhost"]
    )
    try:
        assert json.loads(opened.recv())[0] == "setup"
    finally:
        opened.close()


def test_what_it_hands_out_has_no_rights_of_the_session_s_pages(lab: Server) -> None:
    policies = []
    for path in ("static/favicons/favicon.ico", "%73tatic/favicons/favicon.ico", "api"):
        request = Request(f"{lab.url}tools/lab/{path}", headers={"Authorization": f"token {TOKEN}"})  # noqa: S310  ours
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            policies.append(answer.headers.get_all("Content-Security-Policy", []))
    assert [found[1:] for found in policies] == [["sandbox"], ["sandbox"], []]
    assert all(found[0].startswith("frame-ancestors") for found in policies), "the tool's own holds as well"


def test_nobody_else_reaches_it(lab: Server) -> None:
    status, text = lab.ask("tools/lab/api", token="")
    assert status in (302, 403), text
    folder = lab.runtime / "tools"
    assert folder.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            try:
                socket.socket(socket.AF_UNIX).connect(str(folder / "lab.sock"))
            except PermissionError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_knows_no_secret_of_the_session(lab: Server) -> None:
    assert [process for process in processes(lab) if HUB_SECRET.encode() in (process / "environ").read_bytes()] == []


def processes(server: Server) -> list[Path]:
    """The processes that have the tool's socket in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{server.runtime}/tools/lab.sock".encode() in (process / "cmdline").read_bytes():
                found.append(process)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("name", "words"), [("dies", "no licence"), ("gone", "shared/no-such")])
def test_one_that_fails_says_why(tools_server: Server, name: str, words: str) -> None:
    assert tools_server.ask(f"dsportal/api/tools/{name}", "POST", {})[0] == 202
    wait_for("its end", lambda: state(tools_server, name) == "failed")
    status, text = tools_server.ask(f"tools/{name}/")
    assert (status, words in text) == (500, True), text
    assert words in tools_server.json(f"dsportal/api/tools/{name}/log?from=0")["text"]


def test_an_unknown_tool_is_not_there(tools_server: Server) -> None:
    assert tools_server.ask("dsportal/api/tools/other", "POST", {})[0] == 404
    assert tools_server.ask("tools/other/")[0] == 404
    assert tools_server.ask("dsportal/api/tools/lab/log?from=x")[0] == 400


@pytest.mark.parametrize("path", ["tools/lab/dsportal-open", "tools/lab/lab", "tools/lab/lab?folder=/theirs"])
def test_a_page_of_elsewhere_that_leads_there_is_told_by_the_tools_name(tools_server: Server, path: str) -> None:
    status, text = tools_server.ask(path, Sec_Fetch_Site="cross-site")
    assert (status, "led you here, to Second Lab of your session." in text) == (403, True), text
    assert "TensorBoard" not in text
    assert 'href="/session/tools/lab/dsportal-open">Open it</a>' in text  # whatever that page wanted of it


def test_a_link_in_somebodys_notebook_leads_to_a_tool_and_not_on_into_it(lab: Server) -> None:
    """What the tool's own pages ask for, and where the tool itself leads, goes on."""
    tab = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document"}
    notebook = tab | {"Referer": "http://127.0.0.1/session/lab/tree/shared/theirs.ipynb"}
    inside = tab | {"Referer": "http://127.0.0.1/session/tools/lab/lab"}

    for path in ("tools/lab/tree?folder=/theirs", "tools/lab/?folder=/theirs", "tools/lab/api"):
        status, text = lab.ask(path, **notebook)
        assert (status, 'href="/session/tools/lab/dsportal-open">Open it</a>' in text) == (403, True), path
    assert lab.ask("tools/lab/api", **inside)[0] == 200
    assert lab.ask("tools/lab/api", **tab)[0] == 200
    assert lab.ask("tools/lab/api", Sec_Fetch_Site="same-origin", Referer=notebook["Referer"])[0] == 200
    lab.ask("tools/lab/", **tab)  # whoever had it started has come
    first = led(lab, "tools/lab/", **notebook)
    assert first[:2] == ["/session/tools/lab/dsportal-open#", "/session/tools/lab/#"]
    assert first[2:] == ["/session/tools/lab/lab?#", 200]


@pytest.mark.parametrize("host", ["http://127.0.0.1/", "http://127.0.0.1"])
def test_a_page_that_names_its_host_alone_leads_no_further_than_others(lab: Server, host: str) -> None:
    """Browsers cut a Referer of more than 4096 letters, and a notebook's address may have as many."""
    tab = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document", "Referer": host}

    assert lab.ask("tools/lab/api", **tab)[0] == 403
    assert led(lab, "tools/lab/", **tab)[-1] == 200


def led(server: Server, path: str, **headers: str) -> list[str | int]:
    """Where a tab is led to from an address, and the status of the last one."""
    found: list[str | int] = []
    for _ in range(10):
        status, text = server.ask(path, **headers)
        if status not in (301, 302, 307, 308):
            return [*found, status]
        found.append(text)
        path = text.removeprefix("/session/")
    raise AssertionError(f"led without an end: {found}")


def test_a_place_that_a_tool_leads_to_is_good_for_one_tab(lab: Server) -> None:
    """A link there may have a fragment, which no server sees: it leads to the tool's first page instead."""
    tab = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document"}
    notebook = tab | {"Referer": "http://127.0.0.1/session/lab/tree/shared/theirs.ipynb"}
    assert led(lab, "tools/lab/dsportal-open", **notebook)[-1] == 200

    again = led(lab, "tools/lab/lab?", **notebook)

    assert again[0] == "/session/tools/lab/dsportal-open#"
    assert again[-2:] == ["/session/tools/lab/lab?#", 200]
    assert lab.ask("tools/lab/lab?", **notebook, Cache_Control="max-age=0")[0] == 200


def test_a_tools_own_page_keeps_its_fragment_on_the_way(lab: Server) -> None:
    own = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document"}
    own |= {"Referer": "http://127.0.0.1/session/tools/lab/lab"}

    assert led(lab, "tools/lab/", **own)[0] == "/session/tools/lab/lab?"


@pytest.mark.parametrize("place", ["dsportal-open", "", "lab?"])
def test_the_fragment_of_a_link_reaches_no_page_of_a_tool(browser: Browser, lab: Server, place: str) -> None:
    """Some read an address to connect to from it, as noVNC does; browsers carry it along where an answer has none."""
    seen: list[str] = []
    with window(browser, lab) as page:
        page.goto(f"{lab.url}tools/gone/")
        page.on("framenavigated", lambda frame: seen.append(frame.url))
        page.evaluate("to => { location.href = to }", f"/session/tools/lab/{place}#theirs")
        expect(page.locator("#jp-top-panel")).to_be_visible()
    assert seen[0].startswith(f"{lab.url}tools/lab/lab")
    assert [url for url in seen if "theirs" in url] == []


@pytest.mark.parametrize("policy", ["origin", "strict-origin", "no-referrer"])
def test_a_tool_that_has_its_pages_say_little_leads_on_all_the_same(
    browser: Browser, tools_server: Server, policy: str
) -> None:
    """It names them to its own session alone; other places learn what the tool lets them."""
    assert tools_server.ask("dsportal/api/tools/quiet", "POST", {})[0] == 202
    wait_for("tool", lambda: state(tools_server, "quiet") == "ready")
    with window(browser, tools_server) as page:
        page.goto(f"{tools_server.url}tools/quiet/{policy}")
        with page.expect_navigation() as went:
            page.get_by_role("link", name="Go on").click()
        answer = went.value
        assert answer is not None
        assert (answer.status, page.title()) == (200, "Quiet")
        named = answer.request.all_headers()["referer"]
        assert named == f"{tools_server.url}tools/quiet/{policy}"


@pytest.mark.parametrize("again", ["max-age=0", "no-cache"])
def test_a_tab_of_a_tool_is_loaded_again_where_it_is_and_not_where_a_link_would_have_led(
    lab: Server, again: str
) -> None:
    """Browsers send the Referer of the tab's first address, which JupyterLab's page has led to."""
    tab = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document", "Referer": "http://127.0.0.1/session/lab"}
    theirs = f"tools/lab/lab?folder=/theirs/{again}"

    assert lab.ask(theirs, **tab)[0] == 403
    assert lab.ask(theirs, **tab, Cache_Control=again)[0] == 403
    assert lab.ask(f"tools/lab/lab?own={again}", **tab, Cache_Control=again)[0] == 200


def test_a_picture_in_somebodys_notebook_leads_no_tab_into_a_tool(lab: Server) -> None:
    page = {"Sec_Fetch_Site": "same-origin", "Referer": "http://127.0.0.1/session/lab/tree/shared/theirs.ipynb"}

    status, location = lab.ask("tools/lab/lab/tree/theirs/?reset", **page, Sec_Fetch_Dest="image")
    assert (status, location) == (301, "/session/tools/lab/lab/tree/theirs?reset#")

    assert lab.ask(location.removeprefix("/session/"), **page, Sec_Fetch_Dest="document")[0] == 403


def test_a_tile_opens_it(browser: Browser, lab: Server, picture: Callable[[Page, str], None]) -> None:
    with window(browser, lab) as page:
        page.goto(f"{lab.url}lab")
        tile = page.locator(".jp-LauncherCard", has_text="Second Lab")
        expect(tile).to_be_visible()
        picture(page, "launcher")
        with page.context.expect_page() as opened:
            tile.click()
        expect(opened.value).to_have_url(re.compile(re.escape(f"{lab.url}tools/lab/lab")))


@pytest.mark.parametrize("place", ["lab", of_long_form("tree")])
def test_the_view_menu_leads_to_logs_and_ends(
    browser: Browser, lab: Server, picture: Callable[[Page, str], None], place: str
) -> None:
    with window(browser, lab) as page:
        page.goto(f"{lab.url}{place}")
        page.locator("#jp-top-panel, #menu-panel").get_by_text("View", exact=True).click()
        page.locator(".lm-Menu-item", has_text="Web Tools").click()
        panel = page.locator("#dsportal-tools")
        expect(panel.get_by_role("button", name="Stop… Second Lab")).to_be_visible()
        panel.get_by_role("button", name="Log of Second Lab").click()
        expect(page.locator(".dsportal-Log")).to_contain_text("Jupyter")
        picture(page, "log")


def test_stop_ends_all_that_it_has_started(lab: Server) -> None:
    assert lab.ask("dsportal/api/tools/lab", "DELETE")[0] == 204
    wait_for("end of its processes", lambda: not processes(lab))
    status, text = lab.ask("tools/lab/")
    assert (status, "does not run" in text) == (404, True)


def test_a_page_that_waits_for_a_tool_comes_to_it_whatever_fragment_its_address_has(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    """A browser takes an address with a fragment that leads to itself for a place on the page that it shows."""
    script = "import pathlib, subprocess, sys, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    command = [sys.executable, "-c", script + "subprocess.run(sys.argv[1:])", *JUPYTER]
    tool = {"name": "late", "title": "Late", "command": command, "whole_path": True, "ready": "/api"}
    server = start_server(DSPORTAL_SESSION=json.dumps({"tools": [tool]}))
    assert server.ask("dsportal/api/tools/late", "POST", {})[0] == 202
    with window(browser, server) as page:
        page.goto(f"{server.url}tools/late/lab?#place")
        expect(page.get_by_role("heading", name="Late is starting")).to_be_visible()
        (server.home / "go").touch()
        expect(page.locator("#jp-top-panel")).to_be_visible()
        assert page.evaluate("location.hash") == ""


@pytest.mark.parametrize("end", [of_long_form("terminate"), "kill"])
def test_it_ends_with_the_session(start_server: Callable[..., Server], end: str) -> None:
    command = [shutil.which("sh"), "-c", "sleep 600", "{socket}"]
    tools = {"tools": [{"name": "lab", "title": "Sleeps", "command": command}]}
    server = start_server(DSPORTAL_SESSION=json.dumps(tools))
    assert server.ask("dsportal/api/tools/lab", "POST", {})[0] == 202
    wait_for("process", lambda: len(processes(server)) >= 2)
    getattr(server.process, end)()
    server.process.wait()
    wait_for("end of the tool", lambda: not processes(server))
