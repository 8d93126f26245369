"""What a person sees: a real browser on the portal of the private cluster. Run inside it, as its root user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from portal.session_settings import ANNOUNCE_EVERY
from tests.browser.portal_page import picture_of_failure
from tests.hub.conftest import FOLDER, PORT, Hub
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, NOTHING_AHEAD

# What a site's hub and its sessions look at in their time, this one looks at soon.
ATTENTIVE = f"""
import portal.forecasts.shared_look as looks
import portal.hub.app as app
import portal.receipts.book as book
looks.FRESH_S = looks.QUEUE_MAX_AGE_S = looks.NODES_MAX_AGE_S = 1.0
app.RECEIPTS_EVERY_S = 2.0
book.AFTER_S = (3.0, *book.AFTER_S)
c.PortalHub.watch_every_s = 2
c.Spawner.environment = {{"{ANNOUNCE_EVERY}": "1"}}
"""


@pytest.fixture(scope="session")
def address() -> str:
    """Where the portal is."""
    assert os.environ.get("DSPORTAL_CLUSTER"), (
        "the browser tests run inside the private cluster: `make test TESTS=browser`"
    )
    return os.environ.get("DSPORTAL_URL", "http://localhost:8000")


@pytest.fixture(scope="session")
def attentive() -> Iterator[str]:
    """The address of a portal of its own that asks Slurm, and is asked by its sessions, more often than the demo's."""
    ours = Hub(FOLDER.with_name("test-attentive"), PORT + 800)
    ours.prepare()
    (ours.folder / "extra" / "attentive.py").write_text(ATTENTIVE)
    ours.start()
    yield ours.url
    ours.stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(chromium: Browser, address: str) -> Iterator[BrowserContext]:
    """One person's browser, with its cookies, for all tests of a module."""
    size = ViewportSize(width=1280, height=860)
    # Without animations a picture never shows a colour that is on its way to another one.
    context = chromium.new_context(base_url=address, viewport=size, reduced_motion="reduce")
    context.set_default_timeout(30_000)
    context.add_init_script(NOTHING_AHEAD)
    yield context
    context.close()


@pytest.fixture(scope="module")
def page(context: BrowserContext) -> Page:
    """The tab in which a module's story happens."""
    return context.new_page()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The steps of a story stand on each other: after a failure the others fail at once."""
    if broken := getattr(module_of(item), "broken_step", ""):
        pytest.fail(f"the step {broken} failed before", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Keep a picture of what the browser showed when a test failed."""
    report = yield
    if report.failed and isinstance(page := getattr(item, "funcargs", {}).get("page"), Page):
        picture_of_failure(page, item.name.split("[")[0])
    story = module_of(item)
    if report.failed and getattr(story, "broken_step", None) == "":
        story.broken_step = item.name
    return report


def module_of(item: pytest.Item) -> Any:
    """The module of a test."""
    return getattr(item, "module", None)
