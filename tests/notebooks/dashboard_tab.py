"""A cluster of Dask or Ray in a notebook of a real session: its dashboard in a tab, behind the hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.portal_page import LAB_DEADLINE_MS, log_in_as, start_lab
from tests.browser.tool_page import opened_by
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, home, sh
from tests.notebooks.jobs import PERSON, TEMPLATES, no_job_is_left

# The first lines of a cell that makes a cluster, and the last ones, which show its dashboard's address.
BEGIN = f"""
import os, sys
from pathlib import Path
from IPython.display import HTML, display
sys.path.insert(0, "{TEMPLATES}/{{framework}}")
"""
SHOW = """
display(HTML('<a href="' + cluster.dashboard_link + '" target="_blank">The dashboard</a>'))
"""
FOLDER = "dashboard-tab"  # of a cluster's own files, in the home


@contextmanager
def browser_of_a_session() -> Iterator[Browser]:
    """A browser that ends with the test, as the person's session does, and what that leaves in the home."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
            sh("scancel", f"--user={PERSON}")
            no_job_is_left()
            left = (FOLDER, "Untitled.ipynb", ".jupyter/lab/workspaces")
            sh("rm", "-rf", *(str(home(PERSON) / one) for one in left))


def open_notebook(browser: Browser, address: str, kernel: str) -> Page:
    """A new session's JupyterLab with an empty notebook, whose kernel (the begin of its title) waits for work."""
    lab = browser.new_context(base_url=address).new_page()
    start_lab(lab, PERSON)
    lab.locator(f'.jp-LauncherCard[data-category="Notebook"][title^="{kernel}"]').click(timeout=LAB_DEADLINE_MS)
    expect(lab.get_by_text(re.compile(rf"{kernel} \S+ \| Idle"))).to_be_visible(timeout=LAB_DEADLINE_MS)
    return lab


def run_cell(lab: Page, text: str) -> None:
    """Write a text into the last cell of the notebook, and run it."""
    lab.locator(".jp-Notebook .jp-Cell .cm-content").last.click()
    lab.keyboard.insert_text(text)
    lab.keyboard.press("Shift+Enter")


def printed(lab: Page, pattern: str) -> re.Match[str]:
    """What a cell prints: the first line that has the pattern in it."""
    line = lab.locator(".jp-Notebook .jp-OutputArea-output").get_by_text(re.compile(pattern)).first
    expect(line).to_be_visible(timeout=LAB_DEADLINE_MS)
    found = re.search(pattern, line.inner_text())
    assert found
    return found


def open_dashboard(lab: Page) -> Page:
    """The tab that the address opens."""
    link = lab.get_by_role("link", name="The dashboard")
    expect(link).to_be_visible(timeout=LAB_DEADLINE_MS)
    return opened_by(lab, link)


def refuses(browser: Browser, address: str, tab: Page, person: str) -> bool:
    """Whether somebody else who is logged in gets a refusal at the address of a tab."""
    other = browser.new_context(base_url=address).new_page()
    log_in_as(other, person)
    answer = other.goto(tab.url)
    return answer is not None and answer.status == 403
