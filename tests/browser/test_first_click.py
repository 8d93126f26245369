"""The second click of a double-click does nothing on a page of the hub where the first one was on another page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.portal_page import log_in_as
from tests.covered import LONG_MS, WITH_PRESS, covered, press


@pytest.fixture
def home(chromium: Browser, address: str) -> Iterator[Page]:
    """Alice's page of the hub, for a mouse and for fingers."""
    context = chromium.new_context(base_url=address, has_touch=True)
    page = context.new_page()
    page.add_init_script(WITH_PRESS)
    log_in_as(page, "alice")
    yield page
    context.close()


def logout(page: Page) -> Locator:
    return page.get_by_role("button", name="Logout")


def is_logged_in(page: Page) -> bool:
    """After what a click would have done by now."""
    page.wait_for_timeout(LONG_MS)
    return any(cookie["name"] == "jupyterhub-hub-login" for cookie in page.context.cookies())


def test_a_click_as_another_window_closes_does_nothing_and_the_next_one_works(home: Page) -> None:
    logout(home).hover()
    with covered(home, until_pressed=True):
        pass
    press(logout(home))
    assert is_logged_in(home)

    press(logout(home))
    expect(logout(home)).to_have_count(0)


def test_a_click_as_another_window_moves_away_does_nothing(home: Page) -> None:
    logout(home).hover()
    with covered(home):
        press(logout(home))
        assert is_logged_in(home)


def test_the_next_clicks_do_nothing_on_a_page_that_the_first_has_led_to(home: Page) -> None:
    home.goto("/hub/home")
    press(logout(home), clicks=2)
    press(logout(home), clicks=3)
    assert is_logged_in(home)


def test_a_page_that_has_just_come_takes_a_click(home: Page) -> None:
    home.goto("/hub/home")
    press(logout(home))
    expect(logout(home)).to_have_count(0)


def test_a_double_click_of_the_pages_own_is_one(home: Page) -> None:
    press(home.get_by_role("heading", level=1))
    press(logout(home), clicks=2)
    expect(logout(home)).to_have_count(0)


def test_a_window_beside_the_one_with_the_focus_takes_a_click(home: Page) -> None:
    with covered(home):
        logout(home).hover()
        home.wait_for_timeout(LONG_MS)
        press(logout(home))
        expect(logout(home)).to_have_count(0)


def test_keys_are_taken_at_once(home: Page) -> None:
    with covered(home):
        pass
    logout(home).focus()
    home.keyboard.press("Enter")
    expect(logout(home)).to_have_count(0)


def test_a_finger_is_taken_at_once_on_a_page_and_not_as_another_window_closes(home: Page) -> None:
    with covered(home, until_pressed=True):
        pass
    logout(home).tap()
    assert is_logged_in(home)

    home.goto("/hub/home")
    logout(home).tap()
    expect(logout(home)).to_have_count(0)
