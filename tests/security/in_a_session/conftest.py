"""Alice's session, which all tests of this folder share: a window of JupyterLab for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.security.conftest import in_session, until_in_lab


@pytest.fixture(scope="package")
def session_of_alice(chromium: Browser) -> Iterator[tuple[Page, str]]:
    """An empty window of her browser, and her session's address."""
    with in_session(chromium, Path("/cluster/test-in-a-session")) as (window, session):
        window.goto("about:blank")  # so the next window is the first of JupyterLab, with the usual layout
        yield window, session


@pytest.fixture(scope="module")
def alice(session_of_alice: tuple[Page, str]) -> Iterator[tuple[Page, str]]:
    """Alice in a new window of JupyterLab, and her session's address; the windows that tests open are closed."""
    first, session = session_of_alice
    window = first.context.new_page()
    window.goto(f"{session}/lab?reset")
    until_in_lab(window)
    yield window, session
    for page in first.context.pages:
        if page is not first:
            page.close()
