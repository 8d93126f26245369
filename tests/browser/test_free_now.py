"""The form says what is free now and when each choice would start: all GPUs taken, then given back, in an open page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.portal_page import assert_accessible, log_in_as, look_sooner, picture, submit_as
from tests.inside import eventually, jobs_of, sh

SEEN_WITHIN_MS = 45_000
USUAL_MS, SOON_MS = 10_000, 1_000  # between two looks of a page
WHOLE_NODE = ("--partition=sxm2", "--gres=gpu:4", "--time=120", "--output=/dev/null", "--wrap=sleep 900")


@pytest.fixture(scope="module")
def address(attentive: str) -> str:
    """A portal that asks for the nodes every second."""
    return attentive


@pytest.fixture(scope="module", autouse=True)
def _pages_look_soon(context: BrowserContext) -> None:
    look_sooner(context, USUAL_MS, SOON_MS)


@pytest.fixture(scope="module", autouse=True)
def _jobs_of_bob() -> Iterator[None]:
    """Nobody else has a GPU, before and afterwards."""
    end_all()
    yield
    end_all()


def end_all() -> None:
    for person in ("alice", "bob"):
        sh("scancel", f"--user={person}")
    eventually(lambda: not jobs_of("alice") + jobs_of("bob"), "no job is left")


def free_gpus(page: Page, words: str) -> None:
    """Wait until the open page says so, and was not loaded again."""
    expect(page.locator("[data-free=sxm2]")).to_have_text(words, timeout=SEEN_WITHIN_MS)
    assert page.evaluate("window.wasNotLoadedAgain") is True


def choose(page: Page, gpus: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{gpus} ")).check()


def test_an_empty_cluster_is_told_as_one(page: Page) -> None:
    log_in_as(page, "alice")
    page.goto("/hub/spawn")
    page.evaluate("window.wasNotLoadedAgain = true")

    free_gpus(page, "12 of 12 GPUs free")
    expect(page.locator("#outlook-as-of")).to_contain_text("As of")
    choose(page, "4 GPUs")
    expect(page.locator("#outlook-choice")).to_contain_text("4 GPUs for 8 h in sxm2: starts now.")
    expect(page.locator("#outlook-choice")).to_contain_text("Slurm itself says: now.", timeout=20_000)
    assert_accessible(page, "the form with what is free")
    picture(page, "40-free-now")


def test_a_look_beside_another_one_shows_no_error_and_comes_a_second_later(page: Page) -> None:
    asked: list[int] = []

    def answer(route: Route) -> None:
        asked.append(len(asked))
        if len(asked) > 2:
            route.continue_()
        else:  # as of a person who has another tab
            route.fulfill(status=429, headers={"Retry-After": "1"}, body="{}")

    page.route("**/api/dsportal/outlook/**", answer)
    choose(page, "3 GPUs")

    told = "3 GPUs for 8 h in sxm2: starts now."
    expect(page.locator("#outlook-choice")).to_contain_text(told, timeout=10_000)  # after a fault it waits for 20 s
    expect(page.locator("#outlook-as-of")).to_contain_text("As of")
    assert len(asked) > 2
    page.unroute("**/api/dsportal/outlook/**")
    choose(page, "4 GPUs")


def test_a_choice_that_would_wait_names_a_smaller_one_that_would_not(page: Page) -> None:
    nodes = int(sh("sinfo", "--noheader", "--partition=sxm2", "--format=%D").strip())
    for _ in range(nodes - 1):
        submit_as("bob", *WHOLE_NODE)
    submit_as("bob", *(word.replace("gpu:4", "gpu:2") for word in WHOLE_NODE))
    eventually(lambda: sh("squeue", "-h", "-u", "bob", "-o", "%T").split() == ["RUNNING"] * nodes, "bob's jobs run")

    free_gpus(page, "2 of 12 GPUs free")
    expect(page.locator("#outlook-choice")).to_contain_text("4 GPUs for 8 h in sxm2: about", timeout=SEEN_WITHIN_MS)
    expect(page.get_by_text("2 GPUs in sxm2 would start now.")).to_be_visible()
    assert_accessible(page, "the form that names a smaller choice")
    picture(page, "41-fewer")


def test_who_follows_it_has_the_form_with_fewer_gpus(page: Page) -> None:
    page.get_by_role("link", name="Choose 2 GPUs").click()

    expect(page.get_by_text("These are the choices of the link that you followed")).to_be_visible()
    expect(page.get_by_role("radio", name=re.compile("^2 GPUs "))).to_be_checked()
    expect(page.locator("#outlook-choice")).to_contain_text("2 GPUs for 8 h in sxm2: starts now.")
    page.evaluate("window.wasNotLoadedAgain = true")


def test_a_full_cluster_is_told_with_the_end_of_what_runs_and_who_is_ahead(page: Page) -> None:
    submit_as("bob", *(word.replace("gpu:4", "gpu:2") for word in WHOLE_NODE))
    submit_as("bob", *WHOLE_NODE)
    eventually(lambda: "PENDING" in sh("squeue", "-h", "-u", "bob", "-o", "%T"), "one of bob's jobs waits")

    free_gpus(page, "0 of 12 GPUs free")
    expect(page.locator("#outlook-choice")).to_contain_text("about", timeout=SEEN_WITHIN_MS)
    expect(page.locator("#outlook-choice")).to_contain_text("1 job ahead", timeout=SEEN_WITHIN_MS)
    choose(page, "4 GPUs")
    expect(page.locator("#outlook-choice")).to_contain_text(re.compile("Slurm itself says: .*[0-9]"), timeout=20_000)
    assert len(jobs_of("alice")) == 0, "a question starts nothing"
    picture(page, "42-full")


def test_what_is_given_back_is_free_in_the_open_page(page: Page) -> None:
    sh("scancel", "--user=bob")
    eventually(lambda: not jobs_of("bob"), "bob's jobs are gone")

    free_gpus(page, "12 of 12 GPUs free")
    expect(page.locator("#outlook-choice")).to_contain_text("starts now", timeout=SEEN_WITHIN_MS)


def test_a_page_that_nobody_sees_asks_nothing(page: Page, context: BrowserContext) -> None:
    asked: list[str] = []
    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: true, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    page.on("request", lambda request: asked.append(request.url) if "/outlook/" in request.url else None)
    page.wait_for_timeout(3 * SOON_MS)
    assert asked == []

    with page.expect_request("**/outlook/**", timeout=5_000):
        page.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")


def test_choices_become_a_link(page: Page) -> None:
    choose(page, "3 GPUs")
    page.get_by_label("Hours", exact=True).fill("5")
    page.get_by_role("button", name="Link to these choices").click()

    expect(page.get_by_role("heading", name="A link to these choices")).to_be_visible()
    assert_accessible(page, "the page with a link")
    picture(page, "43-link")
    page.goto(page.get_by_label("Link", exact=True).input_value())
    expect(page.get_by_role("radio", name=re.compile("^3 GPUs "))).to_be_checked()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("5")
    assert not jobs_of("alice")


def test_the_form_says_the_same_without_scripts(context: BrowserContext, address: str) -> None:
    assert context.browser
    plain = context.browser.new_context(
        base_url=address, java_script_enabled=False, storage_state=context.storage_state()
    )
    page = plain.new_page()
    page.goto("/hub/spawn")
    expect(page.locator("[data-free=sxm2]")).to_have_text("12 of 12 GPUs free")
    expect(page.locator("#outlook-choice")).to_contain_text("in sxm2: starts now.")
    page.get_by_role("button", name="Link to these choices").click()
    expect(page.get_by_role("heading", name="A link to these choices")).to_be_visible()
    plain.close()
