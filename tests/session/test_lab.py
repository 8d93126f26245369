"""What a person finds in JupyterLab and Notebook 7: TensorBoard on a folder, the templates, the kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Response, expect

from tests.browser.portal_page import assert_accessible
from tests.forms import of_long_form
from tests.session.session_server import DEADLINE_S, Server, wait_for, write_scalars
from tests.session.test_session_kernels import own_kernel
from tests.session.test_session_tensorboard import process_of

Picture = Callable[[Page, str], None]


def open_lab(page: Page, server: Server, folder: str = "") -> None:
    page.goto(f"{server.url}lab{'/tree/' + quote(folder) if folder else ''}?reset")
    expect(page.locator(".jp-Launcher")).to_be_visible()
    expect(page.locator(".jp-DirListing-content")).to_be_visible()


def open_notebook_7(page: Page, server: Server) -> None:
    page.goto(f"{server.url}tree")
    expect(item(page, "logs")).to_be_visible()


def item(page: Page, name: str) -> Locator:
    return page.locator(".jp-DirListing-item", has_text=name).first


def tile(page: Page, name: str) -> Locator:
    return page.locator(".jp-LauncherCard", has_text=name).first


def toolbar_button(page: Page) -> Locator:
    return page.locator('.jp-FileBrowser-toolbar [data-command="dsportal:tensorboard-selected"]')


def new_tab(page: Page, press: Locator) -> Page:
    with page.context.expect_page() as opened:
        press.click()
    return opened.value


def expect_scalars(tab: Page) -> None:
    expect(tab).to_have_url(re.compile(r"/session/tensorboard/[0-9a-f]{16}/"))
    expect(tab.get_by_text("test_accuracy").first).to_be_visible()


def test_the_launcher_opens_tensorboard_in_a_new_tab(page: Page, server: Server, picture: Picture) -> None:
    """Without a selection it is the folder "logs" of the folder that is shown, and the tab has no opener."""
    open_lab(page, server)
    picture(page, "launcher")
    tab = new_tab(page, tile(page, "TensorBoard"))
    expect_scalars(tab)
    picture(tab, "tensorboard")
    assert tab.evaluate("window.opener") is None


def test_a_tensorboard_that_takes_long_says_that_it_starts_and_shows_itself(
    page: Page, server: Server, picture: Picture
) -> None:
    """As behind a slow disk: TensorBoard's process is held before it listens."""
    write_scalars(server.home / "slow" / "train")
    board = server.board("slow")
    held = threading.Event()
    seen = threading.Event()

    def hold() -> None:
        found = wait_for("process", lambda: process_of(board, server))
        assert found
        process = int(found.name)
        os.kill(process, signal.SIGSTOP)
        held.set()
        seen.wait(DEADLINE_S)
        os.kill(process, signal.SIGCONT)

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        page.goto(f"{server.url}{board}")
        with page.expect_response(f"{server.url}{board}") as answer:
            page.get_by_role("link", name="Open it").click()
        assert answer.value.status == 200, "no gateway in front loses its patience"
        assert held.is_set()
        expect(page.get_by_role("heading")).to_have_text("TensorBoard is starting …")
        expect(page.locator("body")).to_contain_text("It will show “slow”.")
        picture(page, "starting")
        still = page.context.new_page()
        still.set_content(page.content())  # which does not look again
        assert_accessible(still, "TensorBoard is starting")
    finally:
        seen.set()
        holding.join()
    expect_scalars(page)
    assert server.ask(f"dsportal/api/tensorboards/{board.split('/')[1]}", "DELETE")[0] == 204


def test_tensorboard_asks_the_hub_for_nothing(page: Page, server: Server) -> None:
    """Every request of its page, fonts included, stays below the board's own address and is answered."""
    answers: list[tuple[str, int]] = []
    board = f"{server.url}{server.board('logs')}"
    server.ask(server.board("logs"))
    tab = page.context.new_page()
    tab.on("response", lambda response: answers.append((response.url, response.status)))
    tab.goto(board)
    expect_scalars(tab)
    tab.wait_for_load_state("networkidle")
    assert any("font-roboto" in url for url, _ in answers)
    assert [(url, status) for url, status in answers if status >= 400 or not url.startswith(board)] == []


