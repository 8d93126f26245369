"""Cookies that somebody's page has left for one address, too many to be sent: what lies there is refused alone."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Route, expect

from tests.forms import of_long_form
from tests.inside import eventually

BIG = "x" * 3900
DRAWN = ".jp-Notebook, .jp-Launcher, .jp-Terminal"  # by JupyterLab or Notebook 7
LEFT = tuple(f"left{number}" for number in range(6))


@pytest.mark.parametrize(
    ("path", "place", "shown"),
    [
        ("/user/alice/lab/extensions", "notebooks/kept.ipynb", ".jp-Notebook"),
        ("/user/alice/api", "lab", ".jp-Launcher"),
        of_long_form("/user/alice/lab/extensions", "lab", ".jp-Launcher"),
        of_long_form("/user/alice/lab/api/settings", "tree", ".jp-DirListing-content"),
    ],
)
def test_a_page_that_lacks_a_part_goes_where_they_lie_and_comes_back(
    alice: tuple[Page, str], path: str, place: str, shown: str
) -> None:
    page, session = alice
    tab = page.context.new_page()
    for name in LEFT:
        page.context.add_cookies([{"name": name, "value": BIG, "domain": host_of(session), "path": path}])

    tab.goto(f"{session}/{place}")

    eventually(lambda: not left(page), "they are gone", within_s=60)
    back = re.compile(rf"^{re.escape(f'{session}/{place}')}(/workspaces/[^/]+)?$")  # of a second tab of JupyterLab
    expect(tab).to_have_url(back, timeout=60_000)
    expect(tab.locator(shown)).to_be_visible(timeout=60_000)
    tab.close()


def test_also_where_a_tab_that_goes_there_would_not_be_refused(alice: tuple[Page, str]) -> None:
    """A page's questions bring some headers more: cookies that are too many for these alone are taken away as well."""
    page, session = alice
    tab = page.context.new_page()
    for name in LEFT[:4]:  # with what a tab sends less than the 16 KiB that Node.js takes
        value = "x" * 3600
        page.context.add_cookies(
            [{"name": name, "value": value, "domain": host_of(session), "path": "/user/alice/api"}]
        )
    gone: list[str] = []

    def refuse(route: Route) -> None:
        if route.request.resource_type == "document":
            gone.append(route.request.url)
        if gone:
            route.continue_()
        else:
            route.fulfill(status=431)

    tab.route("**/user/alice/api/**", refuse)
    tab.goto(f"{session}/lab")

    eventually(lambda: not left(page), "they are gone", within_s=60)
    expect(tab).to_have_url(re.compile(rf"^{re.escape(session)}/lab"), timeout=60_000)
    expect(tab.locator(".jp-Launcher")).to_be_visible(timeout=60_000)
    tab.close()


OWN_PART = "/user/alice/lab/extensions/dsportal-lab/static"
SETTINGS = "/user/alice/lab/api/settings"


@pytest.mark.parametrize("place", ["notebooks/kept.ipynb", *map(of_long_form, ("lab", "terminals/1"))])
def test_no_page_goes_on_without_the_portals_part_while_they_are_left_again_and_again(
    alice: tuple[Page, str], place: str
) -> None:
    """Somebody's page that stays open behind leaves them anew; when that has ended, the page comes."""
    page, session = alice
    tab = page.context.new_page()
    cookies: Any = [{"name": name, "value": BIG, "domain": host_of(session), "path": OWN_PART} for name in LEFT]
    page.context.add_cookies(cookies)
    tab.goto(f"{session}/{place}", wait_until="commit")

    for _ in range(60):
        page.context.add_cookies(cookies)
        tab.wait_for_timeout(150)
        assert not tab.locator(DRAWN).count()
    with suppress(PlaywrightError):  # it is between two pages
        tab.evaluate("window.stop()")
    page.context.clear_cookies(path=OWN_PART)
    tab.goto(f"{session}/{place}")

    expect(tab.locator(DRAWN).first).to_be_visible(timeout=60_000)
    tab.close()


def test_nor_without_the_settings(alice: tuple[Page, str]) -> None:
    """It may be drawn before they are refused, and is left each time."""
    page, session = alice
    tab = page.context.new_page()
    left_for: list[str] = []
    tab.on("framenavigated", lambda frame: left_for.append(frame.url) if SETTINGS in frame.url else None)
    cookies: Any = [{"name": name, "value": BIG, "domain": host_of(session), "path": SETTINGS} for name in LEFT]
    page.context.add_cookies(cookies)
    tab.goto(f"{session}/tree", wait_until="commit")

    def is_left_again() -> bool:
        page.context.add_cookies(cookies)
        tab.wait_for_timeout(150)
        return len(left_for) > 1

    eventually(is_left_again, "it is left again", within_s=40)
    tab.close()
    page.context.clear_cookies(path=SETTINGS)


def test_a_page_that_the_portals_part_does_not_reach_says_so(alice: tuple[Page, str]) -> None:
    page, session = alice
    tab = page.context.new_page()
    tab.route(
        f"**{OWN_PART}/**",
        lambda route: route.continue_() if route.request.resource_type == "document" else route.fulfill(status=404),
    )

    tab.goto(f"{session}/lab", wait_until="commit")

    expect(tab.get_by_role("heading", name="did not reach your browser")).to_be_visible(timeout=60_000)
    assert not tab.locator(DRAWN).count()
    tab.close()


def test_jupyterlabs_files_at_the_hubs_host_are_asked_for_without_them(alice: tuple[Page, str]) -> None:
    page, session = alice
    browser = page.context.browser
    assert browser
    context = browser.new_context(storage_state=page.context.storage_state())  # in whose cache is none of them
    at_hub = {"domain": "localhost", "path": "/hub/dsportal/lab", "sameSite": "None", "secure": True}
    cookies: Any = [{"name": name, "value": BIG, **at_hub} for name in LEFT]
    context.add_cookies(cookies)
    tab = context.new_page()

    tab.goto(f"{session}/lab")
    tab.locator(".jp-LauncherCard", has_text="Terminal").first.click(timeout=60_000)

    expect(tab.locator(".xterm-screen")).to_be_visible(timeout=60_000)  # it loads files of its own
    context.close()


def host_of(session: str) -> str:
    """The name in a session's address."""
    return session.split("/")[2].split(":")[0]


def left(page: Page) -> set[str]:
    """The names of those cookies that the browser still has."""
    return {cookie["name"] for cookie in page.context.cookies()}.intersection(LEFT)
