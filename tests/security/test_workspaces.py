"""A workspace file of JupyterLab that somebody else wrote: opening it writes none of one's own files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.inside import home, sh
from tests.security.conftest import in_session

SHARED = Path("/mnt/isilon/bobs-workspaces")
FILE = SHARED / "course.jupyterlab-workspace"


@pytest.fixture(scope="module")
def alice(chromium: Browser) -> Iterator[tuple[Page, str]]:
    """Alice in her session, and its address; Bob has a folder that she can read."""
    sh("mkdir", "-p", "-m", "0755", str(SHARED))
    sh("chown", "bob", str(SHARED))
    with in_session(chromium, Path("/cluster/test-workspaces")) as found:
        yield found
    sh("rm", "-rf", str(SHARED))


@pytest.fixture
def mine() -> Iterator[Path]:
    """A program of Alice's own."""
    file = home("alice") / "mine.py"
    file.write_text("mine")
    sh("chown", "alice:", str(file))
    yield file
    file.unlink()


def put(name: str) -> None:
    """Bob leaves a workspace of that name, which is a file with a content to JupyterLab's server as well."""
    told = {"type": "file", "format": "text", "content": "bobs", "data": {}, "metadata": {"id": name}}
    FILE.write_text(json.dumps(told))
    FILE.chmod(0o644)


@pytest.mark.parametrize("up", ["%2e%2e/", ".%2e/", "..\\", "%2e%2e\\", ".\t./", "../"])
def test_what_is_called_like_an_address_is_sent_nowhere(alice: tuple[Page, str], mine: Path, up: str) -> None:
    page, session = alice
    put(f"{up * 3}api/contents/mine.py")

    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/{FILE.name}?reset")
    expect(page.get_by_text("This workspace was not loaded").first).to_be_visible(timeout=30_000)
    page.wait_for_timeout(1000)

    assert mine.read_text() == "mine"


def test_what_is_called_by_a_name_is_loaded(alice: tuple[Page, str]) -> None:
    page, session = alice
    put("course-1")

    page.goto(f"{session}/lab/tree/isilon/{SHARED.name}/{FILE.name}?reset")

    page.wait_for_url("**/lab/workspaces/course-1**", timeout=30_000)