def test_the_launcher_offers_the_kernels_of_the_modules(page: Page, server: Server) -> None:
    open_lab(page, server)
    expect(tile(page, "TensorFlow")).to_be_visible()
    expect(tile(page, "Python 3")).to_be_visible()


def test_the_launcher_shows_what_the_test_of_each_kernel_found(page: Page, server: Server, picture: Picture) -> None:
    """Also after it was drawn anew, and not on tiles of kernels that nobody tested."""
    open_lab(page, server)
    good = page.locator(".jp-LauncherCard", has=page.get_by_text("Python 3", exact=True)).first
    fault = tile(page, "TensorFlow")
    expect(good).to_have_attribute("data-dsportal-test", "good")
    expect(good).to_have_attribute("title", "Python 3\nPython 3.11.2, starts in 0.9 s, tested 2026-11-25 in gpu")
    expect(fault).to_have_attribute("data-dsportal-test", "fault")
    expect(fault).to_have_attribute(
        "title", re.compile("sees 0 of 2 GPUs, .*\nTensorFlow sees 0 of 2 GPUs\\.$", re.DOTALL)
    )
    expect(page.locator(".jp-LauncherCard[data-dsportal-test]", has_text="Gone")).to_have_count(0)
    picture(page, "tested-kernels")
    item(page, "projects").dblclick()
    expect(page.locator(".jp-Launcher-cwd")).to_contain_text("projects")
    expect(good).to_have_attribute("data-dsportal-test", "good")


def test_notebook_7_shows_what_the_test_of_each_kernel_found_in_its_new_menu(
    page: Page, server: Server, picture: Picture
) -> None:
    """Also when the menu is opened again."""
    open_notebook_7(page, server)
    for _ in range(2):
        page.locator(".jp-DropdownMenu .lm-MenuBar-item").click()
        entry = page.locator(".lm-Menu-item[data-command='notebook:create-new']")
        fault = entry.filter(has_text="TensorFlow")
        expect(fault).to_have_attribute("data-dsportal-test", "fault")
        expect(fault).to_have_attribute("title", re.compile(r"\nTensorFlow sees 0 of 2 GPUs\.$"))
        good = entry.filter(has_text=re.compile("Python 3$"))
        expect(good).to_have_attribute("title", re.compile(r"^Python 3\nPython 3\.11\.2, starts in 0\.9 s"))
        expect(entry.filter(has_text="Gone")).to_have_attribute("title", "")
        picture(page, "new")
        page.keyboard.press("Escape")


@pytest.mark.parametrize("place", ["lab", of_long_form("tree")])
def test_tensorboards_are_listed_with_what_runs_and_stopped_there(
    page: Page, server: Server, picture: Picture, place: str
) -> None:
    for board in map(server.board, ("logs", "projects/first%20run")):
        server.ask(board)
    if place == "lab":
        open_lab(page, server)
        page.get_by_role("tab", name="Running Terminals and Kernels").click()
    else:
        open_notebook_7(page, server)
        page.get_by_role("tab", name="Running").click()
    panel = page.locator(".jp-RunningSessions")
    first = panel.locator(".jp-RunningSessions-item", has_text="first run · projects")
    expect(first).to_contain_text(re.compile(r"\d:\d\d"))
    expect(first.get_by_title("projects/first run: it runs since ")).to_be_visible()
    expect(panel.locator(".jp-RunningSessions-item", has_text="logs")).to_be_visible()
    picture(page, "tensorboards")
    tab = new_tab(page, first.locator(".jp-RunningSessions-itemLabel"))
    expect(tab).to_have_title("first run · TensorBoard")
    tab.close()
    first.hover()
    first.get_by_title("Stop TensorBoard").click()
    expect(first).to_have_count(0)
    assert [one["folder"] for one in server.json("dsportal/api/tensorboards")["tensorboards"]] == ["logs"]


