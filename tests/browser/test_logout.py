"""Logging out, as a person sees it: one button, and nothing of the portal is left in the browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.portal_page import assert_accessible, log_in_as, picture


@pytest.fixture(scope="module")
def other(chromium: Browser, address: str) -> Iterator[BrowserContext]:
    """A second browser of the same person."""
    context = chromium.new_context(base_url=address)
    yield context
    context.close()


def test_one_button_logs_out_in_every_browser_and_the_browser_forgets_the_portal(
    page: Page, other: BrowserContext, address: str
) -> None:
    log_in_as(page, "erin")
    second = other.new_page()
    log_in_as(second, "erin")
    page.evaluate("localStorage.setItem('of-erin', 'kept')")

    page.get_by_role("button", name="Logout").click()

    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.evaluate("localStorage.getItem('of-erin')") is None
    assert not [cookie for cookie in page.context.cookies() if cookie.get("name") != "_xsrf"]
    page.goto("/hub/home")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    second.goto("/hub/home")
    expect(second.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_link_to_the_logout_asks_first(page: Page) -> None:
    log_in_as(page, "erin")

    page.goto("/hub/logout")

    expect(page.get_by_role("heading", name="Log out?")).to_be_visible()
    picture(page, "logout")
    assert_accessible(page, "logout")
    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="My Server", level=1)).to_be_visible()
    picture(page, "logout-button")
    page.goto("/hub/logout")
    page.get_by_role("main").get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
