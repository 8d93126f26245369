"""A layout that JupyterLab never got ready with, as with a file that is drawn for minutes, is left out."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, Response, expect

from tests.session.session_server import Server
from tests.session.test_lab import item, open_lab

FILE = "slow.txt"
BEGUN = "dsportal-lab:begun:"
HAS_BEGUN = f"() => Object.keys(localStorage).some(key => key.startsWith({BEGUN!r}))"
STANDS_STILL = """([key, age]) => {
    localStorage.setItem(key, Date.now() - age);
    navigator.locks.request(key, () => new Promise(() => undefined));
}"""

KEEPS_NO_MORE = f"""{{
    const keep = Storage.prototype.setItem;
    Storage.prototype.setItem = function (key, value) {{
        if (key.startsWith({BEGUN!r})) throw new DOMException('full', 'QuotaExceededError');
        keep.call(this, key, value);
    }};
}}"""


def is_layout_with_file(answer: Response) -> bool:
    request = answer.request
    saved = json.loads(request.post_data or "{}") if request.method == "PUT" else {}
    return "/api/workspaces/" in answer.url and FILE in json.dumps(
        saved.get("data", {}).get("layout-restorer:data", {})
    )


@pytest.fixture
def opened(page: Page, server: Server) -> Page:
    """A page that has left JupyterLab, with a file in its layout."""
    (server.home / FILE).write_text("")
    open_lab(page, server)
    with page.expect_response(is_layout_with_file):
        item(page, FILE).dblclick()
    page.goto("about:blank")
    return page


def begin(page: Page, server: Server) -> None:
    page.goto(f"{server.url}lab", wait_until="commit")
    page.wait_for_function(HAS_BEGUN)


def expect_layout(page: Page, server: Server, *, is_there: bool) -> None:
    page.goto(f"{server.url}lab")
    expect(page.locator(".jp-DirListing-content")).to_be_visible()
    if is_there:
        expect(page.get_by_role("tab", name=FILE)).to_be_visible()
    else:
        expect(page.get_by_text("JupyterLab stood still the last time")).to_be_visible()
        expect(page.locator(".jp-Launcher")).to_be_visible()
    expect(page.get_by_role("tab", name=FILE)).to_have_count(int(is_there))
    expect(page.get_by_text("JupyterLab stood still the last time")).to_have_count(int(not is_there))


def test_a_layout_whose_page_was_killed_before_it_was_ready_is_left_out_once(opened: Page, server: Server) -> None:
    killed = opened.context.new_page()
    begin(killed, server)
    with suppress(Error):
        killed.goto("chrome://crash")

    expect_layout(opened, server, is_there=False)

    item(opened, FILE).dblclick()
    expect(opened.get_by_role("tab", name=FILE)).to_be_visible()


def test_who_leaves_before_all_is_there_finds_it_again(opened: Page, server: Server) -> None:
    begin(opened, server)
    opened.goto("about:blank")
    expect_layout(opened, server, is_there=True)


@pytest.mark.parametrize(("age_ms", "is_there"), [(1000, True), (70_000, False)])
def test_a_page_that_is_open_beside_it_may_take_a_minute(
    opened: Page, server: Server, age_ms: int, is_there: bool
) -> None:
    beside = opened.context.new_page()
    beside.goto(f"{server.url}api/status")
    beside.evaluate(STANDS_STILL, [f"{BEGUN}{server.url} default another", age_ms])
    expect_layout(opened, server, is_there=is_there)


def test_that_of_another_session_is_not(opened: Page, server: Server) -> None:
    """Two of one person are at one address, with a layout each."""
    beside = opened.context.new_page()
    beside.goto(f"{server.url}api/status")
    beside.evaluate(STANDS_STILL, [f"{BEGUN}{server.url}second/ default another", 70_000])
    expect_layout(opened, server, is_there=True)


def test_a_browser_that_keeps_no_more_for_pages_opens_the_layout(opened: Page, server: Server) -> None:
    opened.add_init_script(KEEPS_NO_MORE)
    expect_layout(opened, server, is_there=True)
