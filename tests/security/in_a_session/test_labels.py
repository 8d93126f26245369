"""A click on a text of somebody else's notebook changes nothing of JupyterLab's own: no setting of who looks at it."""

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
HTML = {"output_type": "display_data", "metadata": {}, "data": {"text/html": LABEL}}
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
WAYS: dict[str, dict[str, Any]] = {
    "a text": {"cell_type": "markdown", "source": LABEL},
    "an output": {"cell_type": "code", "source": "", "execution_count": None, "outputs": [HTML]},
}


@pytest.fixture(scope="module")
def alice(alice: tuple[Page, str]) -> Iterator[tuple[Page, str]]:
    """Alice in her session, and its address; Bob has a folder that she can read."""
    sh("mkdir", "-p", "-m", "0755", str(SHARED))
    yield alice
    sh("rm", "-rf", str(SHARED), str(home("alice") / ".jupyter/lab/user-settings/@jupyterlab/htmlviewer-extension"))


@pytest.mark.parametrize("way", ["a text", of_long_form("an output")])
def test_a_label_in_what_somebody_wrote_ticks_no_setting(alice: tuple[Page, str], way: str) -> None:
    page, session = alice
    cell = {"id": "a", "metadata": {}, **WAYS[way]}
    book = {"cells": [cell], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    (SHARED / "lesson.ipynb").write_text(json.dumps(book))
    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/lesson.ipynb?reset")
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
