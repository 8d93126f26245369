"""A TensorBoard that runs is drawn while the pointer rests on what opens it; one that does not is not started so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.chromium_tabs import Tab, Tabs, tabs, until
from tests.forms import of_long_form
from tests.session.session_server import TOKEN, Server, write_scalars

AHEAD = {"Sec_Purpose": "prefetch;prerender"}
PLACE = "session/tensorboard/"
TILE = "[...document.querySelectorAll('.jp-LauncherCard')].find(one => one.textContent.includes('TensorBoard'))"
OTHER_TILE = "document.querySelector('.jp-LauncherCard[data-category=Notebook]')"
BUTTON = "document.querySelector('.jp-FileBrowser-toolbar [data-command=\"dsportal:tensorboard-selected\"]')"
ENTRY = "document.querySelector('.lm-Menu-item[data-command=\"dsportal:tensorboard-here\"]')"
ROW = "document.querySelector('[data-context^=\"tensorboards/\"] .jp-RunningSessions-itemLabel')"
FOLDER = "[...document.querySelectorAll('.jp-DirListing-item')].find(one => one.textContent.includes('logs'))"
LONG_REST_MS = 1000  # of a pointer; one that has begun to aim is answered long before
RULES = "document.querySelectorAll('script[type=speculationrules]').length"
DRAWN_AHEAD = "performance.getEntriesByType('navigation')[0].activationStart > 0"


@pytest.fixture
def own_server(start_server: Callable[[], Server]) -> Server:
    """A session without any TensorBoard yet, and a folder for one."""
    server = start_server()
    write_scalars(server.home / "logs" / "train")
    return server


@pytest.fixture
async def chromium() -> AsyncIterator[Tabs]:
    """A Chromium that draws ahead."""
    async with tabs() as browser:
        yield browser


async def page_of(chromium: Tabs, server: Server, path: str) -> Tab:
    """A tab with a page of the session."""
    tab = await chromium.first()
    await tab.go(f"{server.url}{path}{'&' if '?' in path else '?'}token={TOKEN}")
    await tab.place_of(FOLDER)
    return tab


async def to_tile(tab: Tab) -> str:
    return TILE


async def to_button(tab: Tab) -> str:
    await tab.click(FOLDER)
    return BUTTON


async def to_entry(tab: Tab) -> str:
    await tab.click(FOLDER, button="right")
    return ENTRY


async def to_row(tab: Tab) -> str:
    await tab.click("document.querySelector('[data-id=jp-running-sessions]')")
    return ROW


async def to_button_of_notebook_7(tab: Tab) -> str:
    await tab.click(f"({FOLDER})?.querySelector('input')")
    return BUTTON


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("lab?reset", to_tile),
        of_long_form("lab?reset", to_button),
        of_long_form("lab?reset", to_entry),
        of_long_form("lab?reset", to_row),
        ("tree", to_button_of_notebook_7),
    ],
)
async def test_one_that_runs_is_drawn_while_the_pointer_rests_on_what_opens_it(
    chromium: Tabs, server: Server, path: str, way: Callable[[Tab], Awaitable[str]]
) -> None:
    """A click shows the page that is there already; who moves on has none left."""
    server.ask(server.board("logs"))
    tab = await page_of(chromium, server, path)
    element = await way(tab)
    await tab.hover(element)
    await until("a page ahead", lambda: chromium.pages(PLACE, ahead=True))
    await tab.leave()
    await tab.reaches(f"{RULES} === 0")
    await until("its end", lambda: not chromium.pages(ahead=True))

    where = await tab.hover(element)
    await until("a page ahead", lambda: chromium.pages(PLACE, ahead=True))
    await tab.press(*where)
    opened = await chromium.opened(PLACE)
    assert await opened.says(DRAWN_AHEAD) is True
    assert await opened.says("window.opener") is None


async def test_one_that_runs_is_drawn_while_the_pointer_is_on_its_way_through_the_launcher(
    chromium: Tabs, server: Server
) -> None:
    """It goes on when the pointer comes to the tile, which may be pressed at once."""
    server.ask(server.board("logs"))
    tab = await page_of(chromium, server, "lab?reset")
    await tab.hover(OTHER_TILE)
    await until("a page ahead", lambda: chromium.pages(PLACE, ahead=True))

    await tab.click(TILE)
    opened = await chromium.opened(PLACE)
    assert await opened.says(DRAWN_AHEAD) is True


async def test_a_pointer_in_the_launcher_asks_for_nothing_while_none_runs(chromium: Tabs, own_server: Server) -> None:
    tab = await page_of(chromium, own_server, "lab?reset")
    await tab.hover(OTHER_TILE)
    await tab.says(f"new Promise(done => setTimeout(done, {LONG_REST_MS}))")
    assert (await tab.says(RULES), chromium.ahead_ends) == (0, [])
    await tab.hover(TILE)
    await until("an answer to the tile", lambda: chromium.ahead_ends)


async def test_a_pointer_that_rests_starts_none(chromium: Tabs, own_server: Server) -> None:
    """The click after it does."""
    tab = await page_of(chromium, own_server, "lab?reset")
    where = await tab.hover(TILE)
    await until("an answer", lambda: chromium.ahead_ends)
    assert [end for _, end in chromium.ahead_ends] == ["NavigationBadHttpStatus"]
    assert own_server.json("dsportal/api/tensorboards") == {"tensorboards": []}
    await tab.press(*where)
    opened = await chromium.opened(PLACE)
    assert await opened.says(DRAWN_AHEAD) is False


async def test_a_page_that_nobody_comes_for_goes_by_itself(chromium: Tabs, own_server: Server) -> None:
    own_server.ask(own_server.board("logs"))
    tab = await chromium.first()
    await tab.run_first(
        "{ const wait = setTimeout; window.setTimeout = (work, ms, ...more) =>"
        " wait(work, ms === 10_000 ? 1500 : ms, ...more) }"
    )
    await tab.go(f"{own_server.url}lab?reset&token={TOKEN}")
    await tab.hover(TILE)
    await until("a page ahead", lambda: chromium.pages(ahead=True))
    await tab.reaches(f"{RULES} === 0")
    await until("its end", lambda: not chromium.pages(ahead=True))

    await tab.hover(OTHER_TILE)
    await until("another one, for who moves on", lambda: chromium.pages(ahead=True))


def test_who_asks_ahead_gets_one_that_runs_and_starts_none(own_server: Server) -> None:
    """Nor does it wake one that the person has stopped, or keep the session."""
    address = "tensorboard/open?path=logs"
    before = own_server.json("api/status")["last_activity"]
    assert own_server.ask(address, **AHEAD)[0] == 503
    board = own_server.board("logs")
    assert own_server.ask(address, **AHEAD)[0] == 503
    assert own_server.ask(board, **AHEAD)[0] == 503
    assert own_server.json("dsportal/api/tensorboards") == {"tensorboards": []}

    assert own_server.ask(board)[0] == 200
    assert own_server.ask(address, **AHEAD) == (302, f"/session/{board}")
    assert own_server.ask(board, **AHEAD)[0] == 200
    assert own_server.ask(f"{board}data/runs", **AHEAD)[0] == 200
    assert own_server.json("api/status")["last_activity"] == before

    own_server.ask(f"dsportal/api/tensorboards/{board.split('/')[1]}", "DELETE")
    assert own_server.ask(board, **AHEAD)[0] == 503
    assert own_server.json("dsportal/api/tensorboards") == {"tensorboards": []}


@pytest.mark.parametrize("origin", ["cross-site", "same-site"])
def test_a_page_of_elsewhere_has_none_drawn_ahead(server: Server, origin: str) -> None:
    board = server.board("logs")
    server.ask(board)
    for address in ("tensorboard/open?path=logs", board):
        assert server.ask(address, **AHEAD, Sec_Fetch_Site=origin)[0] == 403
