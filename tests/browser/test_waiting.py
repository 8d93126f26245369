"""A session that has to wait: the page tells its place in the queue, what is free, and what comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.browser.portal_page import assert_accessible, log_in_as, picture
from tests.inside import eventually, jobs_of, sh

FULL_NODE = ("--gres=gpu:4", "--partition=sxm2", "--time=60", "--output=/dev/null", "--wrap=sleep 600")


@pytest.fixture
def full_cluster() -> Iterator[None]:
    """Every GPU of sxm2 is in use, one more job of somebody else waits; a session is over before the maintenance."""
    begins = datetime.now() + timedelta(hours=20)
    sh("scontrol", "create", "reservation", "ReservationName=upgrade", f"StartTime={begins:%Y-%m-%dT%H:%M:%S}",
       "Duration=120", "Flags=MAINT", "Nodes=ALL", "Users=root")  # fmt: skip
    nodes = int(sh("sinfo", "--noheader", "--partition=sxm2", "--format=%D"))
    for _ in range(nodes + 1):
        sh("sbatch", *FULL_NODE, user="bob")
    all_but_one = ["PD", *["R"] * nodes]  # the last node may still be cleaned up behind somebody else's job
    eventually(lambda: sorted(sh("squeue", "-h", "-u", "bob", "-o", "%t").split()) == all_but_one, "the last one waits")
    yield
    sh("scancel", "--user=alice")
    sh("scancel", "--user=bob")
    sh("scontrol", "delete", "ReservationName=upgrade")
    eventually(lambda: not jobs_of("alice") + jobs_of("bob"), "no job is left")


@pytest.mark.usefixtures("full_cluster")
def test_the_page_tells_the_place_in_the_queue_and_what_is_free(page: Page) -> None:
    log_in_as(page, "alice")
    page.goto("/hub/spawn?gpus=1")
    page.get_by_role("button", name="Start").click()

    words = page.locator("#progress-message")
    expect(words).to_contain_text("waits", timeout=30_000)
    expect(words).to_contain_text("1 job is ahead of it.", timeout=30_000)
    expect(words).to_contain_text("No GPU is free now.", timeout=40_000)
    picture(page, "waiting")
    assert_accessible(page, "the waiting page")

    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="Waiting in the queue")).to_be_visible()
    expect(page.locator(".dsp-server")).to_contain_text("waits")
    expect(page.get_by_text("Started", exact=True)).to_have_count(0)
    assert_accessible(page, "the server page while the session waits")
    picture(page, "waiting-server-page")

    page.get_by_role("button", name="See how it waits").click()
    page.get_by_role("button", name="Cancel").click()
    eventually(lambda: not jobs_of("alice"), "the job is gone", within_s=30)
