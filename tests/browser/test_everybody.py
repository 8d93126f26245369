"""The hub's pages for everybody: axe finds nothing at 320 and 1280 px, light and dark, and the keyboard is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.portal_page import assert_for_everybody, jobs_of, log_in_as, submit_as
from tests.inside import eventually, sh

PERSON = "judy"
LAB_DEADLINE_MS = 90_000
# What a browser without a window has no place for: what the page would have told.
TOLD = """
  window.told = [];
  window.Notification = class {
    static permission = "default";
    static async requestPermission() { return (Notification.permission = "granted"); }
    constructor(title) { window.told.push(title); }
    addEventListener() {}
  };
"""
HEARD = """() => {
  const region = document.getElementById("pending-heard");
  window.heard = [region.textContent];
  new MutationObserver(() => window.heard.push(region.textContent)).observe(region, { childList: true });
}"""
HIDDEN = "() => Object.defineProperty(document, 'visibilityState', { get: () => 'hidden', configurable: true })"
LOOKED_AT = "() => { delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange')); }"

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def address(attentive: str) -> str:
    """A portal that looks at its sessions and at the queue every other second."""
    return attentive


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: not jobs_of(PERSON), "no job is left", within_s=60)


@pytest.fixture(scope="module")
def full_partition() -> Iterator[int]:
    """Somebody else has all GPUs of sxm2: the next job waits in the queue."""
    job = submit_as("bob", "--partition=sxm2", "--nodes=3", "--gres=gpu:4", "--wrap=sleep 600")
    eventually(lambda: [j for j in jobs_of("bob") if j.id == job and j.state == "RUNNING"], "bob's job runs")
    yield job
    sh("scancel", str(job))


def test_the_login_page(page: Page) -> None:
    page.goto("/hub/login")
    assert_for_everybody(page, "login")
    log_in_as(page, PERSON)


@pytest.mark.parametrize(
    ("place", "heading"),
    [
        ("home", "My Server"),
        ("spawn", "Start a session"),
        ("token", "Tokens"),
        ("templates", "Templates"),
        ("again", "Your password again"),
        ("logout", "Log out"),
        ("nowhere", "There is nothing here"),
        ("error/503", "The session does not answer"),
        (f"user/{PERSON}/lab", "My Server is not running"),
    ],
)
def test_a_page_of_the_hub(page: Page, place: str, heading: str) -> None:
    page.goto(f"/hub/{place}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
    assert_for_everybody(page, f"everybody {place.replace('/', ' ')}")


def test_a_token_is_made_and_revoked_by_keyboard_alone(page: Page) -> None:
    page.goto("/hub/token")
    page.get_by_label("Note", exact=True).focus()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(page.locator("#token-result")).to_have_text(re.compile("^[0-9a-f]{32}$"))
    expect(page.locator("#token-area")).to_be_focused()

    page.reload()
    assert_for_everybody(page, "everybody token listed")
    page.get_by_role("button", name="Revoke by keyboard").press("Enter")
    expect(page.locator("#token-status")).to_contain_text("was revoked")
    expect(page.get_by_role("button", name="Revoke by keyboard")).to_have_count(0)


def test_the_waiting_page_and_what_is_heard_of_it(page: Page, full_partition: int) -> None:
    page.add_init_script(TOLD)
    page.goto("/hub/spawn")
    page.get_by_role("radio", name=re.compile("^1 GPU ")).check()
    page.get_by_role("radio", name=re.compile("^sxm2 ")).check()
    page.get_by_role("button", name="Start").press("Enter")
    heard = page.locator("#pending-heard")
    expect(heard).to_contain_text("waits", timeout=30_000)
    page.evaluate(HEARD)
    expect(page.locator("#progress-message")).to_contain_text("No GPU is free now.", timeout=40_000)

    assert_for_everybody(page, "everybody waiting")

    said = page.evaluate("() => window.heard")
    assert [before for before, after in pairwise(said) if before == after] == []
    assert not [one for one in said if "GPU is free" in one or "expects" in one]


def test_who_looks_elsewhere_is_told_that_it_is_ready_by_the_tab_and_if_asked_for_by_the_browser(
    page: Page, full_partition: int
) -> None:
    page.get_by_role("button", name="Tell me when it is ready").press("Enter")
    expect(page.locator("#tell-status")).to_contain_text("You will be told")
    page.evaluate(HIDDEN)
    sh("scancel", str(full_partition))

    expect(page).to_have_title(re.compile("^Ready"), timeout=LAB_DEADLINE_MS)
    assert "favicon-ready.svg" in str(page.locator("link[rel=icon]").get_attribute("href"))
    assert page.evaluate("() => window.told") == ["Ready: your session"]
    expect(page.locator("#pending-heard")).to_have_text("JupyterLab is ready.")

    page.evaluate(LOOKED_AT)
    page.wait_for_url(re.compile(f"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="Running", exact=True)).to_be_visible()
    assert_for_everybody(page, "everybody running")


def test_the_page_of_administrators(chromium: Browser, address: str) -> None:
    context = chromium.new_context(base_url=address, reduced_motion="reduce")
    page = context.new_page()
    log_in_as(page, "carol")
    page.goto("/hub/admin", wait_until="networkidle")
    expect(page.get_by_role("button", name="More of carol")).to_be_visible()

    assert_for_everybody(page, "everybody admin")
    context.close()
