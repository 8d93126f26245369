"""Jobs from JupyterLab and Notebook 7, as a person runs them: a file is chosen, followed, opened and cancelled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.portal_page import assert_accessible, look_sooner
from tests.forms import of_long_form
from tests.inside import eventually, jobs_of, sh
from tests.session.conftest import window
from tests.session.session_server import Server
from tests.session.test_lab import Picture, item, new_tab, open_lab, open_notebook_7, tile

RUN = "Run as a Slurm Job…"
LOOKS_MS = (15_000, 30_000, 60_000)  # between two looks at the jobs, while they are the same
SOON_MS = 1_000


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A window whose list of jobs is looked at sooner."""
    with window(browser, server) as opened:
        for usual_ms in LOOKS_MS:
            look_sooner(opened.context, usual_ms, SOON_MS)
        yield opened


@pytest.fixture
def lesson_file(server: Server) -> Iterator[str]:
    """A notebook of the person's; no job is left in the end."""
    kernel = {"name": "plain", "display_name": "Python 3", "language": "python"}
    cell = nbformat.v4.new_code_cell("print('out of', 'the job')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel}), server.home / "night.ipynb")
    yield "night.ipynb"
    for job_id in jobs_of("root"):
        sh("scancel", job_id)


def run_dialog(page: Page, name: str, path: str = "") -> Locator:
    """The dialog for a file, from its menu; its path where the file browser is in a folder."""
    item(page, name).click()
    item(page, name).click(button="right")
    page.get_by_role("menuitem", name=RUN).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label(re.compile("^File"))).to_have_value(path or name)
    return dialog


def shown_job(page: Page, name: str) -> Locator:
    return page.locator("#dsportal-jobs li", has_text=name).first


def test_a_notebook_runs_as_a_job_and_its_log_and_output_are_opened(
    page: Page, server: Server, lesson_file: str, picture: Picture
) -> None:
    open_lab(page, server)
    dialog = run_dialog(page, lesson_file)
    dialog.get_by_label("Hours").fill("0.5")
    picture(page, "dialog")
    dialog.get_by_role("button", name="Submit").click()

    job = shown_job(page, lesson_file)
    expect(job).to_contain_text("done")
    picture(page, "panel")
    assert_accessible(page, "jobs", "#dsportal-jobs")
    job.get_by_role("button", name="Log").click()
    log = page.locator(".dsportal-Log")
    expect(log).to_contain_text(re.compile(r"done: .*/night-\d+\.ipynb"))
    expect(log.get_by_role("status")).to_contain_text("The job has ended.")
    job.get_by_role("button", name="Output").click()
    expect(page.locator(".jp-OutputArea-output", has_text="out of the job")).to_be_visible()
    picture(page, "output")


def test_a_job_that_waits_says_why_and_is_cancelled(page: Page, server: Server, lesson_file: str) -> None:
    (server.home / "later.sh").write_text("#!/bin/sh\n#SBATCH --begin=now+1hour\nsleep 600\n")
    open_lab(page, server)
    tile(page, "Run as a Slurm Job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^File")).fill("later.sh")
    dialog.get_by_role("button", name="Submit").click()

    job = shown_job(page, "later.sh")
    expect(job).to_contain_text("waits: it was put off until then; Slurm expects it to start at")
    job.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(job).to_contain_text("cancelled")


def test_what_slurm_refuses_is_said_in_words(page: Page, server: Server, lesson_file: str) -> None:
    open_lab(page, server)
    dialog = run_dialog(page, lesson_file)
    dialog.get_by_label("Partition").fill("nope")
    dialog.get_by_role("button", name="Submit").click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is no such partition")
    expect(dialog.get_by_label("Partition")).to_have_value("nope")


@pytest.mark.long
def test_notebook_7_runs_a_file_as_well(page: Page, server: Server, lesson_file: str, picture: Picture) -> None:
    open_notebook_7(page, server)
    run_dialog(page, lesson_file).get_by_role("button", name="Submit").click()
    job = shown_job(page, lesson_file)
    expect(job).to_contain_text("done")

    job.get_by_role("button", name="Log").click()
    expect(page.locator(".dsportal-Log")).to_contain_text(re.compile(r"done: .*/night-\d+\.ipynb"))
    picture(page, "log")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    tab = new_tab(page, job.get_by_role("button", name="Output"))
    expect(tab.locator(".jp-OutputArea-output", has_text="out of the job")).to_be_visible()


PLACES = {"lab": "lab/tree/", "notebook-7": "notebooks/"}


