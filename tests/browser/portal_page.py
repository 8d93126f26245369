"""What the browser tests share: the portal's pages, pictures of them, and Slurm's own view of what happened."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import BrowserContext, Error, Page, expect

from tests import pictures
from tests.covered import LONG_MS
from tests.inside import sh

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURES = Path(os.environ.get("DSPORTAL_ARTEFACTS", CHECKOUT / ".test-artefacts")) / "browser"
LAB_DEADLINE_MS = 90_000
AXE = Path(sys.prefix) / "share" / "dsportal" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
expect.set_options(timeout=30_000)  # as what a test does may take: five seconds are few beside three other rings


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page as the artefact ``name``.png."""
    pictures.keep(page, PICTURES / f"{name}.png")


def picture_of_failure(page: Page, name: str) -> None:
    """The same of a test that failed; where the browser is what failed there is none, and the other tests go on."""
    with suppress(Error, AssertionError):
        picture(page, f"failed-{name}")


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


def start_lab(page: Page, name: str) -> None:
    """Start a session without GPUs, on the node that all of these get; ends on its launcher."""
    log_in_as(page, name)
    page.goto("/hub/spawn?opt-gpus=0&opt-hours=1")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(rf"/user/{name}/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)


def look_sooner(context: BrowserContext, usual_ms: int, now_ms: int) -> None:
    """What the pages of a browser do each time so much time has passed, they do sooner from now on."""
    context.add_init_script(
        f"""{{
          const wait = window.setTimeout;
          window.setTimeout = (work, ms, ...more) => wait(work, ms === {usual_ms} ? {now_ms} : ms, ...more);
        }}"""
    )


def refusal(page: Page) -> str:
    """The message of a login page that said no."""
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible()
    return alert.inner_text()


def assert_accessible(page: Page, name: str, part: str = "", *, is_strict: bool = False) -> None:
    """No serious or critical fault in the eyes of axe, in the light and in the dark theme; of a page, or its part.

    ``is_strict``: nor a smaller one.
    """
    assert AXE.is_file(), f"{AXE} is missing; `make test` installs it"
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(AXE.read_text())  # a script tag fails when axe's own styles break the page's policy meanwhile
        found = page.evaluate("part => axe.run(part || document).then(result => result.violations)", part)
        faults = [f for f in found if is_strict or f["impact"] in ("serious", "critical")]
        words = [f"{f['id']}: {f['help']}: {[node['html'] for node in f['nodes']]}" for f in faults]
        assert not words, f"{name}, {scheme}: " + "\n".join(words)


WIDTHS = (320, 1280)
# What the Tab key must reach: every control that can be seen and used; of radio buttons the one that is chosen.
# And how each looks at rest: its outline and its shadow, or its label's where it is drawn by that.
CONTROLS = """() => {
  const all = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const isStop = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0
    && !(one.type === "radio" && !one.checked && document.querySelector(`input[name="${one.name}"]:checked`));
  window.lookOf = (one) => {
    const { opacity } = getComputedStyle(one);
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(opacity === "0" ? one.nextElementSibling : one);
    return [outlineStyle, outlineStyle === "none" ? "" : outlineWidth, boxShadow].join(" ");
  };
  document.activeElement.blur();
  window.controls = [...document.querySelectorAll(all)].filter(isStop);
  window.atRest = new Map(window.controls.map((one) => [one, window.lookOf(one)]));
  window.reached = new Set();
  return window.controls.length;
}"""
# Where the focus is now: "" on no control, "seen" where that one looks otherwise than at rest.
FOCUSED = """() => {
  const one = document.activeElement;
  window.reached.add(one);
  if (!window.atRest.has(one)) return "";
  return window.lookOf(one) === window.atRest.get(one) ? one.outerHTML.slice(0, 200) : "seen";
}"""
MISSED = "() => window.controls.filter((one) => !window.reached.has(one)).map((one) => one.outerHTML.slice(0, 200))"
TOO_WIDE = """() => {
  const page = document.documentElement;
  if (page.scrollWidth <= page.clientWidth) return [];
  const all = [...document.body.querySelectorAll("*")];
  const over = all.filter(one => one.getBoundingClientRect().right > page.clientWidth);
  return ["the page", ...over.map(one => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 40)}`)];
}"""


def assert_for_the_keyboard(page: Page, name: str) -> None:
    """The Tab key reaches every control of a page, and whoever uses it sees where they are."""
    count = page.evaluate(CONTROLS)
    assert count, f"{name}: a page without a control leads nowhere"
    for _ in range(count + 2):  # the last Tab may leave the page
        page.keyboard.press("Tab")
        seen = page.evaluate(FOCUSED)
        assert seen in ("", "seen"), f"{name}: nobody sees that the focus is on {seen}"
    assert page.evaluate(MISSED) == [], f"{name}: the Tab key does not get there"
    page.mouse.move(1, 1)  # where the Tab key has left the page, presses count of a pointer that has rested on it
    page.wait_for_timeout(LONG_MS)


def assert_for_everybody(page: Page, name: str) -> None:
    """axe finds nothing at all on a page, the keyboard gets everywhere, and nothing is wider than a telephone."""
    usual = page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 860})
        menu = page.locator(".navbar-toggler")  # its name is in the language of the page
        if menu.is_visible() and menu.get_attribute("aria-expanded") == "false":
            menu.press("Enter")
            page.locator("#thenavbar.show").wait_for()
        assert_accessible(page, f"{name}, {width} px", is_strict=True)
        assert page.evaluate(TOO_WIDE) == [], f"{name}: wider than {width} px"
        assert_for_the_keyboard(page, f"{name}, {width} px")
        picture(page, f"{name}-{width}".replace(" ", "-"))
    if usual:
        page.set_viewport_size(usual)


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
