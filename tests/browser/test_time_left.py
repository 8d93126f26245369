"""The hours of a session and what it uses, as somebody in JupyterLab and in Notebook 7 sees them on a real cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from portal.session_usage.before_end import LOG, SCRIPT
from tests.browser.portal_page import jobs_of, log_in_as, look_sooner, picture
from tests.inside import eventually, has_no_job, home, is_root_variant, sh
from tests.lessons import lesson, write

PERSON = "grace"
LAB_DEADLINE_MS = 90_000
KNOWN_WITHIN_MS = 60_000  # Slurm tells the hub, which tells the session when it announces itself again, and it the page
USUAL_MS, SOON_MS = 60_000, 2_000  # between two questions of a page
ENDED_WITHIN_MS = 180_000  # a minute that has begun, Slurm's look, and its time for a job that is asked to end
FEW_MIN = 20
NAMES = ("in-lab.ipynb", "in-notebook-7.ipynb")
SETTINGS = ".jupyter/lab/user-settings/@jupyterlab/docmanager-extension/plugin.jupyterlab-settings"

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def address(attentive: str) -> str:
    """A portal whose sessions announce themselves every second."""
    return attentive


@pytest.fixture(scope="module", autouse=True)
def _pages_ask_soon(context: BrowserContext) -> None:
    look_sooner(context, USUAL_MS, SOON_MS)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: has_no_job(PERSON), "no job is left", within_s=60)
    for name in (*NAMES, SETTINGS, SCRIPT, LOG, "kept-by-script"):
        file(name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def notebook_7(context: BrowserContext) -> Page:
    """The tab of Notebook 7."""
    return context.new_page()


def file(name: str) -> Path:
    """A file in the person's home."""
    return home(PERSON) / name


def left(page: Page) -> Locator:
    """The small item with the time that is left."""
    return page.locator(".dsportal-TimeLeft")


def warning(page: Page) -> Locator:
    """The warning before the end."""
    return page.locator(".Toastify__toast--warning").filter(has_text="This session ends at")


def change(page: Page, text: str) -> None:
    """Type into the notebook that is open, and do not save it."""
    page.locator(".jp-CodeCell .cm-content", has_text="1 + 1").click()
    page.keyboard.type(text)


