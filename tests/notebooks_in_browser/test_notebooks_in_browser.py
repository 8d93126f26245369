"""Every notebook template as a new person sees it: opened in JupyterLab, run with its own values, seen to its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from portal.data import folder
from portal.notebooks.catalogue import templates
from portal.notebooks.template import Template
from tests.browser.portal_page import log_in_as, picture
from tests.inside import eventually, home, sh
from tests.notebooks import table

PERSON = "heidi"  # nobody else's tests start sessions for her
LAB_DEADLINE_MS = 90_000
PATIENCE = 4  # times the minutes on a template's card, on machines that are slower or busy
KEPT = Path(os.environ.get("DSPORTAL_ARTEFACTS", "/tmp")) / "notebooks_in_browser"
TEMPLATES = templates(folder("notebooks"))


@pytest.fixture(scope="module")
def lab(page: Page) -> Iterator[Page]:
    """JupyterLab of a person whose home is empty, in a session with one GPU, its cores and its memory."""
    for left_over in home(PERSON).iterdir():
        shutil.rmtree(left_over) if left_over.is_dir() and not left_over.is_symlink() else left_over.unlink()
    log_in_as(page, PERSON)
    page.get_by_role("button", name="Start My Server").click()
    page.get_by_role("radio", name="1 GPU 8 cores").check()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(f"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)
    yield page
    sh("scancel", f"--user={PERSON}")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_person_opens_the_template_and_sees_it_finish(lab: Page, template: Template) -> None:
    started, status = time.monotonic(), 1
    try:
        with opened(lab, template):
            run_all_cells(lab)
            within_s = 60 * (2 + PATIENCE * template.minutes_cpu)
            cells = eventually(lambda: finished(lab, template), f"{template.name} is at its end", within_s, every_s=5)
            assert [f"{cell['id']}: {error['evalue']}" for cell in cells for error in errors(cell)] == []
        status = 0
    finally:
        table.record(template.name, status, time.monotonic() - started, os.environ["PYTEST_CURRENT_TEST"])


def test_the_link_in_a_lesson_opens_tensorboard_with_its_profile(lab: Page, context: BrowserContext) -> None:
    (template,) = (one for one in TEMPLATES if one.name == "tensorflow/tensorboard")
    with opened(lab, template):  # as the walk above left it
        with context.expect_page() as tab:
            lab.get_by_role("link", name=re.compile("^Open TensorBoard on ")).click()
        board = tab.value
        board.get_by_role("tab", name="Profile").click(timeout=LAB_DEADLINE_MS)
        profile = board.frame_locator("iframe")
        profile.get_by_role("combobox", name="Overview Page").click(timeout=LAB_DEADLINE_MS)
        profile.get_by_role("option", name="Trace Viewer").click()
        processes = profile.frame_locator("iframe").locator(".process-track-name")
        expect(processes).to_contain_text("/host:CPU", timeout=LAB_DEADLINE_MS)
        picture(board, "tensorboard-profile")
        board.close()


@contextmanager
def opened(page: Page, template: Template) -> Iterator[None]:
    """The template in JupyterLab; at the end what it showed is kept, and its kernel is ended."""
    open_from_the_file_browser(page, template)
    try:
        yield
    finally:
        keep(page, template)
        close(page)


def entry(page: Page, name: str) -> Locator:
    """An entry of the file browser."""
    return page.locator(".jp-DirListing-item", has=page.get_by_text(name, exact=True))


def open_from_the_file_browser(page: Page, template: Template) -> None:
    """A new copy in the home, or the one that is there; the kernel that it names starts without a question."""
    framework, name = template.name.split("/")
    page.locator(".jp-BreadCrumbs-home").click()
    is_new = not file_of(template).exists()
    for step in ("templates", framework) if is_new else (f"{framework}-{name}", f"{name}.ipynb"):
        entry(page, step).dblclick()
    if is_new:
        entry(page, f"{name}.ipynb").click(button="right")
        page.locator(".lm-Menu-item", has_text="New from Template").click()
        page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=template.title)).to_be_visible()
    expect(page.get_by_text(re.compile(r" \| Idle$"))).to_be_visible(timeout=LAB_DEADLINE_MS)


def run_all_cells(page: Page) -> None:
    """As the templates' own first lines say."""
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Restart Kernel and Run All Cells")).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()


def finished(page: Page, template: Template) -> list[dict[str, Any]]:
    """The code cells of the saved notebook once all of them ran, or one failed; [] before."""
    page.keyboard.press("Control+s")
    try:
        notebook = json.loads(file_of(template).read_bytes())
    except ValueError:  # it is being written
        return []
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return cells if any(map(errors, cells)) or all(cell["execution_count"] for cell in cells) else []


def errors(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The errors that a code cell shows."""
    return [output for output in cell["outputs"] if output["output_type"] == "error"]


def file_of(template: Template) -> Path:
    """The person's own copy."""
    return home(PERSON) / template.name.replace("/", "-") / template.path.name


def keep(page: Page, template: Template) -> None:
    """The notebook with all that it showed, and a picture of where it stands."""
    name = template.name.replace("/", "-")
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.copy(file_of(template), KEPT / f"{name}.ipynb")
    picture(page, f"notebook-{name}")


def close(page: Page) -> None:
    """Close the notebook and end its kernel: the next template has the memory for itself."""
    page.get_by_role("menuitem", name="File", exact=True).click()
    page.get_by_role("menuitem", name="Close and Shut Down Notebook").click()
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(page.locator(".jp-NotebookPanel")).to_have_count(0)
