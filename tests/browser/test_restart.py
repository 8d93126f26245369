"""A restart, a crash and an upgrade of the portal, as somebody in JupyterLab sees them: not at all."""

from __future__ import annotations

import re
import shutil
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from portal.session_settings import ANNOUNCE_EVERY
from tests.browser.portal_page import assert_accessible, log_in_as, picture
from tests.forms import of_long_form
from tests.hub.conftest import FOLDER, PORT, Hub
from tests.inside import VENV_BIN, eventually, jobs_of, of_one_kernel, sh, start_again

LAB_DEADLINE_MS = 90_000
SILENT_AFTER_S = 6
NODE = re.compile(r"^.*\bgpu\d+\b.*\n", re.MULTILINE)
HOSTS = Path("/etc/hosts")
EXTRA = f"""
import spawners.timings
spawners.timings.SILENT_AFTER_S = {SILENT_AFTER_S}
c.PortalHub.watch_every_s = 2
c.Spawner.environment = {{"{ANNOUNCE_EVERY}": "1"}}
"""
COUNT = "import itertools, time\nfor number in itertools.count():\n    print(number, flush=True)\n    time.sleep(0.2)"
NOTE_DIALOGS = """() => {
  window.dialogsSeen = [];
  new MutationObserver(changes => changes.forEach(change => change.addedNodes.forEach(node => {
    if (node.classList?.contains("jp-Dialog")) window.dialogsSeen.push(node.innerText);
  }))).observe(document.body, {childList: true});
}"""

MISSING: list[str] = []  # what Alice's browser was told is not there

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A portal of its own, at a path of its own; its sessions say every second that they are there."""
    ours = Hub(FOLDER.with_name("test-browser"), PORT + 400, base_url="/jupyter/")
    ours.prepare()
    (ours.folder / "extra" / "silence.py").write_text(EXTRA)
    ours.start()
    yield ours
    sh("scancel", "--user=alice")
    ours.stop()


@contextmanager
def browser(chromium: Browser, hub: Hub) -> Iterator[BrowserContext]:
    """A browser on that portal."""
    context = chromium.new_context(
        base_url=f"{hub.url}/", viewport={"width": 1280, "height": 860}, reduced_motion="reduce"
    )
    context.set_default_timeout(30_000)
    yield context
    context.close()


@pytest.fixture(scope="module")
def context(chromium: Browser, hub: Hub) -> Iterator[BrowserContext]:
    """Alice's browser."""
    with browser(chromium, hub) as opened:
        opened.on("response", lambda answer: MISSING.append(answer.url) if answer.status == 404 else None)
        yield opened


@pytest.fixture
def control_panel(chromium: Browser, hub: Hub) -> Iterator[Page]:
    """Alice's server page in another browser.

    In the first one JupyterLab's questions to a server that is frozen may hold every connection that it has to a host.
    """
    with browser(chromium, hub) as opened:
        page = opened.new_page()
        log_in_as(page, "alice")
        yield page


@pytest.fixture(scope="module")
def upgraded(hub: Hub) -> Path:
    """The command of another version of the portal, in another folder, with the same libraries and the same proxy."""
    folder = hub.folder / "upgraded"
    packages = Path(site.getsitepackages()[0])
    linked(packages, folder / packages.relative_to(sys.prefix), besides="portal")
    portal = folder / packages.relative_to(sys.prefix) / "portal"
    linked(packages / "portal", portal, besides="__init__.py")
    (portal / "__init__.py").write_text('"""The next version."""\n\n__version__ = "99.0.0"\n')
    (folder / "share").symlink_to(Path(sys.prefix) / "share")
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to((VENV_BIN / "python").resolve())
    command = folder / "bin" / "portal"
    command.write_text((VENV_BIN / "portal").read_text().replace(str(VENV_BIN), str(folder / "bin")))
    command.chmod(0o755)
    return command


def linked(source: Path, folder: Path, besides: str) -> None:
    """A folder with everything of another one in it, but for one entry."""
    folder.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name != besides:
            (folder / entry.name).symlink_to(entry)


@contextmanager
def unresolved_nodes() -> Iterator[None]:
    """Meanwhile this host knows no node by its name; Slurm has their addresses."""
    before = HOSTS.read_text()
    HOSTS.write_text(NODE.sub("", before))
    try:
        yield
    finally:
        HOSTS.write_text(before)


def test_a_node_whose_name_this_host_does_not_know_is_named_until_somebody_repairs_it(page: Page, hub: Hub) -> None:
    log_in_as(page, "alice")
    with unresolved_nodes():
        page.goto("hub/spawn")
        page.get_by_role("button", name="Start").click()
        words = page.locator("#progress-message")
        expect(words).to_contain_text(
            re.compile("the portal cannot resolve the name of its node gpu0"), timeout=LAB_DEADLINE_MS
        )
        picture(page, "21-unresolved-node")
        assert_accessible(page, "the waiting page of a node that cannot be resolved")

        site_file = hub.folder / "one-kernel.toml"
        site_file.write_text(of_one_kernel(hub.site_file.read_text()))
        doctor = sh(str(VENV_BIN / "portal"), "doctor", "--site", str(site_file), user="portal", check=False)
        assert re.search(r"node names.*cannot be resolved: gpu0", doctor, re.DOTALL), doctor

    page.wait_for_url(re.compile("/jupyter/user/alice/lab"), timeout=LAB_DEADLINE_MS)


