"""A workspace file of JupyterLab that somebody else wrote: what it names reaches none of one's own files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.forms import of_long_form
from tests.inside import eventually, home, sh

SHARED = Path("/mnt/isilon/bobs-workspaces")
FILE = SHARED / "course.jupyterlab-workspace"


@pytest.fixture(scope="module")
def alice(alice: tuple[Page, str]) -> Iterator[tuple[Page, str]]:
    """Alice in her session, and its address; Bob has a folder that she can read."""
    sh("mkdir", "-p", "-m", "0755", str(SHARED))
    sh("chown", "bob", str(SHARED))
    yield alice
    sh("rm", "-rf", str(SHARED))


@pytest.fixture
def mine() -> Iterator[Path]:
    """A program of Alice's own."""
    file = home("alice") / "mine.py"
    file.write_text("mine")
    sh("chown", "alice:", str(file))
    yield file
    file.unlink(missing_ok=True)


def put(name: str, **data: object) -> None:
    """Bob leaves a workspace of that name, which is a file with a content to JupyterLab's server as well."""
    told = {"type": "file", "format": "text", "content": "bobs", "data": data, "metadata": {"id": name}}
    FILE.write_text(json.dumps(told))
    FILE.chmod(0o644)


def question(page: Page) -> Locator:
    """The dialog before a workspace's file is opened."""
    return page.get_by_role("dialog").filter(has_text="Open this workspace?")


def open_file(page: Page, session: str, answer: str = "Open", query: str = "?reset") -> str:
    """Alice opens it by its address, and answers what she is asked; what she was asked."""
    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/{FILE.name}{query}")
    asked = question(page)
    expect(asked).to_be_visible(timeout=30_000)
    page.wait_for_timeout(1000)  # a click on what has just come counts half a second later
    words = asked.inner_text()
    asked.get_by_role("button", name=answer, exact=True).click()
    expect(asked).to_have_count(0)
    return words


@pytest.mark.parametrize("up", ["%2e%2e/", "..\\", *map(of_long_form, (".%2e/", "%2e%2e\\", ".\t./", "../"))])
def test_what_is_called_like_an_address_is_sent_nowhere(alice: tuple[Page, str], mine: Path, up: str) -> None:
    page, session = alice
    put(f"{up * 3}api/contents/mine.py")

    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/{FILE.name}?reset")
    expect(page.get_by_text("This workspace was not loaded").first).to_be_visible(timeout=30_000)
    page.wait_for_timeout(1000)

    assert mine.read_text() == "mine"


def test_what_is_called_by_a_name_is_loaded_once_she_has_said_so(alice: tuple[Page, str]) -> None:
    page, session = alice
    put("course-1")

    words = open_file(page, session)

    assert FILE.name in words
    assert '"course-1"' in words
    page.wait_for_url("**/lab/workspaces/course-1**", timeout=30_000)
    page.wait_for_timeout(3000)  # it goes there twice


def test_what_she_does_not_want_is_not_loaded(alice: tuple[Page, str]) -> None:
    page, session = alice
    put("course-unwanted")

    open_file(page, session, "Cancel")
    page.wait_for_timeout(1500)

    assert "/workspaces/" not in page.url
    assert not saved_as("course-unwanted")
    expect(page.locator(".lm-DockPanel-tabBar .lm-TabBar-tabLabel", has_text=FILE.name)).to_have_count(0)


@pytest.mark.parametrize("name", [of_long_form("default"), "/default"])
def test_what_is_called_like_a_saved_layout_takes_another_name(alice: tuple[Page, str], mine: Path, name: str) -> None:
    page, session = alice
    page.goto(f"{session}/lab/tree/mine.py?reset")
    expect(page.locator(".lm-TabBar-tabLabel", has_text="mine.py")).to_be_visible(timeout=30_000)
    eventually(lambda: saved_with("mine.py"), "the layout is saved")
    put(name, **{"dsportal-test": "bobs"})

    words = open_file(page, session, query="")

    assert "Replace puts this one in its place" in words
    page.wait_for_url(re.compile(r"/lab/workspaces/default-\d+"), timeout=30_000)
    page.wait_for_timeout(3000)
    (mine_still,) = saved_as("default")
    assert "dsportal-test" not in mine_still
    assert "editor:mine.py" in mine_still


