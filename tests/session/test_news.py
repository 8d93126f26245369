"""The site's announcement and the quotas, as a person sees them in JupyterLab and in Notebook 7."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.portal_page import assert_accessible
from tests.forms import of_long_form
from tests.lessons import lesson, write
from tests.session.conftest import window
from tests.session.session_server import Server

GB = 1024**3
PAGES = ("lab?reset", "tree", "notebooks/of-news.ipynb")
Picture = Callable[[Page, str], None]


def folder(name: str, used_gb: int, limit_gb: int) -> dict[str, Any]:
    """One folder as the hub tells it."""
    is_nearly_full = used_gb * 10 >= limit_gb * 9
    return {
        "name": name, "used_bytes": used_gb * GB, "limit_bytes": limit_gb * GB, "is_known": True,
        "is_nearly_full": is_nearly_full,
    }  # fmt: skip


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A window on a server."""
    write(server.home / "of-news.ipynb", lesson("1 + 1", kernel="plain"))
    with window(browser, server) as opened:
        yield opened


def tell(page: Page, text: str, *folders: dict[str, Any]) -> None:
    """The hub says this from now on."""

    def answer(route: Route) -> None:
        announcement = {"id": f"id of {text}", "text": text} if text else None
        told = {"announcement": announcement, "folders": folders}
        route.fulfill(content_type="application/json", body=json.dumps(told))

    page.unroute("**/dsportal/api/news*")
    page.route("**/dsportal/api/news*", answer)


def banner(page: Page) -> Locator:
    """The announcement."""
    return page.locator(".dsportal-Announcement")


def test_without_a_hub_there_is_no_news_and_a_look_is_no_activity(server: Server) -> None:
    before = server.json("api/status")["last_activity"]
    assert server.json("dsportal/api/news") == {"announcement": None, "folders": []}
    assert server.ask("dsportal/api/news", token="")[0] == 403
    assert server.json("api/status")["last_activity"] == before


@pytest.mark.parametrize("address", [PAGES[0], *map(of_long_form, PAGES[1:])])
def test_an_announcement_is_shown_as_text_until_it_is_put_away(
    page: Page, server: Server, picture: Picture, address: str
) -> None:
    tell(page, "Maintenance <b>on Friday</b>")
    page.goto(f"{server.url}{address}")
    expect(banner(page)).to_be_visible()
    expect(banner(page)).to_contain_text("Maintenance <b>on Friday</b>")
    expect(page.locator(".dsportal-Usage button")).to_be_visible()
    assert_accessible(page, "an announcement", ".dsportal-Announcement")
    picture(page, "announcement")

    banner(page).get_by_role("button", name="Put away").click()

    expect(banner(page)).to_be_hidden()
    page.reload()
    expect(page.locator(".dsportal-Usage button")).to_be_visible()
    expect(banner(page)).to_be_hidden()
    tell(page, "It is over")
    page.reload()
    expect(banner(page)).to_contain_text("It is over")


@pytest.mark.parametrize("address", [of_long_form(PAGES[0]), PAGES[1]])
def test_quotas_stand_with_the_usage_and_a_folder_that_is_nearly_full_is_warned_of(
    page: Page, server: Server, picture: Picture, address: str
) -> None:
    tell(page, "", folder("home", 95, 100), folder("isilon", 10, 2000))
    page.goto(f"{server.url}{address}")
    warning = page.locator(".Toastify__toast").filter(has_text="is nearly full")
    expect(warning).to_contain_text('Your folder "home" is nearly full: 95 of 100 GB.')

    page.locator(".dsportal-Usage button").click()

    dialog = page.get_by_role("dialog").filter(has_text="What this session uses")
    expect(dialog).to_contain_text("Your home95 of 100 GB: nearly full")
    expect(dialog).to_contain_text("Your isilon10 of 2000 GB")
    picture(page, "quotas")
