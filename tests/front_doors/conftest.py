"""A portal behind a web server of the site, as docs/howto/reverse-proxy.md describes it: a named run, not a part of CI.

The server has the ports 80 and 443 of the private network, and the portal the demo's, which is stopped meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.portal_page import picture_of_failure
from tests.front_doors.recipes import CA, CERTIFICATE, CHECKOUT, DOORS, NAME, PATH, portal_table
from tests.hub.conftest import Hub
from tests.inside import CHROMIUM, CHROMIUM_ARGUMENTS, SITE_FILE, VENV_BIN, eventually, has_no_job, home, sh

FOLDER = Path("/cluster/test-front-doors")
HOSTS = Path("/etc/hosts")
SHAPES = {"below a path": {"base_url": PATH, "domain": ""}, "with a domain": {}}
BROKEN: dict[str, str] = {}  # by the shape and the server of a story: the first step that failed


@dataclass(frozen=True)
class Front:
    """A portal and the server before it.

    Attributes:
        address: the portal's own in browsers, with a slash at its end.
        session: the address of Alice's session, to ``/user/alice``.
    """

    hub: Hub
    address: str
    session: str


@pytest.fixture(scope="session", autouse=True)
def _names_and_certificates() -> Iterator[None]:
    """The names lead to this host, and there is a certificate for them."""
    before = HOSTS.read_text()
    HOSTS.write_text(f"{before}127.0.0.1 {NAME} alice.{NAME}\n")
    make_certificates()
    yield
    HOSTS.write_text(before)


def make_certificates() -> None:
    """An authority of the tests, and the server's certificate for the portal and all names below it."""
    folder = CA.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    new = ("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    sh(*new, "-x509", "-keyout", f"{folder}/ca.key", "-out", str(CA), "-subj", "/CN=Test CA", *usage)
    key = CERTIFICATE.with_suffix(".key")
    sh(*new, "-keyout", str(key), "-out", f"{folder}/portal.csr", "-subj", f"/CN={NAME}")
    (folder / "names").write_text(f"subjectAltName=DNS:{NAME},DNS:*.{NAME}\nauthorityKeyIdentifier=keyid\n")
    by = ("-CA", str(CA), "-CAkey", f"{folder}/ca.key", "-days", "2", "-extfile", f"{folder}/names")
    sh("openssl", "x509", "-req", "-in", f"{folder}/portal.csr", *by, "-out", str(CERTIFICATE))


@pytest.fixture(scope="session", autouse=True)
def _the_demos_portal_is_stopped() -> Iterator[None]:
    """The port that the page names is free; the demo's portal runs again afterwards."""
    control = (sys.executable, str(CHECKOUT / "deploy" / "run_module.py"), "deploy.demo.service_control")
    sh(*control, "stop", "hub")
    sh(str(VENV_BIN / "portal"), "down", "--site", str(SITE_FILE), user="portal")
    yield
    sh(*control, "start", "hub")


def trusts(certificate: Path) -> str:
    """The argument with which Chromium's engine believes this one certificate: it reads no policies and no store."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"--ignore-certificate-errors-spki-list={base64.b64encode(hashlib.sha256(info).digest()).decode()}"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium's engine, which resolves names as everywhere; names in certificates are for other clients to check."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*CHROMIUM_ARGUMENTS, trusts(CERTIFICATE)])
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=SHAPES, ids=lambda shape: str(shape).replace(" ", "-"))
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    """The portal with the lines of the page: with a domain, or below a path."""
    lines = {**portal_table(), **SHAPES[request.param]}
    listed = lines.pop("trusted_proxies")
    ours = Hub(FOLDER, int(lines.pop("port")), **lines)
    ours.prepare()
    text = ours.site_file.read_text()
    ours.site_file.write_text(text.replace("[portal]\n", f"[portal]\ntrusted_proxies = {json.dumps(listed)}\n"))
    ours.start()
    yield ours
    ours.stop()


@pytest.fixture(scope="module", params=DOORS)
def front(hub: Hub, request: pytest.FixtureRequest) -> Iterator[Front]:
    """The portal behind one server."""
    below = hub.settings["base_url"]
    host = f"alice.{NAME}" if hub.settings["domain"] else NAME
    with DOORS[request.param](below).open():
        yield Front(hub, f"https://{NAME}{below}", f"https://{host}{below}user/alice")
    sh("scancel", "--user=alice")
    eventually(partial(has_no_job, "alice"), "no job is left")


@pytest.fixture(scope="module")
def context(chromium: Browser, front: Front) -> Iterator[BrowserContext]:
    """Alice's browser."""
    for made_earlier in (".jupyter", ".local", "templates", "big.bin", "Untitled.ipynb"):
        place = home("alice") / made_earlier
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
    context = chromium.new_context(base_url=front.address, viewport={"width": 1280, "height": 860})
    context.set_default_timeout(30_000)
    yield context
    context.close()


@pytest.fixture(scope="module")
def page(context: BrowserContext) -> Page:
    """The tab in which the story happens."""
    return context.new_page()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The steps of a story stand on each other: after a failure the others fail at once."""
    if broken := BROKEN.get(story_of(item)):
        pytest.fail(f"the step {broken} failed before", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Keep a picture of what the browser showed when a step failed."""
    report = yield
    if report.failed:
        BROKEN.setdefault(story_of(item), item.name)
        if isinstance(page := getattr(item, "funcargs", {}).get("page"), Page):
            picture_of_failure(page, item.name)
    return report


def story_of(item: pytest.Item) -> str:
    """The shape and the server of a step."""
    return item.name.partition("[")[2]
