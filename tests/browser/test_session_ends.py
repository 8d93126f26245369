"""JupyterLab when its session ends: it says so over the page, and leads to a new one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.portal_page import assert_accessible, jobs_of, log_in_as, picture
from tests.inside import eventually, has_no_job, sh

PERSON = "grace"
LAB_DEADLINE_MS = 90_000
TOLD_WITHIN_MS = 5_000

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: has_no_job(PERSON), "no job is left", within_s=60)


def test_who_is_in_the_lab_reads_within_seconds_that_slurm_has_ended_the_job(page: Page) -> None:
    log_in_as(page, PERSON)
    page.goto("/hub/spawn?opt-gpus=0&next=/user/" + PERSON + "/lab/tree/templates")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(rf"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)
    [job] = jobs_of(PERSON)

    sh("scancel", str(job.id))
    eventually(lambda: has_no_job(PERSON), "Slurm has ended the job", within_s=60)

    told = page.get_by_role("dialog").filter(has_text="This session has ended")
    expect(told).to_be_visible(timeout=TOLD_WITHIN_MS)
    expect(told).to_contain_text("What was saved is safe")
    expect(page.get_by_text("Server unavailable or unreachable")).to_have_count(0)
    assert_accessible(page, "the end of a session", ".jp-Dialog")
    picture(page, "50-session-ended")


def test_who_stays_can_read_on_and_is_not_asked_again(page: Page) -> None:
    page.get_by_role("button", name="Stay Here").click()
    page.wait_for_timeout(3_000)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".jp-Launcher")).to_be_visible()


def test_start_again_leads_to_the_form_and_back(page: Page) -> None:
    page.goto("/hub/spawn?opt-gpus=0")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(rf"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)
    sh("scancel", f"--user={PERSON}")

    page.get_by_role("button", name="Start Again").click()

    expect(page.get_by_role("button", name="Start", exact=True)).to_be_visible()
    assert re.search(rf"/hub/spawn/{PERSON}\?next=", page.url)
    picture(page, "51-start-again")