def test_a_tensorboard_button_appears_when_a_folder_is_selected(page: Page, server: Server, picture: Picture) -> None:
    open_lab(page, server)
    expect(toolbar_button(page)).to_be_hidden()
    item(page, "notes.txt").click()
    expect(toolbar_button(page)).to_be_hidden()
    item(page, "logs").click()
    expect(toolbar_button(page)).to_be_visible()
    picture(page, "selected")
    expect_scalars(new_tab(page, toolbar_button(page)))


@pytest.mark.long
def test_the_files_stay_where_they_are_when_one_is_selected(page: Page, server: Server) -> None:
    """A row that moved between the two clicks of a double click would open another file."""
    open_lab(page, server)
    before = item(page, "logs").bounding_box()
    item(page, "logs").click()
    expect(toolbar_button(page)).to_be_visible()
    assert item(page, "logs").bounding_box() == before


def test_a_folder_has_tensorboard_in_its_context_menu(page: Page, server: Server, picture: Picture) -> None:
    open_lab(page, server)
    item(page, "logs").click(button="right")
    entry = page.locator(".lm-Menu-item", has_text="Open TensorBoard Here")
    expect(entry).to_have_count(1)
    picture(page, "menu")
    expect_scalars(new_tab(page, entry))


def test_the_templates_tile_opens_the_gallery(page: Page, server: Server, picture: Picture) -> None:
    open_lab(page, server)
    tile(page, "Notebook Templates").click()
    cards = page.locator("[data-template]")
    expect(cards).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="templat")).to_have_text(
        "1 template. 1 more: their kernels (TensorFlow) are not offered here; your administrator can add them."
    )
    expect(cards).to_contain_text("Made for 1 GPU; runs here with what there is")
    expect(cards).to_contain_text("1 GPU or two cores, about 1 minute")
    assert_accessible(page, "gallery", ".dsportal-Gallery")
    page.get_by_label("Words").fill("first lesson")
    expect(cards).to_have_count(1)
    page.get_by_label("Words").fill("first nothing")
    expect(cards).to_have_count(0)
    picture(page, "nothing-found")
    page.get_by_label("Words").fill("")
    page.get_by_label("Framework").select_option("TensorFlow")
    page.get_by_role("button", name="New Copy… A lesson, TensorFlow").click()
    expect(page.get_by_label("In which folder of yours?")).to_be_focused()
    page.get_by_role("button", name="Cancel").click()
    picture(page, "gallery")

    page.get_by_role("button", name="Open A lesson, TensorFlow").click()
    expect(page.get_by_role("tab", name="first.ipynb")).to_be_visible()
    tile_again = page.get_by_role("tab", name="Templates")
    expect(tile_again).to_have_count(1)


def is_layout_with_gallery(answer: Response) -> bool:
    """Whether the Lab has written a layout that has the gallery in it; it does so a second after a change.

    What the gallery says of itself can be written before or after that, and a Lab that comes again leaves out what one
    of the two does not have.
    """
    request = answer.request
    if request.method != "PUT" or "/api/workspaces/" not in answer.url:
        return False
    saved = json.loads(request.post_data or "{}").get("data", {})
    is_in_layout = "dsportal-gallery" in json.dumps(saved.get("layout-restorer:data", {}))
    return is_in_layout and "dsportal-gallery:gallery" in saved


@pytest.mark.long
def test_the_gallery_is_there_again_after_a_reload(page: Page, server: Server) -> None:
    open_lab(page, server)
    with page.expect_response(is_layout_with_gallery):
        tile(page, "Notebook Templates").click()
    expect(page.locator("[data-template]")).to_have_count(1)
    page.goto(f"{server.url}lab")
    expect(page.get_by_role("tab", name="Templates")).to_be_visible()
    expect(page.locator("[data-template]")).to_have_count(1)


