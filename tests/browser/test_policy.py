"""What the hub's pages may load and do, and what a session's page may not do with them: in Chromium itself."""

from __future__ import annotations

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
    expect(page.locator("#progress-message")).not_to_be_empty()
    assert "_xsrf" not in page.url
    page.wait_for_url("**/user/alice/lab*", timeout=90_000)
    page.context.new_page().goto("/hub/home", wait_until="networkidle")
    yield page
    sh("scancel", "--user=alice")
    eventually(lambda: not jobs_of("alice"), "no job is left")


FETCHES = """async () => {
    const answers = {};
    for (const place of ["/hub/home", "/hub/token", "/hub/spawn", "/hub/login", "/hub/nowhere", "/hub/user/alice/x"]) {
        const answer = await fetch(place);
        answers[place] = [answer.status, (await answer.text()).match(/xsrf_token: "(.*)"/)?.[1] ?? ""];
    }
    return answers;
}"""
CHANGES = """async () => {
    const answers = [];
    for (const [method, place] of [["POST", "users/alice/tokens"], ["DELETE", "users/alice/server"]]) {
        answers.push((await fetch(`/hub/api/${place}`, { method, body: "{}" })).status);
    }
    return answers;
}"""
COOKIES = """() => {
    const before = location.href;
    history.replaceState(null, "", "/hub/home");
    const seen = document.cookie;
    history.replaceState(null, "", before);
    return seen;
}"""
WINDOW = """async () => {
    const opened = window.open("/hub/home");
    for (let tries = 0; tries < 100; tries += 1) {
        try {
            if (opened.closed) return "not reached";
            if (opened.location.href.includes("/hub/home") && opened.document.body) return opened.document.title;
        } catch {
            return "not reached";
        }
        await new Promise((done) => setTimeout(done, 100));
    }
    return opened.location.href;
}"""


def test_the_hubs_pages_keep_their_policy_and_a_sessions_page_reaches_none_of_them(lab: Page, said: list[str]) -> None:
    assert said == []

    answers = lab.evaluate(FETCHES)
    assert {token for _, token in answers.values()} == {""}
    assert {status for status, _ in answers.values()} == {403, 404}  # the last one: the session itself has no such page
    assert lab.evaluate(CHANGES) == [403, 403]
    assert jobs_of("alice")
    hubs = [cookie for cookie in lab.context.cookies() if cookie["path"] == "/hub/"]
    assert {cookie["name"] for cookie in hubs} == {"_xsrf", "jupyterhub-hub-login"}
    assert not [cookie["name"] for cookie in hubs if not cookie["httpOnly"] or cookie["value"] in lab.evaluate(COOKIES)]
    assert lab.evaluate(WINDOW) == "not reached"


def test_an_administrators_pages_keep_their_policy(chromium: Browser, address: str) -> None:
    found: list[str] = []
    context = chromium.new_context(base_url=address)
    context.on("console", lambda message: found.append(message.text) if "Content Security" in message.text else None)
    page = context.new_page()
    log_in_as(page, "carol")
    page.goto("/hub/admin", wait_until="networkidle")

    expect(page.get_by_text("Shutdown Hub")).to_be_visible()
    assert found == []
    context.close()
