"""Cookies that somebody's page has left for one address, too many to be sent: what lies there is refused alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.forms import of_long_form
from tests.inside import eventually

BIG = "x" * 3900
LEFT = tuple(f"left{number}" for number in range(6))


@pytest.mark.parametrize(
    ("path", "place", "shown"),
    [
        ("/user/alice/lab/extensions", "notebooks/kept.ipynb", ".jp-Notebook"),
        ("/user/alice/api", "lab", ".jp-Launcher"),
        of_long_form("/user/alice/lab/extensions", "lab", ".jp-Launcher"),
        of_long_form("/user/alice/lab/api/settings", "tree", ".jp-DirListing-content"),
    ],
)
def test_a_page_that_lacks_a_part_goes_where_they_lie_and_comes_back(
    alice: tuple[Page, str], path: str, place: str, shown: str
) -> None:
    page, session = alice
    tab = page.context.new_page()
    host = session.split("/")[2].split(":")[0]
    for name in LEFT:
        page.context.add_cookies([{"name": name, "value": BIG, "domain": host, "path": path}])

    tab.goto(f"{session}/{place}")

    eventually(lambda: not left(page), "they are gone", within_s=60)
    back = re.compile(rf"^{re.escape(f'{session}/{place}')}(/workspaces/[^/]+)?$")  # of a second tab of JupyterLab
    expect(tab).to_have_url(back, timeout=60_000)
    expect(tab.locator(shown)).to_be_visible(timeout=60_000)
    tab.close()


def test_jupyterlabs_files_at_the_hubs_host_are_asked_for_without_them(alice: tuple[Page, str]) -> None:
    page, session = alice
    browser = page.context.browser
    assert browser
    context = browser.new_context(storage_state=page.context.storage_state())  # in whose cache is none of them
    at_hub = {"domain": "localhost", "path": "/hub/dsportal/lab", "sameSite": "None", "secure": True}
    cookies: Any = [{"name": name, "value": BIG, **at_hub} for name in LEFT]
    context.add_cookies(cookies)
    tab = context.new_page()

    tab.goto(f"{session}/lab")
    tab.locator(".jp-LauncherCard", has_text="Terminal").first.click(timeout=60_000)

    expect(tab.locator(".xterm-screen")).to_be_visible(timeout=60_000)  # it loads files of its own
    context.close()


def left(page: Page) -> set[str]:
    """The names of those cookies that the browser still has."""
    return {cookie["name"] for cookie in page.context.cookies()}.intersection(LEFT)
