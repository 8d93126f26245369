"""A link or a file of somebody else's does nothing in the session of who follows or opens it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from portal.site import load
from tests.inside import SITE_FILE, home, sh
from tests.security.conftest import in_session

FOLDER = Path("/cluster/test-links")
PORTAL = "http://localhost:18900"
SHARED = Path("/mnt/isilon/bobs-links")
NO_PAGES = (
    "dsportal/api/modules/show?name=shared",
    "dsportal/api/archive?path=templates",
    "api/contents",
    "lab/api/settings",
)


@pytest.fixture(scope="module")
def alice(chromium: Browser) -> Iterator[tuple[Page, str]]:
    """Alice in her session, and its address."""
    with in_session(chromium, FOLDER) as found:
        yield found


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
    tab.goto(f"{PORTAL}/hub/home")
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
