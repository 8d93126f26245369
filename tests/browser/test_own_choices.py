"""My choices: kept under a name, filled into the form again, renamed, removed, and started; without scripts, too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.portal_page import assert_for_everybody, log_in_as, picture
from tests.inside import eventually, jobs_of, sh

LONG = "Über Nacht: ResNet50 mit allen Daten, zweiter Versuch, 2 GPUs"[:60]


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", "--user=heidi")
    eventually(lambda: not jobs_of("heidi"), "no job is left")


def has_two_gpus_and_three_hours(page: Page) -> None:
    expect(page.get_by_role("radio", name=re.compile("^2 GPUs "))).to_be_checked()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("3")


def test_choices_get_a_name_on_a_page_of_their_own(page: Page) -> None:
    log_in_as(page, "heidi")
    page.goto("/hub/spawn")
    page.get_by_role("radio", name=re.compile("^2 GPUs ")).check()
    page.get_by_label("Hours", exact=True).fill("3")
    page.get_by_role("button", name="Keep these choices").click()

    expect(page.get_by_role("heading", name="Keep these choices")).to_be_visible()
    expect(page.get_by_text("2 GPUs · 3 h")).to_be_visible()
    assert_for_everybody(page, "60-keep-choices")
    page.get_by_label("Name", exact=True).fill(LONG)
    page.get_by_role("button", name="Keep", exact=True).click()

    expect(page.get_by_text(f"These are your choices “{LONG}”")).to_be_visible()
    has_two_gpus_and_three_hours(page)
    assert_for_everybody(page, "61-form-with-own-choices")


def test_another_day_one_click_fills_them_in(page: Page) -> None:
    page.goto("/hub/spawn")
    page.get_by_role("radio", name=re.compile("^1 GPU ")).check()
    page.get_by_role("navigation", name="My choices").get_by_role("link", name=LONG).click()

    has_two_gpus_and_three_hours(page)
    expect(page.get_by_text("Nothing was started")).to_have_count(0)
    assert not jobs_of("heidi")


def test_they_are_renamed(page: Page) -> None:
    page.get_by_role("link", name="Rename or remove").click()
    page.get_by_label("Another name").fill("Two GPUs")
    page.get_by_role("button", name="Rename").click()

    expect(page.get_by_role("heading", name="Two GPUs")).to_be_visible()
    size = "one => parseFloat(getComputedStyle(one).fontSize)"
    title, name = page.locator("h1").evaluate(size), page.get_by_role("heading", name="Two GPUs").evaluate(size)
    assert name < 0.8 * title, "a name is no second title of the page"
    assert_for_everybody(page, "62-own-choices")


def test_without_scripts_all_of_it_works_as_well(context: BrowserContext, address: str) -> None:
    assert context.browser
    plain = context.browser.new_context(
        base_url=address, java_script_enabled=False, storage_state=context.storage_state()
    )
    page = plain.new_page()
    page.goto("/hub/spawn")
    page.get_by_role("link", name="Two GPUs").click()
    has_two_gpus_and_three_hours(page)
    page.get_by_role("button", name="Keep these choices").click()
    page.get_by_label("Name", exact=True).fill("Again")
    page.get_by_role("button", name="Keep", exact=True).click()
    expect(page.get_by_text("These are your choices “Again”")).to_be_visible()
    page.get_by_role("link", name="Rename or remove").click()
    page.get_by_role("button", name="Remove “Again”").click()
    expect(page.get_by_role("heading", name="Again")).to_have_count(0)
    expect(page.get_by_role("heading", name="Two GPUs")).to_be_visible()
    plain.close()


def test_a_session_starts_with_them(page: Page) -> None:
    page.goto("/hub/spawn")
    page.get_by_role("link", name="Two GPUs").click()
    page.get_by_role("button", name="Start").click()

    eventually(lambda: jobs_of("heidi"), "the session has a job", within_s=30)
    told = sh("squeue", "--noheader", "--user=heidi", "--format=%b %l").split()
    assert told[0].endswith(":2")
    assert told[1] == "3:00:00"
    picture(page, "63-started-with-own-choices")
