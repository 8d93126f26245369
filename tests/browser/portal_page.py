"""What the browser tests share: the portal's pages, pictures of them, and Slurm's own view of what happened."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.inside import sh

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURES = Path(os.environ.get("DSPORTAL_ARTEFACTS", CHECKOUT / ".test-artefacts")) / "browser"
AXE = Path(sys.prefix) / "share" / "dsportal" / "axe" / "node_modules" / "axe-core" / "axe.min.js"


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page as the artefact ``name``.png."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def log_in(page: Page, name: str, password: str) -> None:
    """Fill in the login page and send it."""
    page.goto("hub/login")  # below the path of the portal, if it has one
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def log_in_as(page: Page, name: str) -> None:
    """Log in with a demo account; ends on the server page."""
    log_in(page, name, f"{name}-demo")
    expect(page.get_by_role("heading", name="My Server", level=1)).to_be_visible()


def refusal(page: Page) -> str:
    """The message of a login page that said no."""
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible()
    return alert.inner_text()


def assert_accessible(page: Page, name: str, part: str = "") -> None:
    """No serious or critical fault in the eyes of axe, in the light and in the dark theme; of a page, or its part."""
    assert AXE.is_file(), f"{AXE} is missing; `make test` installs it"
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(AXE.read_text())  # a script tag fails when axe's own styles break the page's policy meanwhile
        found = page.evaluate("part => axe.run(part || document).then(result => result.violations)", part)
        faults = [f for f in found if f["impact"] in ("serious", "critical")]
        words = [f"{f['id']}: {f['help']}: {[node['html'] for node in f['nodes']]}" for f in faults]
        assert not words, f"{name}, {scheme}: " + "\n".join(words)


@dataclass(frozen=True)
class QueuedJob:
    """One line of squeue."""

    id: int
    state: str
    partition: str
    gres: str


def jobs_of(name: str) -> list[QueuedJob]:
    """The jobs of a person that Slurm still lists as waiting, running or ending."""
    lines = sh("squeue", "--noheader", f"--user={name}", "--format=%i|%T|%P|%b").splitlines()
    found = [line.strip().split("|") for line in lines if line.strip()]
    return [QueuedJob(int(id_), state, partition, gres) for id_, state, partition, gres in found]


def gpus_in_use() -> int:
    """How many GPUs of the whole cluster are given to jobs."""
    lines = sh("sinfo", "--noheader", "--Node", "--Format=NodeList:40,GresUsed:80").splitlines()
    used = {line.split()[0]: line for line in lines if line.strip()}  # a node stands once for each partition
    return sum(int(count) for line in used.values() for count in re.findall(r"gpu(?::[^\s:(]+)?:(\d+)", line))


def submit_as(name: str, *argv: str) -> int:
    """Hand a job to Slurm as a person, on the command line; gives its number."""
    printed = sh("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", *argv, user=name)
    return int(printed.split(";")[0])
