"""The sessions that have ended: the server page says why, and leads to the form with the same choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.portal_page import assert_accessible, jobs_of, log_in_as, picture
from tests.inside import eventually, has_no_job, sh

PERSON = "heidi"
LAB_DEADLINE_MS = 90_000
TIME_LIMIT_WITHIN_S = 90  # Slurm looks twice in a minute
LOOK_EVERY_S = 1.0  # each look is a whole page

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def address(attentive: str) -> str:
    """A portal that looks at its sessions, and asks for their receipts, every other second."""
    return attentive


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: has_no_job(PERSON), "no job is left", within_s=60)


def start(page: Page, hours: int) -> int:
    """Start a session without a GPU, and answer the number of its job."""
    page.goto(f"/hub/spawn?opt-gpus=0&opt-hours={hours}")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(rf"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    page.goto("about:blank")  # what JupyterLab says of an end has a test of its own
    [job] = jobs_of(PERSON)
    return job.id


def newest(page: Page, words: str, within_s: float = 40) -> Locator:
    """The session that ended last, as the server page shows it, when it says so."""

    def says() -> bool:
        page.goto("/hub/home")
        shown = page.locator(".dsp-ended-row")
        return shown.count() > 0 and words in shown.first.inner_text()

    eventually(says, f"the newest session that has ended says {words!r}", within_s=within_s, every_s=LOOK_EVERY_S)
    return page.locator(".dsp-ended-row").first


def test_a_session_that_an_administrator_cancelled_is_listed_with_its_reason_and_its_job(page: Page) -> None:
    log_in_as(page, PERSON)
    job_id = start(page, hours=3)

    sh("scancel", str(job_id))

    row = newest(page, "The session was cancelled by root.")
    expect(row).to_contain_text("3 h in")
    row.locator("summary").click()
    expect(row.locator("dd").get_by_text(str(job_id), exact=True)).to_be_visible()
    assert_accessible(page, "the sessions that have ended")
    picture(page, "60-ended-sessions")


def test_start_again_leads_to_the_form_with_the_same_choices_and_starts_nothing(page: Page) -> None:
    def can_be_started_again() -> bool:  # a page of the moment before says that the session is still ending
        page.goto("/hub/home")
        return page.get_by_role("button", name="Start again").count() > 0

    eventually(can_be_started_again, "the session has ended for the hub, too", within_s=40)
    page.locator(".dsp-ended-row").first.get_by_role("button", name="Start again").click()

    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()
    expect(page.get_by_role("radio", name=re.compile("^0 GPUs"))).to_be_checked()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("3")
    assert not jobs_of(PERSON)
    picture(page, "61-start-again-filled-in")


def test_a_session_whose_time_was_over_is_listed_above_it(page: Page) -> None:
    job_id = start(page, hours=2)

    sh("scontrol", "update", f"JobId={job_id}", "EndTime=now+1")  # Slurm refuses the second of the start

    row = newest(page, "The session used up its hours.", within_s=TIME_LIMIT_WITHIN_S)
    expect(row).to_contain_text("2 h in")
    expect(row.get_by_role("button")).to_have_count(1)  # not its two hours were too few: an administrator cut them
    expect(page.locator(".dsp-ended-row").nth(1)).to_contain_text("The session was cancelled by root.")


def test_one_that_the_person_stops_says_so_and_while_it_runs_no_other_is_started(page: Page) -> None:
    start(page, hours=1)
    page.goto("/hub/home")
    expect(page.get_by_role("button", name="Start again")).to_have_count(0)
    page.get_by_role("button", name="Stop My Server").click()
    eventually(lambda: has_no_job(PERSON), "the job is gone", within_s=60)
    expect(page.get_by_role("button", name="Stop My Server")).to_have_count(
        0, timeout=30_000
    )  # it has loaded itself again

    newest(page, "You stopped the session.")

    answer = page.evaluate(
        """() => fetch("/hub/api/dsportal/sessions", { headers: { "X-XSRFToken": window.jhdata.xsrf_token } })
            .then(answer => answer.json())"""
    )
    assert [one["reason"] for one in answer["sessions"]][:3] == [
        "You stopped the session.",
        "The session used up its hours.",
        "The session was cancelled by root.",
    ]


def test_what_a_session_used_stands_with_it_as_soon_as_accounting_says_so(page: Page) -> None:
    def has_receipt() -> bool:
        page.goto("/hub/home")
        return page.locator(".dsp-used").count() > 0

    eventually(has_receipt, "a receipt is shown", within_s=180, every_s=LOOK_EVERY_S)
    receipt = page.locator(".dsp-used").first
    expect(receipt).to_contain_text("Core-hours")
    expect(receipt).to_contain_text("Memory")
    expect(receipt).not_to_contain_text("GPU-hours")  # these sessions had none
    expect(page.get_by_role("region", name="My usage")).to_contain_text("Core-hours")
    assert_accessible(page, "receipts of sessions")
    picture(page, "65-receipts")
