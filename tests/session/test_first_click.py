"""A click in JupyterLab that was meant for a window above it, which has just closed, runs no cell."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.covered import LONG_MS, WITH_PRESS, covered, press
from tests.lessons import lesson, write
from tests.session.session_server import TOKEN, Server, wait_for

RUN = "[data-jp-item-name='run'] jp-button"


def opened(page: Page, server: Server, path: str) -> Locator:
    """The button that runs a cell which leaves a file, with a kernel."""
    notebook = lesson("open('ran', 'w')", kernel="plain")
    write(server.home / "colleague.ipynb", notebook | {"cells": notebook["cells"][1:]})
    page.add_init_script(WITH_PRESS)
    page.goto(f"{server.url}{path}")
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']")).to_be_visible()
    return page.locator(RUN).first


def runs_nothing_as_a_window_closes(page: Page, server: Server, path: str) -> None:
    run = opened(page, server, path)
    run.hover()
    with covered(page, until_pressed=True):
        pass
    press(run)
    page.wait_for_timeout(LONG_MS)
    assert not (server.home / "ran").exists()

    press(run)
    wait_for("what the cell writes", (server.home / "ran").exists)
    (server.home / "ran").unlink()


def test_a_click_as_another_window_closes_runs_nothing_and_the_next_one_does(page: Page, server: Server) -> None:
    runs_nothing_as_a_window_closes(page, server, "lab/tree/colleague.ipynb?reset")


def test_nor_in_notebook_7(page: Page, server: Server) -> None:
    runs_nothing_as_a_window_closes(page, server, "notebooks/colleague.ipynb")


def test_a_frame_of_ones_own_page_that_has_the_focus_takes_no_click_away(page: Page, server: Server) -> None:
    (server.home / "page.html").write_text("<button>a button</button>")
    page.goto(f"{server.url}lab/tree/page.html?reset")
    inside = page.frame_locator(".jp-HTMLViewer iframe").get_by_role("button")
    menu = page.locator(".lm-MenuBar-item").first
    menu.hover()
    for _ in range(3):
        inside.click()
        menu.click()
        expect(page.locator(".lm-Menu").first).to_be_visible()
        page.keyboard.press("Escape")


def test_nor_is_a_finger_refused_for_ever_where_a_frame_has_the_focus(page: Page, server: Server) -> None:
    assert page.context.browser is not None
    (server.home / "page.html").write_text("<button>a button</button>")
    context = page.context.browser.new_context(has_touch=True)
    tab = context.new_page()
    tab.goto(f"{server.url}lab/tree/page.html?reset&token={TOKEN}")

    tab.frame_locator(".jp-HTMLViewer iframe").get_by_role("button").tap()
    for _ in range(2):
        tab.locator(".lm-MenuBar-item").first.tap()
        tab.wait_for_timeout(LONG_MS)
    expect(tab.locator(".lm-Menu").first).to_be_visible()
    context.close()