def test_a_cell_in_jupyterlab_prints_numbers(page: Page) -> None:
    page.locator('.jp-LauncherCard[data-category="Notebook"][title="Python 3"]').click(timeout=LAB_DEADLINE_MS)
    expect(page.get_by_text("Python 3 | Idle")).to_be_visible(timeout=LAB_DEADLINE_MS)
    page.evaluate(NOTE_DIALOGS)
    page.locator(".jp-Notebook .jp-Cell .cm-content").click()
    page.keyboard.insert_text(COUNT)
    page.keyboard.press("Shift+Enter")

    more_numbers(page)
    picture(page, "22-cell-runs")


def numbers(page: Page) -> list[int]:
    """What the cell has printed, as the page shows it."""
    return [int(word) for word in (page.locator(".jp-OutputArea-output").first.text_content() or "").split()]


def more_numbers(page: Page) -> None:
    """Wait until the page shows ten more than it does now, in a kernel that is at work."""
    there = len(numbers(page)) if page.locator(".jp-OutputArea-output").count() else 0
    page.locator(".jp-OutputArea-output").first.wait_for()
    eventually(lambda: len(numbers(page)) >= there + 10, "the cell prints", within_s=30)
    expect(page.get_by_text("Python 3 | Busy")).to_be_visible()


def proxy_of(hub: Hub) -> str:
    """The process of its proxy."""
    return (hub.folder / "state" / "proxy.pid").read_text().strip()


@pytest.mark.parametrize("what", [of_long_form("restarted"), of_long_form("killed"), "upgraded"])
def test_the_cell_prints_on_while_the_portal_is_away_and_a_page_waits_for_it(
    page: Page, context: BrowserContext, hub: Hub, what: str, request: pytest.FixtureRequest
) -> None:
    before = proxy_of(hub)
    end = hub.kill if what == "killed" else hub.end
    end()
    try:
        other = context.new_page()
        other.goto("hub/home")
        expect(other.get_by_role("heading", name="The portal restarts")).to_be_visible()
        picture(other, f"23-away-{what}")
        more_numbers(page)
    finally:
        if what == "upgraded":
            hub.command = request.getfixturevalue("upgraded")
        hub.start()

    expect(other.get_by_role("heading", name="My Server", level=1)).to_be_visible()  # it came back by itself
    more_numbers(page)
    other.close()
    seen = numbers(page)
    assert seen == list(range(len(seen)))
    assert page.evaluate("dialogsSeen") == []
    assert page.locator(".jp-Dialog").count() == 0
    picture(page, f"24-lab-{what}")
    assert proxy_of(hub) == before
    assert ("LDAPAuthenticator-99.0.0" in hub.log()) is (what == "upgraded")


def test_the_server_page_says_since_when_a_server_does_not_answer(page: Page, control_panel: Page) -> None:
    (job,) = jobs_of("alice")
    expect(control_panel.get_by_role("heading", name="Running")).to_be_visible()

    sh("pkill", "-STOP", "--euid", "alice")  # past Slurm, which would call the job suspended
    state = eventually(lambda: silence(control_panel), "the page says it", within_s=60)
    assert re.search(r"Not heard of since \d\d:\d\d\s(AM|PM)\. Its node or your home may hang", state), state
    picture(control_panel, "25-not-answering")
    assert_accessible(control_panel, "server page of a session that does not answer")
    expect(control_panel.get_by_role("button", name="Stop My Server")).to_be_visible()

    sh("pkill", "-CONT", "--euid", "alice")
    eventually(lambda: not silence(control_panel), "it answers again", within_s=30)
    more_numbers(page)
    assert jobs_of("alice") == [job]


def silence(page: Page) -> str:
    """What the server page says when it is loaded again; '' while the server is heard of."""
    page.goto("hub/home")
    words = page.locator("main").inner_text()
    return words if "Not answering" in words else ""


def test_the_server_page_says_what_is_unusual_about_a_session(page: Page, control_panel: Page) -> None:
    (job,) = jobs_of("alice")
    page.goto("about:blank")

    sh("scontrol", "suspend", job)
    reads(control_panel, "Suspended", within_s=40)
    assert_accessible(control_panel, "server page of a suspended session")
    picture(control_panel, "19-suspended")
    sh("scontrol", "resume", job)
    reads(control_panel, "Running", within_s=40)

    sh("scontrol", "requeue", job)
    reads(control_panel, "Waiting again", within_s=40)
    expect(control_panel.get_by_role("button", name="Open My Server")).to_have_count(0)
    expect(control_panel.get_by_text("Started", exact=True)).to_have_count(0)
    assert_accessible(control_panel, "server page of a session that waits again")
    picture(control_panel, "20-waiting-again")
    start_again(job)
    reads(control_panel, "Running", within_s=60)
    assert jobs_of("alice") == [job]
    eventually(lambda: opens(control_panel), "its server answers at its new place", within_s=60)


def reads(page: Page, heading: str, within_s: float) -> None:
    """Load the server page again until it says so."""

    def says() -> bool:
        page.goto("hub/home")
        return page.locator("#server-state").inner_text().strip() == heading

    eventually(says, f"the server page says {heading!r}", within_s=within_s)


def opens(page: Page) -> bool:
    """Whether JupyterLab comes."""
    answer = page.goto("user/alice/lab")
    return answer is not None and answer.status == 200 and "/user/alice/lab" in page.url


def test_below_a_path_nothing_is_missing_and_logout_ends_it_there(page: Page, context: BrowserContext) -> None:
    page.goto("hub/home")
    page.get_by_role("button", name="Logout").click()
    expect(page.get_by_label("User name")).to_be_visible()
    page.goto("user/alice/lab")

    assert "/jupyter/hub/" in page.url, "nobody is logged in any more"
    assert {cookie["path"].split("/")[1] for cookie in context.cookies()} == {"jupyter"}
    assert [url for url in MISSING if "/jupyter/hub/" in url or "/jupyter/" not in url] == []
