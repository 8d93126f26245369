"""A text of somebody else's notebook lies over nothing of JupyterLab's own, and a click on it changes nothing there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.forms import of_long_form
from tests.inside import home, sh

SHARED = Path("/mnt/isilon/bobs-labels")
SETTING = "jp-SettingsEditor-@jupyterlab/htmlviewer-extension:plugin_trustByDefault"
LABEL = f"<p><label accesskey='7' class='of-bob' for='{SETTING}'>Show the hint</label></p>"
STYLE = "left:0px;top:0px;width:3000px;height:3000px;background:#ffffff;padding:20px 700px;z-index:1000"
COVER = f'<form method="post" action="/"><div inert class="jp-HoverBox of-bob" style="{STYLE}">Hint</div></form>'
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
# What lies on a button of the first cell, and what the text is by now.
LIES_THERE = """() => {
  const button = document.querySelector('.jp-cell-toolbar [data-command="notebook:duplicate-below"]');
  const box = button.getBoundingClientRect();
  const there = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  const text = document.querySelector('.of-bob');
  return [button.contains(there) || there.contains(button), text.inert, Boolean(text.closest('form'))];
}"""


@pytest.fixture(scope="module")
def alice(alice: tuple[Page, str]) -> Iterator[tuple[Page, str]]:
    """Alice in her session, and its address; Bob has a folder that she can read."""
    sh("mkdir", "-p", "-m", "0755", str(SHARED))
    yield alice
    sh("rm", "-rf", str(SHARED), str(home("alice") / ".jupyter/lab/user-settings/@jupyterlab/htmlviewer-extension"))


def as_cell(way: str, html: str) -> dict[str, Any]:
    """A cell that shows a text of Bob's."""
    if way == "a text":
        return {"cell_type": "markdown", "source": html}
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": html}}
    return {"cell_type": "code", "source": "", "execution_count": 1, "outputs": [output]}


def opened(page: Page, session: str, cells: list[dict[str, Any]]) -> None:
    """Alice opens a notebook of Bob's."""
    named = [{"id": f"cell-{number}", "metadata": {}, **cell} for number, cell in enumerate(cells)]
    book = {"cells": named, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    (SHARED / "lesson.ipynb").write_text(json.dumps(book))
    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/lesson.ipynb?reset")


@pytest.mark.parametrize("way", ["a text", "an output"])
def test_a_text_lies_over_no_button_and_code_but_its_own(alice: tuple[Page, str], way: str) -> None:
    page, session = alice
    own: dict[str, Any] = {"cell_type": "code", "source": "1", "execution_count": None, "outputs": []}

    opened(page, session, [own, as_cell(way, COVER)])
    page.locator(".of-bob").wait_for(state="attached", timeout=60_000)
    page.locator(".jp-cell-toolbar [data-command='notebook:duplicate-below']").wait_for(state="attached")

    page.wait_for_timeout(1000)  # where it is drawn in the end
    assert page.evaluate(LIES_THERE) == [True, False, False]


@pytest.mark.parametrize("way", ["a text", of_long_form("an output")])
def test_a_label_in_what_somebody_wrote_ticks_no_setting(alice: tuple[Page, str], way: str) -> None:
    page, session = alice
    opened(page, session, [as_cell(way, LABEL)])
    expect(page.locator(".of-bob")).to_be_visible(timeout=60_000)
    page.keyboard.press("Control+,")
    box = page.locator(f'[id="{SETTING}"]')
    expect(box).to_be_attached(timeout=60_000)
    before = box.is_checked()
    page.get_by_role("tab", name="lesson.ipynb").click()

    page.locator(".of-bob").click()
    page.wait_for_timeout(1000)
    expect(box).to_be_checked(checked=before)
    page.keyboard.press("Alt+7")
    page.wait_for_timeout(1000)
    expect(box).to_be_checked(checked=before)
