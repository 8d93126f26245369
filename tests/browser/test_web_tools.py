"""A web tool of the demo as a person uses it: its tile, its page, its log, its end; and what a neighbour gets of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.portal_page import LAB_DEADLINE_MS, assert_accessible, picture, start_lab
from tests.browser.tool_page import listening, opened_by, panel_item, processes, sockets_of, tile
from tests.inside import eventually, has_no_job, home, sh

PERSON, NEIGHBOUR = "alice", "bob"
TOOL = "mlflow"
ANSWERS_WITHIN_MS = 120_000  # as a session waits for a tool
# Runs in a kernel of its module, whose environment says where the pages look.
TRAINS = """
import mlflow
mlflow.set_experiment('digits')
with mlflow.start_run(run_name='first-try'):
    mlflow.log_param('epochs', 3)
    for epoch, accuracy in enumerate((0.81, 0.93, 0.97)):
        mlflow.log_metric('accuracy', accuracy, step=epoch)
"""

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    take_away()
    yield
    take_away()


def take_away() -> None:
    """Both have no session and no runs."""
    for name in (PERSON, NEIGHBOUR):
        sh("scancel", f"--user={name}")
        eventually(partial(has_no_job, name), "no job is left", within_s=60)
        sh("rm", "-rf", *(str(home(name) / one) for one in ("mlflow.db", "mlruns", ".jupyter/lab/workspaces")))


@pytest.fixture(scope="module")
def tab(page: Page) -> Page:
    """The tab of MLflow's page."""
    start_lab(page, PERSON)
    mlflow = tile(page, "MLflow")
    picture(page, "70-tile-of-a-tool")
    return opened_by(page, mlflow)


def test_a_click_on_the_tile_opens_the_tools_page(tab: Page) -> None:
    picture(tab, "71-tool-starts")
    expect(tab).to_have_title(re.compile("MLflow"), timeout=ANSWERS_WITHIN_MS)
    expect(tab).to_have_url(re.compile(rf"/user/{PERSON}/tools/mlflow/"))
    expect(tab.get_by_role("link", name="Experiments").first).to_be_visible(timeout=ANSWERS_WITHIN_MS)
    assert tab.evaluate("window.opener") is None
    picture(tab, "72-tool")


def test_its_page_shows_what_a_kernel_of_its_module_logs(tab: Page) -> None:
    script = f'module load shared shared/mlflow && python3 -c "{TRAINS}"'
    sh("bash", "-lc", f". /usr/share/modules/init/bash; {script}", user=PERSON)
    answers: list[tuple[str, int]] = []
    tab.on("response", lambda response: answers.append((response.url, response.status)))

    tab.get_by_text("Model training", exact=True).click()
    tab.get_by_role("link", name="Experiments", exact=True).click()
    tab.get_by_role("link", name="digits").first.click()
    expect(tab.get_by_text("first-try").first).to_be_visible(timeout=LAB_DEADLINE_MS)
    picture(tab, "73-runs-in-the-tool")
    assert [(url, status) for url, status in answers if status >= 400] == []


def test_it_listens_on_no_port_of_the_node(tab: Page) -> None:
    own = sockets_of(processes(PERSON, TOOL))
    assert own
    assert not own & listening()


def test_the_panel_shows_its_log(page: Page) -> None:
    page.get_by_role("tab", name="Web Tools").click()
    expect(panel_item(page, TOOL)).to_contain_text("running")
    panel_item(page, TOOL).get_by_role("button", name="Log").click()
    expect(page.locator(".dsportal-Log")).to_contain_text("Uvicorn running on unix socket")
    tab = page.locator(".lm-TabBar-tab", has_text="Log of MLflow")
    expect(tab.locator(".lm-TabBar-tabIcon svg")).to_be_visible()
    picture(page, "74-panel-and-log")
    assert_accessible(page, "web tools", "#dsportal-tools")


def test_a_neighbour_on_the_same_node_gets_nothing_of_it(chromium: Browser, address: str, tab: Page) -> None:
    context = chromium.new_context(base_url=address)
    context.set_default_timeout(30_000)
    try:
        page = context.new_page()
        start_lab(page, NEIGHBOUR)
        nodes = {sh("squeue", "--noheader", f"--user={name}", "--format=%N").strip() for name in (PERSON, NEIGHBOUR)}
        assert len(nodes) == 1, "they are neighbours"
        answer = page.goto(tab.url)
        assert answer
        assert (answer.status, "MLflow" in page.title()) == (403, False), page.url
        picture(page, "75-somebody-elses-tool")
        page.goto(f"/user/{NEIGHBOUR}/tools/mlflow/")
        expect(page.get_by_role("heading", name="MLflow does not run.")).to_be_visible()
        picture(page, "76-a-tool-that-nobody-started")
    finally:
        context.close()
        sh("scancel", f"--user={NEIGHBOUR}")
    (socket,) = {
        word for one in processes(PERSON, TOOL) for word in re.findall(r"/[^\s\0]+/mlflow\.sock", text_of(one))
    }
    assert Path(socket).is_socket()
    said = sh("curl", "--silent", "--show-error", "--unix-socket", socket, "http://x/", user=NEIGHBOUR, check=False)
    assert "Permission denied" in said or "Couldn't connect" in said or "Could not connect" in said, said
    assert "MLflow" in sh("curl", "--silent", "--unix-socket", socket, "http://x/", user=PERSON)


def text_of(process: Path) -> str:
    """The command line of a process."""
    return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def test_stop_ends_it_with_all_its_processes(page: Page, tab: Page) -> None:
    panel_item(page, TOOL).get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    picture(page, "77-stop-a-tool")
    dialog.get_by_role("button", name="Stop").click()

    expect(panel_item(page, TOOL)).to_contain_text("not running")
    eventually(lambda: not processes(PERSON, TOOL), "all its processes have ended")
    tab.reload()
    expect(tab.get_by_role("heading", name="MLflow does not run.")).to_be_visible()
    picture(tab, "78-a-stopped-tool")


@pytest.mark.long
def test_notebook_7_offers_it_in_its_menu_and_stops_it(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"/user/{PERSON}/tree")
    page.get_by_text("New", exact=True).first.click(timeout=LAB_DEADLINE_MS)
    entry = page.locator(".lm-Menu-item", has_text="MLflow").filter(has_not_text="Python")
    expect(entry).to_be_visible()
    picture(page, "79-new-in-notebook-7")

    tab = opened_by(page, entry)

    expect(tab).to_have_title(re.compile("MLflow"), timeout=ANSWERS_WITHIN_MS)
    tab.close()
    page.get_by_role("tab", name="Running").click()
    running = page.locator(".jp-RunningSessions-item", has_text="MLflow")
    expect(running).to_contain_text(re.compile(r"\d:\d\d"))
    picture(page, "80-running-in-notebook-7")
    running.hover()
    running.get_by_title("Stop Web Tool").click()
    expect(running).to_have_count(0)
    eventually(lambda: processes(PERSON, TOOL) == [], "its processes have ended")
    page.close()