def open_changed(page: Page, server: Server, place: str, name: str) -> None:
    """The notebook is open, with a change that is not in its file."""
    page.goto(f"{server.url}{PLACES[place]}{name}{'?reset' if place == 'lab' else ''}")
    cell = page.locator(".jp-Notebook .cm-content").first
    expect(cell).to_contain_text("out of")
    cell.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("; changed = 1")


def submit_open(page: Page, server: Server, name: str) -> None:
    """The dialog has the open notebook, and what is submitted has its change."""
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label(re.compile("^File"))).to_have_value(name)
    expect(dialog).to_contain_text(f"{name} has changes: it is saved before the job is submitted.")
    assert "changed" not in (server.home / name).read_text()
    with (
        page.expect_request(lambda asked: asked.method == "PUT" and f"api/contents/{name}" in asked.url) as saved,
        page.expect_request(lambda asked: asked.method == "POST" and "dsportal/api/jobs" in asked.url) as ordered,
    ):
        dialog.get_by_role("button", name="Submit").click()
    numbers = {asked.value.headers["x-portal-number"] for asked in (saved, ordered)}
    assert (len(numbers), saved.value.headers.get("x-portal-open")) == (1, "yes"), "by the page that shows it"
    (shown,) = (ordered.value.post_data_json or {})["shown"]
    assert ["changed = 1" in cell["source"] for cell in shown["cells"]] == [True], "as it shows it"
    expect(page.get_by_text(re.compile(rf"Job \d+ is submitted\. Saved: {name}\."))).to_be_visible()
    assert "changed = 1" in (server.home / name).read_text()
    expect(shown_job(page, name)).to_contain_text("done")


@pytest.mark.parametrize("place", ["lab", of_long_form("notebook-7")])
def test_a_button_above_the_open_notebook_saves_it_and_runs_it_as_a_job(
    page: Page, server: Server, lesson_file: str, picture: Picture, place: str
) -> None:
    open_changed(page, server, place, lesson_file)
    page.locator(".jp-NotebookPanel-toolbar").get_by_title("Run as a Slurm job").click()
    picture(page, "dialog")
    submit_open(page, server, lesson_file)


@pytest.mark.parametrize("place", [of_long_form("lab"), "notebook-7"])
def test_the_palette_is_about_the_open_notebook(page: Page, server: Server, lesson_file: str, place: str) -> None:
    open_changed(page, server, place, lesson_file)
    page.keyboard.press("Escape")
    eventually(lambda: has_opened_palette(page), "the palette is open", within_s=60)
    page.locator(".lm-CommandPalette-input").fill("Run as a Slurm Job")
    page.keyboard.press("Enter")
    submit_open(page, server, lesson_file)


def has_opened_palette(page: Page) -> bool:
    """Whether its keys have opened the palette: a page takes them a while after it shows its notebook."""
    page.keyboard.press("Control+Shift+c")
    with suppress(PlaywrightTimeoutError):
        page.locator(".lm-CommandPalette-input").wait_for(timeout=5_000)
        return True
    return False


def test_a_notebook_that_cannot_be_saved_is_not_submitted(page: Page, server: Server, lesson_file: str) -> None:
    open_changed(page, server, "lab", lesson_file)
    page.route(
        "**/api/contents/**", lambda route: route.abort() if route.request.method == "PUT" else route.continue_()
    )
    page.locator(".jp-NotebookPanel-toolbar").get_by_title("Run as a Slurm job").click()
    page.get_by_role("dialog").get_by_role("button", name="Submit").click()
    page.get_by_role("dialog", name="File Save Error").get_by_role("button", name="Close").click()  # JupyterLab's own
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        f"No job is submitted. Not saved: {lesson_file}"
    )
    assert jobs_of("root") == []


def test_notebook_7_has_the_form_in_its_new_menu(page: Page, server: Server) -> None:
    open_notebook_7(page, server)
    page.locator(".jp-DropdownMenu .lm-MenuBar-item").click()
    page.locator(".lm-Menu-item", has_text=RUN).click()
    expect(page.get_by_role("dialog").get_by_label(re.compile("^File"))).to_have_value("")


