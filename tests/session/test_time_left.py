"""How long a session has left, as its person sees it in JupyterLab and in Notebook 7."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from portal.session_usage.before_end import SCRIPT
from tests.browser.portal_page import assert_accessible
from tests.lessons import lesson, write
from tests.session.conftest import window
from tests.session.session_server import Server, wait_for

HOURS_LEFT = 3
ASKS_AGAIN_MS = 61_000  # the page does so once in a minute

Picture = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Server]) -> Server:
    """A server whose job says when it ends."""
    started = start_server(SLURM_JOB_END_TIME=str(int(time.time() + HOURS_LEFT * 3600)))
    write(started.home / "first.ipynb", lesson("1 + 1", kernel="plain"))
    (started.home / "notes.txt").write_text("a file\n")
    return started


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    """A window on it in which time can travel."""
    with window(browser, server) as opened:
        opened.clock.install()
        yield opened


def only_minutes_left(page: Page, minutes: float) -> None:
    """An administrator has taken time away, and the page asks again."""

    def answer(route: Route) -> None:
        now = time.time()
        route.fulfill(
            content_type="application/json",
            body=json.dumps({"ends_at": now + minutes * 60, "now": now, "before_end": None}),
        )

    page.route("**/dsportal/api/time*", answer)
    page.clock.fast_forward(ASKS_AGAIN_MS)


def refuse_writing(route: Route) -> None:
    """The disk is full."""
    if route.request.method == "PUT":
        route.fulfill(status=507, content_type="application/json", body='{"message": "No space left on device"}')
    else:
        route.fallback()


def warnings(page: Page) -> str:
    """The warnings that are shown."""
    shown = page.locator(".Toastify__toast").filter(has_text="This session ends at")
    expect(shown.first).to_be_visible()
    return " ".join(shown.all_inner_texts())


def type_into_file(page: Page, text: str) -> None:
    """Write into the file that is open."""
    page.locator(".cm-content").first.click()
    page.keyboard.type(text)


def holds(file: Path, text: str) -> None:
    """The file on the disk has the text."""
    wait_for(f"{text} in {file.name}", lambda: text in file.read_text())


def test_what_is_refused_is_in_the_language_of_the_page_that_asks(server: Server) -> None:
    """The session has no hub here, and says so itself."""
    for wanted, words in (("de-CH,en;q=0.5", "Der Hub des Portals antwortet nicht."), ("fr", "does not answer")):
        status, text = server.ask("dsportal/api/extend", Accept_Language=wanted)
        assert (status, words in json.loads(text)["message"]) == (503, True), text


def test_the_end_is_asked_by_the_person_only_and_is_no_activity(server: Server) -> None:
    before = server.json("api/status")["last_activity"]
    answer = server.json("dsportal/api/time")
    assert HOURS_LEFT * 3600 - 300 < answer["ends_at"] - answer["now"] <= HOURS_LEFT * 3600
    assert server.ask("dsportal/api/time", token="")[0] == 403
    assert server.json("api/status")["last_activity"] == before


@pytest.mark.parametrize("address", ["lab?reset", "tree", "notebooks/first.ipynb", "edit/notes.txt"])
def test_every_page_shows_how_long_the_session_has_left(
    page: Page, server: Server, picture: Picture, address: str
) -> None:
    page.goto(f"{server.url}{address}")
    left = page.locator(".dsportal-TimeLeft")
    expect(left).to_be_visible()
    expect(left).to_have_text(re.compile(r"^2 h 5\d min left$"))
    expect(left).to_have_attribute("title", re.compile(r"^This session ends at .*\d\d[:.]\d\d"))
    picture(page, "time-left")


def test_at_thirty_and_at_five_minutes_lab_warns_and_saves_what_is_open(
    page: Page, server: Server, picture: Picture
) -> None:
    page.goto(f"{server.url}lab/tree/notes.txt?reset")
    type_into_file(page, "not saved yet ")

    only_minutes_left(page, 29.5)

    assert "in 30 min. Saved: notes.txt." in warnings(page)
    holds(server.home / "notes.txt", "not saved yet")
    expect(page.locator(".dsportal-TimeLeft")).to_have_text("29 min left")
    assert_accessible(page, "a session that ends soon", ".dsportal-TimeLeft")
    picture(page, "warning")
    only_minutes_left(page, 4.5)
    expect(page.locator(".Toastify__toast").filter(has_text="in 5 min.")).to_contain_text("was saved before")


def test_what_cannot_be_saved_is_named(page: Page, server: Server) -> None:
    (server.home / "full.txt").write_text("of a full disk\n")
    page.goto(f"{server.url}lab/tree/full.txt?reset")
    type_into_file(page, "mine ")
    page.route("**/api/contents/full.txt*", refuse_writing)

    only_minutes_left(page, 20)

    assert re.search(r"Not saved: full.txt \(.*No space left on device", warnings(page))


def test_notebook_7_warns_and_saves_its_notebook(page: Page, server: Server, picture: Picture) -> None:
    page.goto(f"{server.url}notebooks/first.ipynb")
    page.locator(".jp-CodeCell .cm-content", has_text="1 + 1").click()
    page.keyboard.type("# not saved yet ")

    only_minutes_left(page, 10)

    assert "Saved: first.ipynb." in warnings(page)
    holds(server.home / "first.ipynb", "not saved yet")
    picture(page, "warning")


def test_a_script_of_the_person_runs_before_the_end_and_every_page_says_what_became_of_it(
    browser: Browser, start_server: Callable[..., Server], picture: Picture
) -> None:
    ends_soon = start_server(SLURM_JOB_END_TIME=str(int(time.time() + 240)))
    script = ends_soon.home / SCRIPT
    script.parent.mkdir(mode=0o700, parents=True)
    script.write_text("#!/bin/sh\necho the checkpoint is written\n")
    script.chmod(0o700)

    with window(browser, ends_soon) as page:
        page.goto(f"{ends_soon.url}tree")
        told = page.locator(".Toastify__toast").filter(has_text="before-end has finished.")
        expect(told).to_contain_text("It said: the checkpoint is written")
        picture(page, "script")