def test_who_opens_a_template_is_offered_a_copy_that_is_compared_updated_and_reset(
    page: Page, server: Server, picture: Picture
) -> None:
    work = server.home / "lab-work"
    work.mkdir()
    open_lab(page, server, "templates/tensorflow")
    item(page, "first.ipynb").dblclick()
    picture(page, "offer")
    page.get_by_role("button", name="New from Template").click()
    page.get_by_label("In which folder of yours?").fill("lab-work")
    picture(page, "new")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("tab", name="first.ipynb")).to_have_count(2)
    copy = work / "tensorflow-first"
    assert {path.name for path in copy.iterdir()} >= {"first.ipynb", "helper.py"}

    (copy / "helper.py").write_text("mine = 1\n")
    open_lab(page, server, "lab-work")
    choose(page, "Compare with Template")
    expect(page.get_by_role("dialog")).to_contain_text("helper.py: changed by you")
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text("-mine = 1")
    picture(page, "compare")
    page.get_by_role("button", name="Close", exact=True).click()
    choose(page, "Update from Template")
    expect(page.get_by_text("Nothing was to be done")).to_be_visible()
    choose(page, "Reset to Template…")
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("As the template now: helper.py.")).to_be_visible()
    assert (copy / "helper.py").read_text() == "h = 1\n"
    assert [path.read_text() for path in copy.glob("helper-kept-*.py")] == ["mine = 1\n"]


def test_what_is_no_copy_is_told_so(page: Page, server: Server) -> None:
    open_lab(page, server)
    choose(page, "Update from Template", "empty")
    expect(page.get_by_text("is no copy of a template")).to_be_visible()


def choose(page: Page, command: str, name: str = "tensorflow-first") -> None:
    """A command of the context menu's part on templates."""
    item(page, name).click(button="right")
    page.locator(".lm-Menu-item", has_text=re.compile("^Template$")).hover()
    page.locator(".lm-Menu-item", has_text=command).click()


def test_notebook_7_has_tensorboard_in_its_new_menu(page: Page, server: Server, picture: Picture) -> None:
    """The source's "New ▸ TensorBoard"; the menu keeps it when it is opened again."""
    open_notebook_7(page, server)
    menu = page.locator(".jp-DropdownMenu .lm-MenuBar-item")
    entry = page.locator(".lm-Menu-item", has_text="TensorBoard")
    for _ in range(2):
        menu.click()
        expect(entry).to_have_count(1)
        picture(page, "new")
        box = page.locator(".lm-Menu").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 1280
        page.keyboard.press("Escape")
    menu.click()
    expect_scalars(new_tab(page, entry))


@pytest.mark.long
def test_notebook_7_shows_the_button_for_a_selected_folder(page: Page, server: Server, picture: Picture) -> None:
    open_notebook_7(page, server)
    expect(toolbar_button(page)).to_be_hidden()
    item(page, "logs").get_by_role("checkbox").check()  # a click on the name opens the folder
    expect(toolbar_button(page)).to_be_visible()
    picture(page, "selected")
    expect_scalars(new_tab(page, toolbar_button(page)))


@pytest.mark.parametrize("path", ["missing", "/etc", "notes.txt", ""])
def test_a_folder_that_cannot_be_shown_gets_a_plain_page(
    page: Page, server: Server, picture: Picture, path: str
) -> None:
    page.goto(f"{server.url}tensorboard/open?path={quote(path)}")
    page.get_by_role("link", name="Open it").click()
    expect(page.get_by_role("heading")).to_contain_text(path or "your home folder")
    expect(page.get_by_role("link")).to_have_attribute("href", "/session/")
    picture(page, "page")


def test_a_kernel_whose_module_is_gone_says_so_at_once(page: Page, server: Server, picture: Picture) -> None:
    open_lab(page, server)
    tile(page, "Gone").click()
    expect(page.get_by_text("Unable to locate a modulefile for 'shared/soon-gone'").first).to_be_visible()
    picture(page, "message")


def test_a_kernel_whose_process_ends_at_once_says_why_in_the_lab(page: Page, server: Server, picture: Picture) -> None:
    argv = ["/usr/bin/python3", "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    own_kernel(server, "bare", argv)
    open_lab(page, server)
    tile(page, "Bare").click()
    expect(page.get_by_text("The kernel bare cannot start: ModuleNotFoundError").first).to_be_visible()
    picture(page, "message")
    shutil.rmtree(server.home / ".local/share/jupyter/kernels/bare")


def test_nothing_is_asked_of_other_hosts(page: Page, server: Server) -> None:
    """No CDN, no news feed: a compute node may have no way out."""
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    open_lab(page, server)
    page.wait_for_load_state("networkidle")
    assert hosts == {server.url.split("/")[2]}
