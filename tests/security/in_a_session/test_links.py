"""A link or a file of somebody else's does nothing in the session of who follows or opens it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from portal.launcher import LOG_FILE, SESSIONS
from portal.site import load
from tests.inside import SITE_FILE, home, sh
from tests.security.conftest import ALICES_PORTAL

SHARED = Path("/mnt/isilon/bobs-links")
NO_PAGES = (
    "dsportal/api/modules/show?name=shared",
    "dsportal/api/archive?path=templates",
    "api/contents",
    "lab/api/settings",
)


@pytest.fixture
def taken() -> Iterator[Path]:
    """What Bob's modulefile makes in the home of who has it evaluated; everybody may read it."""
    mark = home("alice") / "taken"
    mark.unlink(missing_ok=True)
    sh("rm", "-rf", str(SHARED))
    sh("mkdir", "-p", str(SHARED), user="bob")
    module = SHARED / "nice"
    module.write_text(f"#%Module\nexec touch {mark}\nsetenv NICE 1\n")
    module.chmod(0o644)
    yield mark
    mark.unlink(missing_ok=True)


def names_of(module: Path) -> tuple[str, ...]:
    """How a module could be called that no tree has: by its path, and by ways out of a tree and of the home."""
    tree = load(str(SITE_FILE)).kernels.module_path[0]
    return (
        str(module),
        os.path.relpath(module, home("alice")),
        f"shared/{os.path.relpath(module, Path(tree, 'shared'))}",
    )


def followed(page: Page, address: str) -> int:
    """The status of what a link on another page leads to."""
    tab = page.context.new_page()
    tab.goto(f"{ALICES_PORTAL}/hub/home")
    with tab.expect_response(lambda answer: answer.url == address) as answer:
        tab.evaluate("address => { location.href = address }", address)
    status = answer.value.status
    tab.close()
    return status


def test_no_modulefile_but_those_of_the_trees_is_evaluated_whoever_asks(alice: tuple[Page, str], taken: Path) -> None:
    page, session = alice
    for name in names_of(SHARED / "nice"):
        address = f"{session}/dsportal/api/modules/show?{urlencode({'name': name})}"

        by_link = followed(page, address)
        by_herself = page.request.get(address).status

        assert (by_link, by_herself, taken.exists()) == (403, 404, False), name


@pytest.mark.parametrize("path", NO_PAGES)
def test_a_link_of_another_page_is_answered_by_no_interface_of_a_session(alice: tuple[Page, str], path: str) -> None:
    page, session = alice
    address = f"{session}/{path}"

    assert followed(page, address) == 403
    assert page.request.get(address).status in (200, 404)


def test_a_link_of_the_portal_still_opens_a_file(alice: tuple[Page, str]) -> None:
    page, session = alice

    assert followed(page, f"{session}/lab/tree/templates") == 200


def test_a_file_without_end_in_a_shared_folder_ends_nobodys_session(alice: tuple[Page, str]) -> None:
    page, session = alice
    sh("mkdir", "-p", str(SHARED), user="bob")
    sh("truncate", "--size=4T", str(SHARED / "results.csv"), user="bob")
    way = f"isilon/{SHARED.name}/results.csv"

    answer = page.request.get(f"{session}/api/contents/{way}?type=file&format=text")

    assert (answer.status, "longer than 256 MB" in answer.text()) == (413, True)
    assert page.request.get(f"{session}/api/status").status == 200


NOTEBOOK = '{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "converted for her"}],' + (
    ' "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}, "nbformat": 4, "nbformat_minor": 5}'
)


@pytest.fixture
def converted(alice: tuple[Page, str]) -> Iterator[str]:
    """The address of a notebook of Alice's as a page."""
    file = home("alice") / "mine.ipynb"
    file.write_text(NOTEBOOK)
    sh("chown", "alice", str(file))
    yield f"{alice[1]}/nbconvert/html/mine.ipynb"
    file.unlink()


def opened_by_a_click(tab: Page, address: str) -> None:
    """What is shown to who comes from elsewhere; her own click leads on."""
    expect(
        tab.get_by_role("heading", name="A link or an address has led you here, to a notebook as a page")
    ).to_be_visible()
    assert tab.url == address
    tab.get_by_role("link", name="Open it").click()
    expect(tab.get_by_text("converted for her")).to_be_visible()


def test_a_link_of_another_page_to_a_converted_notebook_waits_for_a_click(
    alice: tuple[Page, str], converted: str
) -> None:
    tab = alice[0].context.new_page()
    tab.goto(f"{ALICES_PORTAL}/hub/home")
    tab.evaluate("address => { location.href = address }", converted)
    opened_by_a_click(tab, converted)
    tab.close()


def test_a_login_that_lapsed_is_no_dead_end_before_a_converted_notebook(
    alice: tuple[Page, str], converted: str
) -> None:
    page, session = alice
    tab = page.context.new_page()
    tab.goto(f"{session}/api")  # a page of the session's own, as JupyterLab's is, which opens its export so
    page.context.clear_cookies(path="/user/alice/")
    tab.evaluate("address => { location.href = address }", converted)
    opened_by_a_click(tab, converted)
    tab.close()


def test_strangers_leave_neither_long_lines_nor_a_full_home(alice: tuple[Page, str]) -> None:
    _, session = alice
    log = max((home("alice") / SESSIONS).glob(f"*/{LOG_FILE}"), key=lambda one: one.stat().st_mtime)
    before = log.stat().st_size
    address = urlsplit(session)
    with closing(HTTPConnection("127.0.0.1", address.port, timeout=30)) as stranger:
        for number in range(300):
            stranger.request("GET", f"{address.path}/lab?{number}{'x' * 12_000}", headers={"Host": address.netloc})
            answer = stranger.getresponse()
            answer.read()
            assert answer.status == 302

        for _ in range(300):
            stranger.request("GET", f"{address.path}/lab/api/settings/{'x' * 12_000}", headers={"Host": address.netloc})
            answer = stranger.getresponse()
            answer.read()
            assert answer.status == 403

    assert 0 < log.stat().st_size - before < 600 * 2300
