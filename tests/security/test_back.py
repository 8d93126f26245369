"""Who comes to a browser after a logout goes back to nothing that was looked at before."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.inside import eventually, home, sh
from tests.security.conftest import in_session

WORDS = "words of alice"
NOTEBOOK = '{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "words of alice"}],' + (
    ' "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)
PLACES = ("files/own.txt", "api/contents/own.txt", "nbconvert/html/own.ipynb")


def is_refused(page: Page, address: str) -> bool:
    """Whether a session leads this browser to the login."""
    return "/hub/login" in page.request.get(address).url


def test_the_back_button_shows_nothing_of_a_session_after_a_logout(chromium: Browser) -> None:
    for name, text in (("own.txt", WORDS), ("own.ipynb", NOTEBOOK)):
        sh("sh", "-c", 'printf %s "$1" > "$2"', "write", text, str(home("alice") / name), user="alice")
    with in_session(chromium, Path("/cluster/test-back")) as (page, session):
        for place in PLACES:
            page.goto(f"{session}/{place}")
            if place.startswith("nbconvert/"):  # an address alone converts nothing
                page.get_by_role("link", name="Open it").click()
            expect(page.locator("body")).to_contain_text(WORDS)
        page.goto("/hub/logout")
        page.get_by_role("main").get_by_role("button", name="Log out").click()
        expect(page.get_by_label("User name")).to_be_visible()
        eventually(partial(is_refused, page, f"{session}/{PLACES[0]}"), "the session refuses", 60, 2)

        for _ in ("the question", *PLACES):
            page.go_back()
            page.wait_for_load_state()
            expect(page.locator("body")).not_to_contain_text(WORDS)
