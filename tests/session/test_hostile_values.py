"""Names and texts that others chose stand in JupyterLab as text, wherever the portal's extension shows them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.lessons import lesson, write
from tests.session.conftest import window
from tests.session.session_server import Server
from tests.session.test_lab import open_lab

BAD = "<img src=x onerror=window.taken=1>{{7*7}}"
NAMED = ("name", "title", "summary", "words", "dataset", "needs", "refused", "why_no_gpus", "level_title", "folder")
Answer = tuple[int, Any]


def answers() -> dict[str, Answer]:
    """What the session's server would say if every text of it were somebody else's."""
    job = {"id": "7", "name": BAD, "phase": "waiting", "words": BAD, "starts_at": None, "output_path": BAD}
    made = {
        "name": "mine", "title": BAD, "tool": "venv", "state": "failed", "words": BAD, "path": BAD, "size_bytes": 1,
        "modules": [BAD], "packages": [BAD], "python": BAD, "made_at": 1,
    }  # fmt: skip
    shown = {name: [BAD] for name in ("summary", "sets", "conflicts", "needs", "before")}
    tool = {"name": "one", "title": BAD, "state": "failed", "why": BAD, "started_at": None, "icon": "<svg></svg>"}
    full = {"name": BAD, "used_bytes": 99, "limit_bytes": 100, "is_known": True, "is_nearly_full": True}
    return {
        "jobs": (200, {"jobs": [job]}),
        "environments": (200, {"environments": [made], "folder": BAD, "tools": [{"name": "venv", "is_here": True}]}),
        "modules": (200, {"modules": [{"name": BAD, "is_default": True, "summary": BAD}], "total": 1}),
        "modules/show": (200, {"name": BAD, "file": BAD, "help": BAD, **shown}),
        "tools": (200, {"tools": [tool, tool | {"name": "two", "state": "ready", "started_at": 1}]}),
        "tensorboards": (200, {"tensorboards": [{"id": "0" * 16, "folder": BAD, "since": 1, "path": "tree"}]}),
        "news": (200, {"announcement": {"id": "1", "text": BAD}, "folders": [full]}),
        "kernels": (200, {"kernels": {"plain": {"at": 1, "summary": BAD, "lines": [BAD], "is_fault": True}}}),
        "extend": (409, {"message": BAD}),
        "time": (200, {"ends_at": time.time() + 240, "now": time.time(), "may_extend": True,
                       "before_end": {"state": "failed", "words": BAD}}),
        "log": (200, {"text": BAD, "next": 1, "is_over": True, "path": BAD}),
    }  # fmt: skip


def spoiled(value: Any, name: str = "") -> Any:
    """What the server says, with another text for each that a person reads."""
    if isinstance(value, dict):
        return {key: spoiled(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [spoiled(part, name) for part in value]
    return BAD if name in NAMED and isinstance(value, str) else value


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A window on a server, in whose answers every text is hostile."""
    found = answers()

    def answer(route: Route) -> None:
        path = route.request.url.partition("/dsportal/api/")[2].partition("?")[0]
        told = found.get("log" if path.endswith("/log") else path)
        if told is None:
            real = route.fetch()
            told = (real.status, spoiled(real.json()) if real.status == 200 else {"message": BAD})
        route.fulfill(status=told[0], content_type="application/json", body=json.dumps(told[1]))

    notebook = lesson("1 + 1", kernel="plain")
    notebook["metadata"]["kernelspec"]["display_name"] = BAD
    notebook["metadata"]["title"] = BAD
    write(server.home / f"{BAD.replace('/', '')}.ipynb", notebook)
    (server.home / f"folder {BAD}").mkdir(exist_ok=True)
    with window(browser, server) as opened:
        opened.route("**/dsportal/api/**", answer)
        yield opened
        opened.unroute_all(behavior="ignoreErrors")  # one may be on its way


def assert_text(page: Page, where: str) -> None:
    """It is shown, and nothing of it was run."""
    assert page.evaluate("window.taken === undefined && document.querySelector('img[src=x]') === null"), where


def test_texts_of_others_are_text_in_every_panel_log_and_notice(page: Page, server: Server) -> None:
    open_lab(page, server)
    expect(page.locator("#dsportal-announcement")).to_contain_text(BAD)
    expect(page.locator(".jp-toastContainer, .Toastify").first).to_contain_text("<img src=x")
    assert_text(page, "the page")

    def opened(panel: str, *buttons: str) -> None:
        page.locator(f'.lm-TabBar-tab[data-id="{panel}"]').first.click()
        place = page.locator(f"#{panel}")
        expect(place).to_contain_text("<img src=x")
        for name in buttons:
            place.get_by_role("button", name=name).first.click()
            expect(page.locator(".dsportal-Log").last).to_contain_text(BAD)
        assert_text(page, panel)

    opened("dsportal-jobs", "Log")
    opened("dsportal-tools", "Log")
    opened("dsportal-environments", "Log")
    page.locator('.lm-TabBar-tab[data-id="jp-running-sessions"]').first.click()
    expect(page.locator("#jp-running-sessions")).to_contain_text("<img src=x")
    assert_text(page, "what runs")
    page.locator(".dsportal-TimeLeft button").click()
    expect(page.locator("body")).to_contain_text(BAD)
    assert_text(page, "more time")


def test_a_notebook_and_a_folder_with_hostile_names_are_opened_and_offered_as_text(page: Page, server: Server) -> None:
    open_lab(page, server)
    listing = page.locator(".jp-DirListing-content")
    name = f"{BAD}.ipynb"
    listing.locator(".jp-DirListing-item", has_text=name).dblclick()
    expect(page.locator(".jp-Notebook")).to_be_visible()
    listing.locator(".jp-DirListing-item", has_text=f"folder {BAD}").click(button="right")
    page.get_by_role("menuitem", name="Download as an Archive").click()
    assert_text(page, "the file browser")
    listing.locator(".jp-DirListing-item", has_text=name).click(button="right")
    page.get_by_role("menuitem", name="Run as a Slurm Job…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert_text(page, "the dialog of a job")