def test_a_session_shows_how_long_it_has_left(page: Page) -> None:
    for name in NAMES:
        write(file(name), lesson("1 + 1", kernel="python3"))
        sh("chown", f"{PERSON}:", str(file(name)))
    sh("mkdir", "-p", str(file(SETTINGS).parent), user=PERSON)
    file(SETTINGS).write_text('{"autosave": false}')  # only the warning is to save
    log_in_as(page, PERSON)
    page.goto(f"/hub/spawn?opt-gpus=0&opt-hours=1&next=/user/{PERSON}/lab/tree/{NAMES[0]}")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(rf"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)

    expect(left(page)).to_have_text(re.compile(r"^5\d min left$"), timeout=KNOWN_WITHIN_MS)

    picture(page, "52-time-left")


def test_notebook_7_shows_it_too(notebook_7: Page) -> None:
    notebook_7.goto(f"/user/{PERSON}/notebooks/{NAMES[1]}")

    expect(left(notebook_7)).to_have_text(re.compile(r"^5\d min left$"), timeout=LAB_DEADLINE_MS)

    picture(notebook_7, "53-time-left-in-notebook-7")


def test_what_the_session_uses_is_that_of_its_job(page: Page, notebook_7: Page) -> None:
    counted = "Memory is that of the whole job" if is_root_variant() else "There is no cgroup of the job here"
    for where, name in ((page, "lab"), (notebook_7, "notebook-7")):
        item = where.locator(".dsportal-Usage button")
        expect(item).to_have_text(re.compile(r"^[\d.]+ of \d+ GB$"))
        item.click()
        dialog = where.get_by_role("dialog").filter(has_text="What this session uses")
        expect(dialog).to_contain_text(counted)
        expect(dialog).to_contain_text(re.compile(r"Cores\d+, [\d.]+ busy"), timeout=KNOWN_WITHIN_MS)
        expect(dialog).to_contain_text("This session has no GPU.")
        expect(dialog).to_contain_text(NAMES[0], timeout=KNOWN_WITHIN_MS)
        picture(where, f"54-usage-in-{name}")
        dialog.get_by_role("button", name="Close").click()


def extend(page: Page, minutes: int, name: str) -> None:
    """Choose how much more, and press Extend."""
    dialog = page.get_by_role("dialog").filter(has_text="How much longer?")
    dialog.get_by_role("combobox").select_option(str(minutes))
    picture(page, f"54-extend-in-{name}")
    dialog.get_by_role("button", name="Extend").click()
    expect(page.locator(".Toastify__toast").filter(has_text="This session ends at")).to_contain_text(["now."])


def allow(minutes: int) -> None:
    """An administrator has the job end so many minutes after its start."""
    [job] = jobs_of(PERSON)
    sh("scontrol", "update", f"JobId={job.id}", f"TimeLimit={minutes}")


def limit() -> str:
    """Slurm's limit of the job, in hours, minutes and seconds."""
    [job] = jobs_of(PERSON)
    (found,) = re.findall(r"TimeLimit=(\S+)", sh("scontrol", "show", "job", str(job.id)))
    return str(found)


def minutes_run() -> int:
    """How many whole minutes the job runs."""
    [job] = jobs_of(PERSON)
    seconds = sh("squeue", "--noheader", f"--jobs={job.id}", "--Format=TimeUsed").strip().split(":")
    return int(seconds[-2])


def test_a_press_on_the_time_left_gives_the_session_more_time(page: Page) -> None:
    left(page).get_by_role("button").click()
    extend(page, 60, "lab")

    expect(left(page)).to_have_text(re.compile(r"^1 h 5\d min left$"))
    assert limit() == "02:00:00"


def test_when_an_administrator_takes_time_away_both_pages_warn_and_save(page: Page, notebook_7: Page) -> None:
    change(notebook_7, "# typed in Notebook 7 ")
    change(page, "# typed in Lab ")

    allow(FEW_MIN)

    for where, name, text in ((page, NAMES[0], "# typed in Lab"), (notebook_7, NAMES[1], "# typed in Notebook 7")):
        expect(warning(where)).to_contain_text(f"Saved: {name}.", timeout=KNOWN_WITHIN_MS)
        assert text in file(name).read_text()
        picture(where, f"54-warning-in-{name.removesuffix('.ipynb')}")
    expect(left(page)).to_have_text(re.compile(r"^1\d min left$"))


def test_the_warning_offers_more_time_as_often_as_the_site_allows(page: Page, notebook_7: Page) -> None:
    warning(notebook_7).get_by_role("button", name="Extend").click()
    extend(notebook_7, 30, "notebook-7")

    expect(left(notebook_7)).to_have_text(re.compile(r"^4\d min left$"))
    assert limit() == "00:50:00"
    left(page).get_by_role("button").click()
    dialog = page.get_by_role("dialog").filter(has_text="No more time")
    expect(dialog).to_contain_text("as often as this site allows (2 times).")
    dialog.get_by_role("button", name="Close").click()


def test_five_minutes_before_the_end_both_pages_save_again_and_the_persons_script_runs(
    page: Page, notebook_7: Page
) -> None:
    sh("mkdir", "-p", str(file(SCRIPT).parent), user=PERSON)
    file(SCRIPT).write_text("#!/bin/sh\ndate > kept-by-script\necho the checkpoint is written\n")
    sh("chown", f"{PERSON}:", str(file(SCRIPT)))
    file(SCRIPT).chmod(0o700)
    change(notebook_7, "# minutes before ")
    change(page, "# minutes before ")

    allow(minutes_run() + 5)

    for where, name in ((page, NAMES[0]), (notebook_7, NAMES[1])):
        last = warning(where).filter(has_text=re.compile(r"in [45] min\."))
        expect(last).to_contain_text(f"Saved: {name}.", timeout=KNOWN_WITHIN_MS)
        assert "# minutes before" in file(name).read_text()
        told = where.locator(".Toastify__toast").filter(has_text="before-end has finished.")
        expect(told).to_contain_text("It said: the checkpoint is written", timeout=KNOWN_WITHIN_MS)
        picture(where, f"54-last-minutes-in-{name.removesuffix('.ipynb')}")
    assert file("kept-by-script").owner() == PERSON


def test_the_page_at_slurms_own_end_says_what_was_saved_and_what_was_not(page: Page, notebook_7: Page) -> None:
    [job] = jobs_of(PERSON)
    change(page, "# typed after that ")
    allow(minutes_run() + 1)

    for where, words in (
        (page, f"still in this page: stay here to copy them ({NAMES[0]})."),
        (notebook_7, "Nothing that is open in this page has changes that are not saved."),
    ):
        told = where.get_by_role("dialog").filter(has_text="This session has ended")
        expect(told).to_be_visible(timeout=ENDED_WITHIN_MS)
        expect(told).to_contain_text("before the end, this page saved what was open.")
        expect(told).to_contain_text(words)
        picture(where, f"55-what-was-saved-{'lab' if where is page else 'notebook-7'}")
    assert "# typed after that" not in file(NAMES[0]).read_text()
    eventually(lambda: "TIMEOUT" in sh("sacct", "-nX", "-j", str(job.id), "-o", "State"), "Slurm's own end")