def test_one_that_was_moved_into_a_sidebar_is_open_as_well(page: Page, server: Server, lesson_file: str) -> None:
    open_changed(page, server, "lab", lesson_file)
    page.get_by_role("tab", name=lesson_file).click(button="right")
    page.locator(".lm-Menu-item", has_text="Move Widget").hover()
    page.locator(".lm-Menu-item", has_text="Right Sidebar").click()
    expect(page.locator("#jp-right-stack .jp-Notebook")).to_be_visible()
    run_dialog(page, lesson_file)
    submit_open(page, server, lesson_file)


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_read_beside_an_open_notebook_says_that_it_is_open(
    page: Page, server: Server, lesson_file: str, is_link: bool
) -> None:
    """It may be another file by then than the notebook shows; a link may lead to its name with a slash more."""

    def is_read(asked: Request) -> bool:
        return asked.method == "GET" and f"api/contents/{lesson_file}?" in asked.url and "content=1" in asked.url

    lesson = nbformat.read(server.home / lesson_file, as_version=4)
    cell = nbformat.v4.new_markdown_cell(f"[the notebook]({lesson_file}%2F)")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=dict(lesson.metadata)), server.home / "link.ipynb")
    with page.expect_request(is_read) as first:
        page.goto(f"{server.url}lab/tree/{'link.ipynb' if is_link else lesson_file}?reset")
        if is_link:
            page.get_by_role("link", name="the notebook").click()
    expect(page.locator(".jp-Notebook .cm-content", has_text="out of")).to_be_visible()
    with page.expect_request(is_read) as second:
        item(page, lesson_file).click(button="right")
        page.locator(".lm-Menu-item", has_text="Open With").hover()
        page.locator(".lm-Menu-item", has_text=re.compile("^Editor$")).click()
    assert [asked.value.headers.get("x-portal-open") for asked in (first, second)] == [None, "yes"]


def test_what_a_colleague_changes_under_an_open_page_is_not_submitted(page: Page, server: Server) -> None:
    team = server.home / "team"
    team.mkdir(exist_ok=True)
    team.chmod(0o777)
    (team / "theirs.sh").write_text("#!/bin/sh\necho seen\n")
    os.chown(team / "theirs.sh", 54321, 54321)
    page.goto(f"{server.url}lab/tree/team/theirs.sh?reset")
    expect(page.locator(".jp-FileEditor .cm-content")).to_contain_text("echo seen")
    run_dialog(page, "theirs.sh", "team/theirs.sh").get_by_role("button", name="Submit").click()
    expect(page.get_by_text(re.compile(r"Job \d+ is submitted"))).to_be_visible()

    (team / "theirs.sh").write_text("#!/bin/sh\necho unseen\n")
    page.get_by_role("tab", name=re.compile("^File Browser")).click()
    run_dialog(page, "theirs.sh", "team/theirs.sh").get_by_role("button", name="Submit").click()

    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        re.compile("more or less is in it than this page shows.* or save it as yours")
    )


def test_what_is_loaded_instead_of_saved_is_looked_at_first(page: Page, server: Server) -> None:
    """JupyterLab asks what to do with a file that has changed on the disk; then the page shows what nobody has read."""
    (server.home / "mine.sh").write_text("#!/bin/sh\necho seen\n")
    page.goto(f"{server.url}lab/tree/mine.sh?reset")
    page.locator(".jp-FileEditor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("# changed")
    (server.home / "mine.sh").write_text("#!/bin/sh\necho unseen\n")
    later = (server.home / "mine.sh").stat().st_mtime + 60
    os.utime(server.home / "mine.sh", (later, later))
    run_dialog(page, "mine.sh").get_by_role("button", name="Submit").click()

    page.get_by_role("dialog").get_by_role("button", name="Revert").click()

    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("mine.sh shows something else now. Look at it first")
    assert jobs_of("root") == []
    dialog.get_by_role("button", name="Submit").click()
    expect(page.get_by_text(re.compile(r"Job \d+ is submitted"))).to_be_visible()


def test_a_name_with_a_line_feed_is_submitted_as_it_is(page: Page, server: Server, lesson_file: str) -> None:
    """A field of a dialog has none, and somebody may have left another folder that is called as the rest of it."""
    odd = server.home / "odd\n"
    odd.mkdir(exist_ok=True)
    (server.home / lesson_file).rename(odd / lesson_file)
    page.goto(f"{server.url}lab/tree/odd%0A/{lesson_file}?reset")
    expect(page.locator(".jp-Notebook .cm-content").first).to_contain_text("out of")
    page.locator(".jp-NotebookPanel-toolbar").get_by_title("Run as a Slurm job").click()
    with page.expect_request(lambda asked: asked.method == "POST" and "dsportal/api/jobs" in asked.url) as ordered:
        page.get_by_role("dialog").get_by_role("button", name="Submit").click()
    order = ordered.value.post_data_json or {}
    assert (order["file"], len(order["shown"])) == (f"odd\n/{lesson_file}", 1)