@pytest.mark.parametrize(
    ("called", "name"),
    [("course-2", "%2e%2e/contents/mine.py"), of_long_form("course-3", "..\\contents\\mine.py")],
)
def test_no_terminal_is_called_like_an_address(alice: tuple[Page, str], mine: Path, called: str, name: str) -> None:
    page, session = alice
    key = f"terminal:{name}"
    dock = {"type": "tab-area", "currentIndex": 0, "widgets": [key]}
    layout = {"main": {"dock": dock, "current": key}}
    put(called, **{key: {"data": {"name": name}}, "layout-restorer:data": layout})

    open_file(page, session)
    page.wait_for_url(f"**/lab/workspaces/{called}**", timeout=30_000)
    expect(page.get_by_text("A terminal of this workspace was not opened").first).to_be_visible(timeout=30_000)
    page.get_by_role("tab", name="Running Terminals and Kernels").click()
    found = page.locator(".jp-RunningSessions-item", has_text=f"terminals/{name}")
    page.wait_for_timeout(1500)
    for _ in found.all():
        found.first.hover()
        found.first.locator("button[title], jp-button").last.click()
    page.wait_for_timeout(1500)

    assert mine.exists()
    expect(found).to_have_count(0)


def saved() -> list[Path]:
    """The layouts that are saved of hers."""
    return list((home("alice") / ".jupyter" / "lab" / "workspaces").glob("*"))


def saved_as(name: str) -> list[str]:
    """The layouts that are saved of hers by that name."""
    return [text for file in saved() if re.search(rf'"id": ?"/?{name}"', text := file.read_text())]


def saved_with(name: str) -> bool:
    """Whether a layout of hers is saved in which a file is open."""
    return any(f"editor:{name}" in file.read_text() for file in saved())


def reset(page: Page) -> None:
    """Reset the layout with JupyterLab's own command, and wait for what comes."""
    words = page.locator(".lm-CommandPalette-input")
    for _ in range(10):  # a page that is still drawn does not hear of the keys
        page.keyboard.press("Control+Shift+c")
        page.wait_for_timeout(1000)
        if words.is_visible():
            break
    words.fill("Reset Workspace")
    page.locator(".lm-CommandPalette-item", has_text="Reset Workspace").first.click()
    with page.expect_navigation(timeout=30_000):
        page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(page.locator(".jp-Launcher, .lm-TabBar-tabLabel:text('mine.py')").first).to_be_visible(timeout=30_000)


def test_a_link_of_another_page_leaves_the_saved_layout_which_she_herself_resets(
    alice: tuple[Page, str], mine: Path
) -> None:
    page, session = alice
    tab = page.locator(".lm-TabBar-tabLabel", has_text="mine.py")
    page.goto(f"{session}/lab/tree/mine.py?reset")
    expect(tab).to_be_visible(timeout=30_000)
    eventually(lambda: saved_with("mine.py"), "the layout is saved")

    put("default", **{"dsportal-test": "bobs"})
    file = f"isilon/{SHARED.name}/{FILE.name}"
    for place in ("lab?reset", "lab/tree/isilon?reset", f"lab/tree/{file}", f"lab?file-browser-path={file}"):
        page.goto(f"data:text/html,<a href='{session}/{place}'>read on</a>")
        page.get_by_text("read on").click()
        expect(tab).to_be_visible(timeout=30_000)
        page.wait_for_timeout(1000)
        assert "reset" not in page.url
        assert FILE.name not in page.url
        expect(question(page)).to_have_count(0)
        assert saved_with("mine.py")

    for _ in range(4):  # the page of before saves its layout as it goes, over what was reset, where the next is slow
        reset(page)
        if page.locator(".jp-Launcher").is_visible():
            break
    expect(page.locator(".jp-Launcher")).to_be_visible()
    expect(tab).to_have_count(0)
    eventually(lambda: not saved_with("mine.py"), "the layout is a new one")
