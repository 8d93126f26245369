"""What a person finds in a real session: tested kernels, an environment, jobs and TensorBoards, in both pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.site import load
from portal.trials import record
from tests.browser.neighbour import found_by
from tests.browser.portal_page import LAB_DEADLINE_MS, look_sooner, picture, start_lab
from tests.browser.tool_page import opened_by, tile
from tests.inside import SITE_FILE, VENV_BIN, eventually, has_no_job, home, sh
from tests.session.session_server import write_scalars

PERSON = "ivan"
MADE_WITHIN_MS = 120_000
RAN_WITHIN_MS = 60_000
LOOKS_MS = (15_000, 30_000, 60_000)  # between two looks at the jobs, while they are the same
SOON_MS = 1_000
LEAVES = (".local/share/dsportal", "environments", "logs", "grow.sh", "later.sh", ".jupyter/lab/workspaces")
GROWS = """#!/bin/sh
#SBATCH --time=5
echo "$(whoami) on $SLURM_JOB_PARTITION, tasks $SLURM_NTASKS, cores $SLURM_CPUS_PER_TASK, with $1"
echo "modules $LOADEDMODULES"
until [ -e "$HOME/go-on" ]; do sleep 0.2; done
echo the last line
"""

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _clean_home(context: BrowserContext) -> Iterator[None]:
    for usual_ms in LOOKS_MS:
        look_sooner(context, usual_ms, SOON_MS)
    take_away()
    tests = Path(load(str(SITE_FILE)).kernels.folder) / record.FILE
    before = tests.read_bytes() if tests.exists() else b""
    yield
    take_away()
    tests.unlink(missing_ok=True)  # what is tested looks otherwise in the launcher
    if before:
        tests.write_bytes(before)


def take_away() -> None:
    """The person has no session, no job, and nothing of this story."""
    sh("scancel", f"--user={PERSON}")
    eventually(lambda: has_no_job(PERSON), "no job is left", within_s=60)
    left = [path for name in (*LEAVES, "go-on", "Untitled*.ipynb", "slurm-*") for path in home(PERSON).glob(name)]
    sh("rm", "-rf", *map(str, [*left, home(PERSON) / ".local/share/jupyter/kernels"]))


@pytest.fixture(scope="module")
def tree(context: BrowserContext) -> Iterator[Page]:
    """The tab of Notebook 7."""
    page = context.new_page()
    page.goto(f"/user/{PERSON}/tree")
    yield page
    page.close()


def panel(page: Page) -> Locator:
    """Environments and modules of the cluster."""
    return page.locator("#dsportal-environments")


def choose_python(page: Page) -> None:
    """Python's module is what a kernel, or an environment, is to be made of."""
    panel(page).get_by_role("tab", name="Modules").click()
    page.get_by_label("Search modules").fill("python")
    module = panel(page).locator('li[data-module^="shared/python/"]').first
    choose = module.get_by_role("button", name="Choose")
    if not choose.is_visible():
        module.locator("summary").click()
    choose.click()


def job(page: Page, name: str) -> Locator:
    """A job in the panel of jobs."""
    return page.locator("#dsportal-jobs li", has_text=name).first


def write(name: str, text: str) -> None:
    """A script in the person's home."""
    sh("sh", "-c", f'printf %s "$1" > ~/{name} && chmod +x ~/{name}', "write", text, user=PERSON)


def test_the_launcher_shows_what_a_test_of_a_kernel_in_a_job_found(page: Page) -> None:
    argv = ["kernels", "test", "--site", str(SITE_FILE), "--partition", "sxm2", "--user", PERSON, "python3"]
    said = sh(str(VENV_BIN / "portal"), *argv)
    assert "python3: it starts in" in said

    start_lab(page, PERSON)

    python = tile(page, "Python 3")
    expect(python).to_have_attribute("data-dsportal-test", "good")
    expect(python).to_have_attribute("title", re.compile(r"^Python 3\n.*starts in \d"))
    picture(page, "90-tested-kernel")


def test_a_module_becomes_a_kernel_by_two_presses(page: Page) -> None:
    page.get_by_role("tab", name="Environments and Modules").click()
    choose_python(page)
    panel(page).get_by_role("button", name="Make a kernel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Name")).fill("mine")
    dialog.get_by_label(re.compile("^Title")).fill("Out of a module")
    picture(page, "91-kernel-out-of-a-module")
    dialog.get_by_role("button", name="Create").click()

    expect(tile(page, "Out of a module")).to_be_visible(timeout=RAN_WITHIN_MS)


def test_an_environment_is_made_and_its_kernel_runs_a_cell(page: Page) -> None:
    choose_python(page)
    panel(page).get_by_role("button", name="New environment").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Name")).fill("trial")
    dialog.get_by_label(re.compile("^Title")).fill("Trial")
    # Lmod knows what leads to a module, too.
    expect(dialog.get_by_label(re.compile("^On top"))).to_have_value(re.compile("^(shared\n)?shared/python/"))
    dialog.get_by_role("button", name="Create").click()
    expect(panel(page).locator('li[data-environment="trial"]')).to_have_attribute(
        "data-state", "ready", timeout=MADE_WITHIN_MS
    )
    tile(page, "Trial").click()
    expect(page.get_by_role("button", name="Trial | Idle")).to_be_visible(timeout=RAN_WITHIN_MS)

    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.type("import sys; print('runs in', sys.prefix)")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".jp-OutputArea-output")).to_contain_text("environments/trial", timeout=RAN_WITHIN_MS)
    picture(page, "92-own-environment")


