"""What the hub's pages may load and do: in Chromium itself. What others may not do with them: tests/security."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.browser.portal_page import log_in_as
from tests.inside import eventually, jobs_of, sh


@pytest.fixture
def said(context: BrowserContext) -> list[str]:
    """What Chromium has said against what a page did."""
    found: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Content-Security-Policy" in message.text:
            found.append(f"{message.location.get('url')}: {message.text}")

    context.on("console", hear)
    return found


@pytest.fixture
def lab(page: Page, said: list[str]) -> Iterator[Page]:
    """Alice's JupyterLab, on the way to which no page has broken its own policy."""
    page.goto("/hub/login")
    log_in_as(page, "alice")
    for place in ("home", "token", "spawn", "nowhere"):
        page.goto(f"/hub/{place}", wait_until="networkidle")
    page.goto("/hub/spawn")
    assert "_xsrf" not in page.content().partition("<body")[2].replace('name="_xsrf"', "")
    page.get_by_role("button", name="Start").click()
    assert "_xsrf" not in page.url
    page.wait_for_url("**/user/alice/lab*", timeout=90_000)
    page.context.new_page().goto("/hub/home", wait_until="networkidle")
    yield page
    sh("scancel", "--user=alice")
    eventually(lambda: not jobs_of("alice"), "no job is left")


def test_the_hubs_pages_keep_their_policy_and_no_script_reads_their_cookies(lab: Page, said: list[str]) -> None:
    assert said == []

    hubs = [cookie for cookie in lab.context.cookies() if cookie["path"] == "/hub/"]
    assert {cookie["name"] for cookie in hubs} == {"_xsrf", "jupyterhub-hub-login"}
    assert not [cookie["name"] for cookie in hubs if not cookie["httpOnly"]]


def test_the_token_against_forged_requests_stands_in_no_address(chromium: Browser, address: str) -> None:
    context = chromium.new_context(base_url=address)
    page = context.new_page()
    log_in_as(page, "bob")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    page.goto("/hub/token", wait_until="networkidle")
    page.get_by_role("button", name="Request new API token").click()
    expect(page.locator("#token-result")).to_have_text(re.compile("^[0-9a-f]{32}$"))
    page.reload(wait_until="networkidle")
    page.get_by_role("button", name="Revoke").first.click()
    page.wait_for_load_state("networkidle")

    assert {one.split()[0] for one in asked} >= {"POST", "DELETE"}
    assert [one for one in asked if "_xsrf" in one] == []
    context.close()


def test_an_administrators_pages_keep_their_policy(chromium: Browser, address: str) -> None:
    found: list[str] = []
    asked: list[str] = []
    context = chromium.new_context(base_url=address)
    context.on("console", lambda message: found.append(message.text) if "Content Security" in message.text else None)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    log_in_as(page, "carol")
    page.goto("/hub/admin", wait_until="networkidle")

    expect(page.get_by_role("row", name=re.compile(r"\bcarol\b"))).to_be_visible()
    assert found == []
    assert [url for url in asked if "/hub/api/" in url]
    assert [url for url in asked if "_xsrf" in url] == []
    context.close()
