"""Starts that come to nothing: what the person reads, and the way back to the options."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.portal_page import assert_accessible, jobs_of, log_in_as, picture, submit_as
from tests.inside import eventually, sh

PERSON = "frank"
SHORT = "requestq"


@pytest.fixture(scope="module", autouse=True)
def _frank(page: Page) -> None:
    log_in_as(page, PERSON)


@pytest.fixture(autouse=True)
def _no_job_stays() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: not jobs_of(PERSON), "no job is left")


@pytest.fixture
def full_cluster() -> Iterator[None]:
    """No GPU is free: whoever wants one waits."""
    job = submit_as("grace", "--partition=requestq", "--nodes=4", "--gres=gpu:4", "--wrap=sleep 600")
    eventually(lambda: [j for j in jobs_of("grace") if j.state == "RUNNING"], "grace has all GPUs")
    yield
    sh("scancel", str(job))
    eventually(lambda: not jobs_of("grace"), "grace's job is gone")


@pytest.fixture
def short_partition() -> Iterator[None]:
    """Slurm allows less time than the portal's settings say; in a partition that the form chooses for nobody.

    The hub believes what it has heard of a partition for five minutes, and fills in no more hours meanwhile.
    """
    before = re.search(r"MaxTime=(\S+)", sh("scontrol", "show", "partition", SHORT))
    assert before
    sh("scontrol", "update", f"PartitionName={SHORT}", "MaxTime=60")
    yield
    sh("scontrol", "update", f"PartitionName={SHORT}", f"MaxTime={before[1]}")


def start(page: Page, gpus: int, partition: str = "sxm2") -> None:
    """Start a session with the form."""
    page.goto(f"/hub/spawn/{PERSON}")
    page.get_by_role("radio", name=re.compile(f"^{partition} ")).check()
    page.get_by_label("Hours", exact=True).fill("8")  # the form may have put fewer there, which Slurm takes
    page.get_by_role("radio", name=re.compile(f"^{gpus} GPU")).check()
    page.get_by_role("button", name="Start").click()


def start_and_kill(page: Page) -> None:
    """Start a session whose job is killed before its server answers: that one starts in half a second."""
    with ThreadPoolExecutor(1) as pool:
        stop = ("pkill", "-STOP", "--uid", PERSON, "--full", "portal.singleuser.server")
        stopped = pool.submit(eventually, lambda: not subprocess.call(stop), "the server starts", every_s=0.01)
        start(page, 0)
        stopped.result()
    [job] = jobs_of(PERSON)
    sh("scancel", "--full", "--signal=KILL", str(job.id))


def test_slurms_own_words_are_on_the_page_when_it_refuses(page: Page, short_partition: None) -> None:
    start(page, 1, SHORT)

    expect(page.get_by_text("Slurm did not accept")).to_be_visible()
    expect(page.get_by_role("region", name="Details")).to_contain_text(re.compile("time limit", re.IGNORECASE))
    assert_accessible(page, "refused start")
    picture(page, "30-refused-by-slurm")
    assert not jobs_of(PERSON)


def test_a_job_that_is_killed_before_its_server_answers_is_told_with_a_way_back(page: Page) -> None:
    start_and_kill(page)

    expect(page.get_by_role("heading", name="The session did not start")).to_be_visible(timeout=15_000)
    assert_accessible(page, "failed start")
    picture(page, "31-job-died")
    page.get_by_role("link", name="Back to the options").click()
    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()


def test_a_page_that_is_opened_later_tells_the_failure_too(page: Page) -> None:
    start_and_kill(page)
    expect(page.get_by_role("heading", name="The session did not start")).to_be_visible(timeout=15_000)
    page.reload()

    expect(page.get_by_role("heading", name="The session did not start")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("The session")
    page.get_by_role("button", name="Back to the options").click()
    expect(page.get_by_role("heading", name="Start a session")).to_be_visible()


def test_a_waiting_session_can_be_cancelled_and_its_job_is_gone(page: Page, full_cluster: None) -> None:
    start(page, 1)
    eventually(lambda: [j for j in jobs_of(PERSON) if j.state == "PENDING"], "the job waits")
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("heading", name="The start was cancelled")).to_be_visible(timeout=15_000)
    eventually(lambda: not jobs_of(PERSON), "the job has left squeue")
    picture(page, "32-cancelled")
    page.goto("/hub/home")
    expect(page.get_by_role("heading", name="Not running")).to_be_visible()


def test_without_javascript_a_person_logs_in_starts_and_sees_the_wait(
    chromium: Browser, address: str, full_cluster: None
) -> None:
    with chromium.new_context(base_url=address, java_script_enabled=False) as context:
        page = context.new_page()
        log_in_as(page, PERSON)
        page.get_by_role("button", name="Start My Server").click()
        page.get_by_role("radio", name=re.compile("^2 GPUs")).check()
        page.get_by_role("button", name="Start").click()

        expect(page.get_by_role("heading", name="Your session is starting")).to_be_visible()
        [job] = eventually(lambda: jobs_of(PERSON), "the job is in the queue")
        assert re.search(r"gpu(:\w+)?:2\b", job.gres)
        expect(page.locator("meta[http-equiv=refresh]")).to_be_attached()
