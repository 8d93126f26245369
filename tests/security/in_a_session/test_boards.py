"""A log folder that somebody else wrote, and links to it: what a TensorBoard of one's own does with them."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Route, expect

from tests.inside import home, sh
from tests.security.conftest import ALICES_PORTAL

SHARED = Path("/mnt/isilon/bobs")
SHAPE = b"\x10\x0b\x1a\x01\x04\x2a\x03\x0a\x01\x00"


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number of a protocol buffer."""
    more, low = number >> 7, number & 0x7F
    return bytes([low | 0x80]) + varint(more) if more else bytes([low])


def module(text: str) -> bytes:
    """A compiled program (HloProto) of one step, which is called like the text."""
    meta = field(1, "op") + field(2, text)
    taken = field(1, "p") + field(2, "parameter") + field(3, SHAPE) + field(7, meta) + field(35, 1)
    made = field(1, "n") + field(2, "negate") + field(3, SHAPE) + field(7, meta) + field(35, 2) + field(36, b"\x01")
    kind = field(1, SHAPE) + field(2, SHAPE) + field(3, "p")
    computation = field(1, "main") + field(2, taken) + field(2, made) + field(4, kind) + field(5, 1) + field(6, 2)
    named = field(1, "mod") + field(2, "main") + field(3, computation) + field(4, kind) + field(5, 1) + field(6, 1)
    return field(1, named)


def put(folder: Path, text: str, owner: str = "bob") -> None:
    """Somebody leaves a profile in a folder."""
    sh("rm", "-rf", str(folder))
    sh("mkdir", "-p", str(folder), user=owner)
    for name, content in (("host.xplane.pb", b""), ("mod.hlo_proto.pb", module(text))):
        (folder / name).write_bytes(content)
        sh("chown", owner, str(folder / name))


QUERY = {
    "tag": "graph_viewer",
    "host": "host",
    "type": "graph",
    "format": "html",
    "node_name": "n",
    "module_name": "mod",
    "show_metadata": "true",
}
SCRIPT = """const sent = {'X-XSRFToken': /_xsrf=([^;]+)/.exec(document.cookie)[1]};
fetch('/user/alice/api/contents', {headers: sent}).then(a => a.text()).then(t => document.title = 'taken: ' + t);"""
HOSTILE = "${eval(unescape('" + "".join(f"%{ord(one):02x}" for one in SCRIPT) + "'))}"


def asked(session: str, folder: Path, **query: str) -> str:
    """The address at which the board of a folder shows the graph of a profile."""
    board = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return f"{session}/tensorboard/{board}/data/plugin/profile/data?{urlencode({**QUERY, **query})}"


def opened(alice: Page, session: str, folder: Path) -> Page:
    """A tab in which she has opened the board of a folder."""
    tab = alice.context.new_page()
    tab.goto(f"{session}/tensorboard/open?{urlencode({'path': str(folder)})}")
    tab.get_by_role("link", name="Open it").click()
    expect(tab).to_have_title(re.compile("TensorBoard"))
    return tab


@pytest.mark.parametrize("way", ["in its folder", "by a name that leads out", "by a whole path"])
def test_a_profile_that_somebody_else_wrote_runs_nothing_and_is_written_to_nowhere(
    alice: tuple[Page, str], way: str
) -> None:
    page, session = alice
    logs = SHARED / "logs"
    folder = logs if way == "in its folder" else home("alice") / "templates"
    profile = logs / "plugins" / "profile" / "run1"
    put(profile, HOSTILE)
    hers = home("alice") / "notes.txt"
    sh("sh", "-c", "echo '# hers' > ~/notes.txt", user="alice")
    sh("ln", "-s", str(hers), str(profile / "cache_version.txt"), user="bob")
    query = {
        "in its folder": {"run": "run1"},
        "by a name that leads out": {"run": os.path.relpath(logs.resolve(), folder) + "/run1"},
        "by a whole path": {"run": "run1", "session_path": str(profile)},
    }[way]

    tab = opened(page, session, folder)
    tab.goto(asked(session, folder, **query))
    tab.wait_for_timeout(1000)

    assert (tab.title().startswith("taken"), hers.read_text()) == (False, "# hers\n")


def test_a_profile_of_ones_own_is_shown(alice: tuple[Page, str]) -> None:
    page, session = alice
    logs = home("alice") / "logs"
    put(logs / "plugins" / "profile" / "run1", "a step", owner="alice")

    tab = opened(page, session, logs)
    answer = tab.goto(asked(session, logs, run="run1"))

    assert answer is not None
    assert (answer.status, "a step" in answer.text()) == (200, True)


def test_a_link_on_somebody_elses_page_opens_no_board(alice: tuple[Page, str]) -> None:
    page, session = alice
    sh("mkdir", "-p", str(SHARED / "logs"), user="bob")
    tab = page.context.new_page()
    tab.goto(f"{ALICES_PORTAL}/hub/home")

    tab.evaluate("address => { location.href = address }", f"{session}/tensorboard/open?path={SHARED}/logs")

    expect(tab.get_by_role("heading", name="A link or an address has led you here")).to_be_visible()
    tab.get_by_role("link", name="Open it").click()
    expect(tab).to_have_title(re.compile("TensorBoard"))


def test_a_way_back_that_leads_elsewhere_by_now_opens_no_board(alice: tuple[Page, str]) -> None:
    """Of it browsers say what they say of an address that a person types, if such a one led there before."""
    page, session = alice
    tab = page.context.new_page()
    elsewhere = "http://back.localhost:8000/x"
    leads: list[str] = []

    def answer(route: Route) -> None:
        if leads and route.request.url == elsewhere:
            route.fulfill(status=302, headers={"Location": leads[0]})
        else:
            route.fulfill(body="a page", headers={"Cache-Control": "no-store"})

    tab.route("http://back.localhost:8000/**", answer)
    tab.goto(elsewhere)
    tab.goto(f"{elsewhere}/y")
    leads.append(f"{session}/tensorboard/open?path={SHARED}/logs")
    tab.evaluate("setTimeout(() => history.back())")  # which ends the page that is asked
    expect(tab.get_by_role("heading", name="A link or an address has led you here")).to_be_visible()

    tab.get_by_role("link", name="Open it").click()
    expect(tab).to_have_title(re.compile("TensorBoard"))


def test_a_picture_in_a_page_opens_no_board(alice: tuple[Page, str]) -> None:
    page, session = alice
    address = f"{session}/tensorboard/open?path={SHARED}/logs"

    with page.expect_response(lambda response: "tensorboard/open" in response.url) as answer:
        page.evaluate("address => { new Image().src = address }", address)

    assert answer.value.status == 403


def test_no_profile_is_captured_from_a_port(alice: tuple[Page, str]) -> None:
    page, session = alice
    logs = home("alice") / "captured"
    sh("mkdir", "-p", str(logs), user="alice")
    tab = opened(page, session, logs)
    board = hashlib.sha256(str(logs.resolve()).encode()).hexdigest()[:16]

    answer = tab.goto(
        f"{session}/tensorboard/{board}/data/plugin/profile/capture_profile?service_addr=127.0.0.1:1&duration=1"
    )

    assert answer is not None
    words = answer.text()
    assert (answer.status, "anybody may listen" in words, list(logs.iterdir())) == (403, True, []), words