def test_a_script_runs_with_all_that_was_filled_in_and_its_log_grows(page: Page) -> None:
    write("grow.sh", GROWS)
    page.get_by_role("tab", name="Jobs").click()
    page.locator("#dsportal-jobs").get_by_role("button", name="Run a file as a job").click()
    dialog = page.get_by_role("dialog")
    filled = {"File": "grow.sh", "Hours": "0.2", "Partition": "sxm2", "Nodes": "1", "Tasks in all": "2"}
    filled |= {"Cores": "1", "GB on": "1", "Modules": "shared\nshared/python", "Arguments": "two words"}
    for label, text in filled.items():
        dialog.get_by_label(re.compile(f"^{label}")).fill(text)
    picture(page, "93-job-filled-in")
    dialog.get_by_role("button", name="Submit").click()

    expect(job(page, "grow.sh")).to_contain_text("runs on", timeout=RAN_WITHIN_MS)
    job(page, "grow.sh").get_by_role("button", name="Log").click()
    log = page.locator(".dsportal-Log:visible")
    expect(log).to_contain_text(f"{PERSON} on sxm2, tasks 2, cores 1, with two words", timeout=RAN_WITHIN_MS)
    expect(log).to_contain_text(re.compile(r"modules \S*shared/python/"))
    assert "the last line" not in log.inner_text()
    sh("touch", str(home(PERSON) / "go-on"), user=PERSON)
    expect(log).to_contain_text("the last line", timeout=RAN_WITHIN_MS)
    expect(job(page, "grow.sh")).to_contain_text("done", timeout=RAN_WITHIN_MS)
    picture(page, "94-log-of-a-job")


@pytest.mark.long
def test_a_job_that_waits_is_cancelled_in_notebook_7(page: Page, tree: Page) -> None:
    write("later.sh", "#!/bin/sh\n#SBATCH --begin=now+1hour\nsleep 600\n")
    tree.bring_to_front()
    tree.locator(".jp-FileBrowser-toolbar").get_by_text("New", exact=True).click(timeout=LAB_DEADLINE_MS)
    python = tree.get_by_role("menuitem", name="Python 3", exact=True)
    expect(python).to_have_attribute("title", re.compile(r"starts in \d"))
    expect(tree.locator(".lm-Menu-item", has_text="Trial")).to_be_visible()
    picture(tree, "95-new-in-notebook-7")
    tree.locator(".lm-Menu-item", has_text="Run as a Slurm Job").click()
    dialog = tree.get_by_role("dialog")
    dialog.get_by_label(re.compile("^File")).fill("later.sh")
    dialog.get_by_role("button", name="Submit").click()

    expect(job(tree, "later.sh")).to_contain_text("waits: it was put off until then; Slurm expects it to start at")
    job(tree, "later.sh").get_by_role("button", name="Cancel").click()
    tree.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(job(tree, "later.sh")).to_contain_text("cancelled")
    picture(tree, "96-jobs-in-notebook-7")


def test_a_tensorboard_opens_in_a_tab(page: Page) -> None:
    write_scalars(home(PERSON) / "logs" / "train")
    sh("chown", "-R", f"{PERSON}:", str(home(PERSON) / "logs"))
    page.bring_to_front()
    page.locator(".lm-DockPanel-tabBar .lm-TabBar-addButton").first.click()
    board = opened_by(page, tile(page, "TensorBoard"))
    expect(board).to_have_title("logs · TensorBoard", timeout=MADE_WITHIN_MS)
    expect(board.locator("line-chart").first).to_be_visible(timeout=RAN_WITHIN_MS)
    picture(board, "97-tensorboard")
    board.close()


def test_somebody_else_on_the_node_finds_one_port_and_nothing_open_though_all_of_this_runs(page: Page) -> None:
    tile(page, "Terminal").click()
    expect(page.locator(".jp-Terminal .xterm-screen")).to_be_visible(timeout=RAN_WITHIN_MS)
    (file,) = (home(PERSON) / SESSIONS).rglob(ENVIRONMENT_FILE)
    given = json.loads(file.read_text())
    keys = json.loads(given["DSPORTAL_TLS"])["keyfile"].splitlines()
    assert sh("pgrep", "-u", PERSON, "-f", "portal.tensorboard")
    assert sh("pgrep", "-u", PERSON, "-f", "ipykernel")

    found = found_by("bob", PERSON, [given["JUPYTERHUB_API_TOKEN"], keys[1]])

    assert len(found.pop("ports")) == 1, "the session's server, which lets nobody in but the hub and its proxy"
    assert {kind: what for kind, what in found.items() if what} == {}
    own = found_by(PERSON, PERSON, [given["JUPYTERHUB_API_TOKEN"]])
    assert {kind for kind, what in own.items() if what} >= {"ports", "sockets", "processes", "secrets"}


@pytest.mark.long
def test_tensorboards_are_listed_in_both_pages_and_stopped(page: Page, tree: Page) -> None:
    page.get_by_role("tab", name="Running Terminals and Kernels").click()
    tree.reload()
    tree.get_by_role("tab", name="Running").click(timeout=LAB_DEADLINE_MS)
    for where, name in ((page, "lab"), (tree, "notebook-7")):
        where.bring_to_front()
        listed = where.locator(".jp-RunningSessions-item", has_text="logs")
        expect(listed).to_contain_text(re.compile(r"\d:\d\d"), timeout=RAN_WITHIN_MS)
        picture(where, f"98-running-in-{name}")
    listed.hover()
    listed.get_by_title("Stop TensorBoard").click()
    expect(listed).to_have_count(0)
    eventually(lambda: not sh("pgrep", "-u", PERSON, "-f", "portal.tensorboard", check=False), "its process has ended")
