"""A path that leads out of the files: JupyterLab asks for what lies there, and a file is no server's answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.forms import of_long_form
from tests.inside import eventually, sh
from tests.security.in_a_session.test_folders import kernels_ended

THEIRS = Path("/mnt/isilon/bobs-answer")
OUT = f"..%2F..%2Ffiles%2Fisilon%2F{THEIRS.name}%2Fanswer.ipynb"
SCRIPT = "<b>bob was here</b><script>document.title = 'taken'; window.taken = true</script>"
LINKED = "links.ipynb"


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    """A notebook of Python."""
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    numbered = [{"id": f"cell{number}", "metadata": {}, **cell} for number, cell in enumerate(cells)]
    return {"cells": numbered, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture(scope="module", autouse=True)
def _theirs() -> Iterator[None]:
    """Bob leaves what looks like the server's answer, with a notebook that calls itself trusted, and links to it."""
    sh("rm", "-rf", str(THEIRS))
    sh("mkdir", str(THEIRS), user="bob")
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/html": SCRIPT}}
    code = {"cell_type": "code", "execution_count": 1, "source": "1", "metadata": {"trusted": True}}
    moment = "2026-11-30T10:00:00Z"
    answer = {
        "name": "answer.ipynb",
        "path": "answer.ipynb",
        "type": "notebook",
        "format": "json",
        "mimetype": None,
        "created": moment,
        "last_modified": moment,
        "writable": True,
        "size": 10,
        "hash": None,
        "hash_algorithm": None,
        "content": notebook({**code, "outputs": [output]}),
    }
    links = f"[below](../../{OUT})\n\n[up](..%2F{OUT})\n\n[at the top](/{OUT})"
    for name, content in (("answer.ipynb", answer), (LINKED, notebook({"cell_type": "markdown", "source": links}))):
        (THEIRS / name).write_text(json.dumps(content))
        sh("chown", "bob", str(THEIRS / name))
    yield
    sh("rm", "-rf", str(THEIRS))


@pytest.fixture
def tab(alice: tuple[Page, str]) -> Iterator[tuple[Page, list[str]]]:
    """A window of alice's, and what it asks for of those bytes."""
    page = alice[0].context.new_page()
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/files/" in request.url.partition("?")[0]:
            asked.append(request.url)

    page.on("request", note)
    yield page, asked
    page.close()
    eventually(lambda: kernels_ended(alice[0]), "no kernel of a notebook is left to other tests")


@pytest.mark.parametrize(
    "place",
    [f"lab/tree/{OUT}", f"lab?file-browser-path={OUT}", *map(of_long_form, (f"doc/tree/{OUT}", f"edit/{OUT}"))],
)
def test_a_link_with_one_leads_to_her_own_page(
    alice: tuple[Page, str], tab: tuple[Page, list[str]], place: str
) -> None:
    page, asked = tab
    page.goto(f"{alice[1]}/{place}")

    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=60_000)
    assert "answer.ipynb" not in page.url
    assert not asked


@pytest.mark.parametrize("word", ["up", *map(of_long_form, ("below", "at the top"))])
def test_nor_does_one_in_somebodys_notebook_open_it(
    alice: tuple[Page, str], tab: tuple[Page, list[str]], word: str
) -> None:
    page, asked = tab
    page.goto(f"{alice[1]}/lab/tree/isilon/{THEIRS.name}/{LINKED}?reset")
    link = page.locator(".jp-RenderedMarkdown a", has_text=word)
    expect(link).to_be_visible(timeout=60_000)

    link.click()
    page.wait_for_timeout(3000)

    assert [one.evaluate("window.taken") for one in page.context.pages] == [None] * len(page.context.pages)
    assert not asked
