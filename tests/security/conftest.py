"""A hub with two people who do not trust each other: Carol, an administrator, and Bob, whose session is hostile."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from tests.browser.portal_page import log_in_as
from tests.hub.conftest import Hub, self_signed
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, eventually, has_no_job, home, sh

HOSTILE = Path(__file__).with_name("hostile_session.py")
NAME = "portal.example.org"  # browsers are told that it is here
PEOPLE = ("bob", "carol")
OF_FORMS = ("_xsrf", "/hub/")  # the cookie with the hub's token against forged requests: its name and path
FOLDER = Path("/cluster/test-security")
ALICES_PORTAL = "http://localhost:18900"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, for which every name below example.org is this computer."""
    with sync_playwright() as playwright:
        names = f"--host-resolver-rules=MAP {NAME} 127.0.0.1,MAP *.{NAME} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*CHROMIUM_ARGUMENTS, names])
        yield browser
        browser.close()


@dataclass(frozen=True)
class Two:
    """Two people of one hub.

    Attributes:
        address: the portal's own.
        carol: her browser, in which she is logged in and in JupyterLab.
        session: the address of her session, to /user/carol.
        bobs: the address at which Bob's session is, without a path.
        login: the cookie of Bob's own login, which he knows: its name and value.
        token: his own token against forged requests, which he knows as well.
    """

    hub: Hub
    address: str
    carol: Page
    session: str
    bobs: str
    login: tuple[str, str]
    token: str


@contextmanager
def browser_of(chromium: Browser, address: str, name: str) -> Iterator[Page]:
    """A browser of its own in which somebody is logged in."""
    context: BrowserContext = chromium.new_context(base_url=address, ignore_https_errors=True)
    context.set_default_timeout(30_000)
    page = context.new_page()
    log_in_as(page, name)
    yield page
    context.close()


def start(page: Page) -> None:
    """Start a session by the form, without a GPU."""
    page.goto("/hub/spawn?gpus=0")
    page.get_by_role("button", name="Start").click()


def until_in_lab(page: Page) -> str:
    """Wait until the browser is in JupyterLab; answers the session's address, to /user/NAME."""
    page.wait_for_url("**/lab**", timeout=90_000)
    expect(page.locator("#jp-top-panel")).to_be_visible(timeout=60_000)
    return page.url.partition("/lab")[0]


@contextmanager
def in_session(chromium: Browser, folder: Path) -> Iterator[tuple[Page, str]]:
    """Alice in a session of a hub of her own, with a domain, and its address."""
    domain = ALICES_PORTAL.removeprefix("http://")
    hub = Hub(folder, int(domain.rpartition(":")[2]), domain=domain)
    hub.prepare()
    hub.start()
    try:
        with browser_of(chromium, ALICES_PORTAL, "alice") as page:
            start(page)
            yield page, until_in_lab(page)
    finally:
        hub.stop()
        sh("scancel", "--user=alice")
        eventually(partial(has_no_job, "alice"), "no job is left")


@contextmanager
def closed_partition() -> Iterator[None]:
    """Jobs that are submitted meanwhile wait."""
    name = ("scontrol", "update", "PartitionName=sxm2")
    sh(*name, "State=DOWN")
    try:
        yield
    finally:
        sh(*name, "State=UP")


@contextmanager
def hostile_session(page: Page, name: str) -> Iterator[None]:
    """Start somebody's session in which a server of theirs stands where JupyterLab should.

    Its owner can write the file that JupyterLab takes its environment from, so JupyterLab looks for another hub.
    """
    folder = home(name) / SESSIONS
    shutil.rmtree(folder, ignore_errors=True)
    said = FOLDER / "hostile.log"
    with closed_partition():
        start(page)
        (file,) = eventually(lambda: list(folder.glob(f"*/{ENVIRONMENT_FILE}")), "the session's file")
        given = eventually(file.read_text, "the launcher has written it")
        file.write_text(json.dumps({**json.loads(given), "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api"}))
    argv = ["runuser", "-u", name, "--", sys.executable, str(HOSTILE)]
    with said.open("w") as log, subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, text=True) as theirs:
        try:
            assert theirs.stdin
            theirs.stdin.write(given)
            theirs.stdin.close()
            eventually(lambda: "announced: 204" in said.read_text(), "the hub takes it for the session")
            yield
        finally:
            theirs.terminate()


@pytest.fixture(scope="module")
def two_people(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Two]:
    """Carol in her own session, and Bob's hostile one; the parameter is the hub's ``domain``."""
    secured = (
        self_signed(Path("/cluster/test-security-certificates"), f"DNS:{NAME}", f"DNS:*.{NAME}")
        if request.param.startswith("https://")
        else {}
    )
    hub = Hub(FOLDER, 18500, domain=request.param, **secured)
    address = request.param if secured else f"http://{request.param or '127.0.0.1:18500'}"
    hub.prepare()
    hub.start()
    try:
        with browser_of(chromium, address, "carol") as carol, browser_of(chromium, address, "bob") as bob:
            start(carol)
            session = until_in_lab(carol)
            with hostile_session(bob, "bob"):
                bob.wait_for_url("**/user/bob/**", timeout=90_000)
                logins = [cookie for cookie in bob.context.cookies() if "hub-login" in cookie["name"]]
                login = (logins[0]["name"], logins[0]["value"])
                token = next(one["value"] for one in bob.context.cookies() if (one["name"], one["path"]) == OF_FORMS)
                yield Two(hub, address, carol, session, bob.url.partition("/user/bob")[0], login, token)
    finally:
        hub.stop()
        for name in PEOPLE:
            sh("scancel", f"--user={name}")
            eventually(partial(has_no_job, name), "no job is left")
