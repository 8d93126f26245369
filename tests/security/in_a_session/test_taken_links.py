"""A notebook of hers that somebody else's link leads to: what she sees is not saved where the link was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.inside import home, sh
from tests.security.in_a_session.test_folders import saved
from tests.session.session_server import ARTEFACTS

THEIRS = Path("/mnt/isilon/bobs-results")
SECRET = "password = 'hers alone'"


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_a_link_of_somebody_else_led_to_is_not_saved_where_the_link_was(
    alice: tuple[Page, str], is_folder: bool
) -> None:
    page, session = alice
    hers = home("alice") / "private" / "analysis.ipynb"
    put_private(hers)
    sh("rm", "-rf", str(THEIRS))
    sh("mkdir", str(THEIRS), user="bob")
    sh("chmod", "777", str(THEIRS), user="bob")
    link = THEIRS / "results" if is_folder else THEIRS / hers.name
    sh("ln", "-s", str(hers.parent if is_folder else hers), str(link), user="bob")
    path = f"isilon/{THEIRS.name}/{'results/' * is_folder}{hers.name}"

    tab = page.context.new_page()
    puts: list[str] = []
    tab.on("request", lambda one: puts.append(one.url) if one.method == "PUT" and "/api/contents/" in one.url else None)
    gone = tab.get_by_role("dialog").filter(has_text="Directory not found")  # where JupyterLab looks just then
    tab.add_locator_handler(gone, lambda: gone.get_by_role("button").last.click())
    tab.goto(f"{session}/lab/tree/{path}")
    expect(tab.locator(".jp-Notebook .cm-content").first).to_contain_text(SECRET, timeout=60_000)
    sh("rm", str(link), user="bob")
    if is_folder:
        sh("mkdir", "-m", "777", str(link), user="bob")
    tab.locator(".jp-Notebook .cm-content").first.click()
    tab.keyboard.press("End")
    tab.keyboard.type("  # mine")
    tab.keyboard.press("Control+s")

    expect(tab.get_by_role("alert").filter(has_text="is read-only. Use")).to_be_visible()
    tab.screenshot(path=ARTEFACTS / "read-through-a-link-saved.png")
    model = {"type": "notebook", "format": "json", "content": json.loads(hers.read_text())}
    status, words = saved(page, path, model)
    assert (status, "is not saved where it was opened" in words) == (403, True)
    assert puts == []
    assert sh("find", str(THEIRS), "-name", "*.ipynb") == ""
    tab.close()


def put_private(file: Path) -> None:
    """Alice's notebook, which JupyterLab takes for changed as soon as its kernel tells its version."""
    cell: dict[str, object] = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": [SECRET],
    }
    spec = {"name": "python3", "display_name": "python3", "language": "python"}
    metadata = {"kernelspec": spec, "language_info": {"name": "python", "version": "3.0"}}
    text = json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})
    sh("rm", "-rf", str(file.parent))
    sh("mkdir", "-m", "700", str(file.parent), user="alice")
    file.write_text(text)
    sh("chown", "alice", str(file))
    file.chmod(0o600)
