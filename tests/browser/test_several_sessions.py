"""Two sessions of one person, a request that is changed while it waits, a profile of the site, how full folders are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.portal_page import assert_for_everybody, jobs_of, log_in, picture, submit_as
from tests.hub.conftest import FOLDER, PORT, Hub
from tests.inside import eventually, sh

LAB_DEADLINE_MS = 90_000
WHOLE_NODE = ("--partition=sxm2", "--gres=gpu:4", "--time=120", "--wrap=sleep 900")
QUOTA = "#!/bin/sh\necho 95 100\n"
MORE = """
[[profile]]
name = "small"
title = "Small course"
description = "One GPU for an afternoon"
fixed = { partition = "sxm2", gpus = 1, hours = 2 }

[quota]
command = ["QUOTA", "{user}"]
"""

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A portal of its own: two sessions for everybody, a profile, and a command that says how full homes are."""
    ours = Hub(FOLDER.with_name("test-several"), PORT + 600)
    ours.prepare()
    command = Path(ours.folder, "quota")
    command.write_text(QUOTA)
    command.chmod(0o755)
    text = ours.site_file.read_text()
    text = text.replace("[session]\n", "[session]\nsessions_max = 2\n") + MORE.replace("QUOTA", str(command))
    ours.site_file.write_text(text if "sessions_max" in text else f"{text}\n[session]\nsessions_max = 2\n")
    end_all()
    ours.start()
    yield ours
    end_all()
    ours.stop()


def end_all() -> None:
    for person in ("alice", "bob"):
        sh("scancel", f"--user={person}")
    eventually(lambda: not jobs_of("alice") + jobs_of("bob"), "no job is left", within_s=60)


@pytest.fixture(scope="module")
def page(chromium: Browser, hub: Hub) -> Iterator[Page]:
    """Alice's tab."""
    context: BrowserContext = chromium.new_context(
        base_url=f"{hub.url}/", viewport={"width": 1280, "height": 860}, reduced_motion="reduce"
    )
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def card(title: str) -> str:
    """The place of a session on the home page."""
    return f'.dsp-server:has(.dsp-session-name:text-is("{title}"))'


def gpus(page: Page, count: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{count} ")).check()


def test_a_person_without_a_session_reads_how_many_there_may_be_and_how_full_the_home_is(page: Page) -> None:
    log_in(page, "alice", "alice-demo")

    expect(page.get_by_role("heading", name="My sessions")).to_be_visible()
    expect(page.get_by_text("You may have 2 at a time")).to_be_visible()
    expect(page.get_by_role("heading", name="My storage")).to_be_visible()
    expect(page.locator(".dsp-quotas")).to_contain_text("nearly full")
    assert_for_everybody(page, "70-no-session-yet")


def test_a_profile_fixes_its_part_of_the_form(page: Page) -> None:
    page.goto("hub/spawn/alice")
    page.get_by_role("link", name=re.compile("^Small course")).click()

    expect(page.get_by_role("link", name=re.compile("^Small course"))).to_have_attribute("aria-current", "true")
    expect(page.get_by_label("Hours", exact=True)).to_have_value("2")
    expect(page.get_by_label("Hours", exact=True)).to_have_attribute("readonly", "")
    expect(page.locator("input[name=gpus]")).to_have_count(1)
    assert_for_everybody(page, "71-profile")


def test_the_first_session_runs_with_it(page: Page) -> None:
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/user/alice/lab**", timeout=LAB_DEADLINE_MS)

    (job,) = jobs_of("alice")
    assert (job.state, job.partition, job.gres[-1]) == ("RUNNING", "sxm2", "1")


def test_a_second_one_with_a_name_waits_beside_it(page: Page) -> None:
    for _ in range(int(sh("sinfo", "--noheader", "--partition=sxm2", "--format=%D").strip())):
        submit_as("bob", *WHOLE_NODE)
    page.goto("hub/home")
    page.get_by_label("Its name").fill("training")
    page.get_by_role("button", name="Choose its options").click()
    gpus(page, "4 GPUs")
    page.get_by_role("button", name="Start").click()

    expect(page.get_by_role("heading", name="Your session “training” is starting")).to_be_visible()
    expect(page.locator("#progress-message")).to_contain_text("waits", timeout=60_000)
    page.goto("hub/home")
    expect(page.locator(card("Session “training”"))).to_contain_text("Waiting in the queue")
    expect(page.locator(card("Session without a name"))).to_contain_text("left at most")
    expect(page.get_by_text("You have 2 of 2 sessions.")).to_be_visible()
    assert_for_everybody(page, "72-two-sessions")


def test_its_request_is_changed_and_another_job_waits_in_its_place(page: Page) -> None:
    before = {job.id for job in jobs_of("alice")}
    page.locator(card("Session “training”")).get_by_role("button", name="See how it waits").click()
    page.get_by_role("link", name="Change the request").click()

    expect(page.locator("#place-is-lost")).to_contain_text("its place in line is lost")
    expect(page.get_by_role("radio", name=re.compile("^4 GPUs "))).to_be_checked()
    assert_for_everybody(page, "73-change-the-request")
    gpus(page, "3 GPUs")
    page.get_by_role("button", name="Change the request").click()

    page.wait_for_url("**/spawn-pending/alice/training")
    eventually(lambda: len({job.id for job in jobs_of("alice")} - before) == 1, "another job waits")
    eventually(lambda: len(jobs_of("alice")) == 2, "the one of before is taken back")
    new = max(jobs_of("alice"), key=lambda job: job.id)
    assert (new.state, new.gres[-1]) == ("PENDING", "3")


def test_it_starts_when_there_is_room_and_each_is_open_in_its_own_place(page: Page) -> None:
    sh("scancel", "--user=bob")
    page.wait_for_url("**/user/alice/training/lab**", timeout=LAB_DEADLINE_MS)
    page.goto("hub/home")

    for title in ("Session “training”", "Session without a name"):
        expect(page.locator(card(title)).locator(".dsp-state")).to_have_text("Running")
    picture(page, "74-two-sessions-run")


def test_one_is_stopped_and_the_other_goes_on(page: Page) -> None:
    page.locator(card("Session “training”")).get_by_role("button", name="Stop").click()

    eventually(lambda: [job.gres[-1] for job in jobs_of("alice")] == ["1"], "one is left", within_s=60)

    expect(page.locator(card("Session “training”"))).to_have_count(0, timeout=60_000)  # the page looks by itself

    def is_over() -> bool:
        page.goto("hub/home")
        is_told = page.get_by_text("You stopped the session.").count() > 0
        return is_told and not page.locator(card("Session “training”")).count()

    eventually(is_over, "the page tells its end", within_s=60)
    expect(page.locator(card("Session without a name")).locator(".dsp-state")).to_have_text("Running")
