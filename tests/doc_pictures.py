"""The pictures of docs/images, taken anew in the demo's Chromium, as alice with a session of one GPU.

    deploy/demo/demo up --with browser --domain none
    deploy/demo/demo exec -- sh -c 'cd CHECKOUT && .venv/bin/python -m tests.doc_pictures FOLDER [NAME…]'

They are for people to look at before they are copied to docs/images. Alice's session ends first, and what the pictures
need is written into her home.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from pathlib import Path

from playwright.sync_api import FloatRect, Page, ViewportSize, expect, sync_playwright

from tests.browser.portal_page import LAB_DEADLINE_MS, log_in_as, look_sooner
from tests.browser.tool_page import opened_by, panel_item, tile
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, VENV_BIN, eventually, has_no_job, home, jobs_of, sh

PERSON = "alice"
WINDOW = ViewportSize(width=1280, height=860)
# The part that a picture is about: beside it the launcher would be seen, which `lab` shows.
PARTS = {
    "modules": FloatRect(x=0, y=28, width=284, height=808),
    "tools": FloatRect(x=0, y=28, width=284, height=242),
    "time-left": FloatRect(x=946, y=723, width=318, height=137),
}
FORM = "options"
ASKS_MS = (60_000, 2_000)  # a page's questions for the time: as usual, and here
MADE_WITHIN_MS = 120_000
KNOWN_WITHIN_MS = 240_000  # an end that is moved by hand
LEFT_MIN = 24
TRAINING = """
import time

for epoch in range(1, 400):
    print(f"epoch {epoch}: loss {2.3 / epoch**0.5:.4f}, accuracy {1 - 0.72 / epoch**0.5:.4f}", flush=True)
    time.sleep(2)
"""


def main(folder: Path, wanted: list[str]) -> None:
    """Take those that are wanted, or all, in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    clean_up()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        base = os.environ.get("DSPORTAL_URL", "http://localhost:8000")
        context = browser.new_context(base_url=base, viewport=WINDOW, reduced_motion="reduce")
        context.set_default_timeout(30_000)
        look_sooner(context, *ASKS_MS)
        lab = context.new_page()
        log_in_as(lab, PERSON)
        lab.goto("/hub/spawn")
        if not wanted or FORM in wanted:
            take(lab, folder, FORM)
        open_session(lab)
        for name, show in PICTURES.items():
            if not wanted or name in wanted:
                show(lab)
                take(lab, folder, name)
        browser.close()
    clean_up()


def take(lab: Page, folder: Path, name: str) -> None:
    """What the page shows now."""
    lab.mouse.move(1264, 600)
    lab.wait_for_timeout(1500)  # what fades in, or is drawn late
    lab.screenshot(path=folder / f"{name}.png", clip=PARTS.get(name), full_page=name == FORM)


def clean_up() -> None:
    """Alice has no session, no job, no environment, and the usual layout."""
    sh("scancel", f"--user={PERSON}")
    eventually(partial(has_no_job, PERSON), "no job is left", within_s=60)
    usual = (
        "environments/vision",
        ".local/share/dsportal/environments",
        ".jupyter/lab/workspaces",
        "mlflow.db",
        "jobs",
    )
    sh("rm", "-rf", *(str(home(PERSON) / name) for name in usual))
    for file in (*home(PERSON).glob("train*"), *home(PERSON).glob("evaluate*")):
        file.unlink()


def open_session(lab: Page) -> None:
    """JupyterLab with its launcher, from the form."""
    lab.get_by_role("button", name="Start").click()
    lab.wait_for_url(re.compile(rf"/user/{PERSON}/lab"), timeout=LAB_DEADLINE_MS)
    expect(lab.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)
    expect(lab.locator(".dsportal-TimeLeft")).to_contain_text("left", timeout=LAB_DEADLINE_MS)


def show_launcher(lab: Page) -> None:
    """As the session opened it."""


def show_jobs(lab: Page) -> None:
    """A job that runs, with its log, and one that waits for nodes that are free."""
    for name in ("train.py", "evaluate.py"):
        sh("sh", "-c", f'printf %s "$1" > ~/{name}', "write", TRAINING, user=PERSON)
    submit = f"cd && {VENV_BIN}/portal job submit"
    sh("sh", "-c", f"{submit} train.py --gpus 1 --hours 8", user=PERSON)
    sh("sh", "-c", f"{submit} evaluate.py --gpus 4 --nodes 3 --hours 2", user=PERSON)
    lab.get_by_role("tab", name="Jobs").click()
    job = lab.locator("#dsportal-jobs li", has_text="train").first
    expect(job).to_contain_text("runs on", timeout=LAB_DEADLINE_MS)
    job.get_by_role("button", name="Log").click()
    expect(lab.locator(".dsportal-Log:visible")).to_contain_text("epoch 8", timeout=LAB_DEADLINE_MS)


def show_modules(lab: Page) -> None:
    """What a module sets."""
    lab.locator(".lm-TabBar-tab", has_text="Launcher").click()
    lab.get_by_role("tab", name="Environments and Modules").click()
    panel = lab.locator("#dsportal-environments")
    panel.get_by_role("tab", name="Modules").click()
    lab.get_by_label("Search modules").fill("tensorflow")
    module = panel.locator('li[data-module^="shared/tensorflow/"]').first
    module.locator("summary").click()
    expect(module.locator("dl")).to_contain_text("PATH begins with")


def show_environments(lab: Page) -> None:
    """An environment on the module of before, which is ready."""
    panel = lab.locator("#dsportal-environments")
    panel.locator('li[data-module^="shared/tensorflow/"]').first.get_by_role("button", name="Choose").click()
    panel.get_by_role("button", name="New environment").click()
    dialog = lab.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Name")).fill("vision")
    dialog.get_by_label(re.compile("^Title")).fill("Vision")
    dialog.get_by_role("button", name="Create").click()
    one = panel.locator('li[data-environment="vision"]')
    expect(one).to_have_attribute("data-state", "ready", timeout=MADE_WITHIN_MS)
    one.get_by_role("button", name="Log").click()
    expect(lab.locator(".dsportal-Log:visible")).to_contain_text("It is ready.")


def show_tools(lab: Page) -> None:
    """The panel with a tool that runs."""
    lab.locator(".lm-TabBar-tab", has_text="Launcher").click()
    opened_by(lab, tile(lab, "MLflow")).close()
    lab.bring_to_front()
    lab.get_by_role("tab", name="Web Tools").click()
    expect(panel_item(lab, "mlflow")).to_contain_text("running", timeout=MADE_WITHIN_MS)
    expect(panel_item(lab, "mlflow")).not_to_contain_text("not running")


def show_time_left(lab: Page) -> None:
    """The warning before the end, with what it offers."""
    for job in jobs_of(PERSON):
        started_min = int(sh("squeue", "-h", "-j", job, "-o", "%M").split(":")[0])
        sh("scontrol", "update", f"JobId={job}", f"TimeLimit={started_min + LEFT_MIN}", check=False)
    toast = lab.locator(".Toastify__toast--warning").filter(has_text="This session ends at")
    expect(toast).to_be_visible(timeout=KNOWN_WITHIN_MS)


PICTURES = {
    "lab": show_launcher,
    "jobs": show_jobs,
    "modules": show_modules,
    "environments": show_environments,
    "tools": show_tools,
    "time-left": show_time_left,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
