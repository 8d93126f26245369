"""What a person and a stranger see of a portal behind nginx, Apache and Traefik: a story for each."""

from __future__ import annotations

import asyncio
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.browser.portal_page import log_in_as
from tests.front_doors.conftest import Front
from tests.front_doors.recipes import NAME, PATH, trusted
from tests.inside import eventually, home

LAB_DEADLINE_MS = 90_000
BIG_BYTES = 200 * 2**20
BIG_DEADLINE_S = 300
SOCKETS = 800  # more than nginx and Apache of Debian hand on without the page's lines for many people
AT_A_TIME = 20
ELSEWHERE = "127.0.0.5"  # a browser at another address
NOT_TRUSTED = "127.0.0.9"  # who asks the portal itself, past the server that it trusts
CLAIMS = {"X-Forwarded-For": "203.0.113.7", "X-Real-IP": "203.0.113.7", "Forwarded": "for=203.0.113.7;proto=http"}


def client(front: Front, address: str, **headers: str) -> httpx.Client:
    """Somebody at an address, who comes through the server."""
    transport = httpx.HTTPTransport(local_address=address, verify=trusted())
    return httpx.Client(transport=transport, base_url=front.address, headers=headers, follow_redirects=True, timeout=60)


def digest(file: Path) -> str:
    """The sum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def test_whoever_comes_by_http_is_led_to_https(front: Front) -> None:
    answer = httpx.get(f"http://{NAME}{PATH}hub/login?next=%2F", trust_env=False)

    assert answer.status_code in (301, 302, 307, 308)
    assert answer.headers["location"] == f"https://{NAME}{PATH}hub/login?next=%2F"


def test_a_person_logs_in_and_every_cookie_is_secure(page: Page, context: BrowserContext) -> None:
    log_in_as(page, "alice")

    cookies = context.cookies()
    assert {"_xsrf", "jupyterhub-session-id"} <= {cookie["name"].removeprefix("__Host-") for cookie in cookies}
    assert [cookie["name"] for cookie in cookies if not cookie["secure"]] == []


def test_a_session_starts_while_its_page_tells_how_far_it_is(page: Page, front: Front) -> None:
    page.goto("hub/spawn?gpus=0")
    page.get_by_role("button", name="Start").click()

    page.wait_for_url(re.compile(f"^{re.escape(front.session)}/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)


def test_a_cell_runs_in_a_kernel_over_its_web_socket(page: Page) -> None:
    page.locator('.jp-LauncherCard[data-category="Notebook"][title="Python 3"]').click()
    expect(page.get_by_text("Python 3 | Idle")).to_be_visible(timeout=LAB_DEADLINE_MS)
    page.locator(".jp-Notebook .jp-Cell .cm-content").click()
    page.keyboard.insert_text("import os\nprint('job', os.environ['SLURM_JOB_ID'], 6 * 7)")
    page.keyboard.press("Shift+Enter")

    expect(page.locator(".jp-OutputArea-output").first).to_contain_text(re.compile(r"job \d+ 42"))


def test_a_file_of_200_mb_goes_up(page: Page, tmp_path: Path) -> None:
    here = tmp_path / "big.bin"
    with here.open("wb") as stream:
        for number in range(BIG_BYTES // 2**20):
            stream.write(hashlib.shake_256(str(number).encode()).digest(2**20))
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Upload Files").click()
    chosen.value.set_files(here)

    there = home("alice") / "big.bin"
    eventually(lambda: there.exists() and there.stat().st_size == BIG_BYTES, "it is there", BIG_DEADLINE_S)
    eventually(lambda: digest(there) == digest(here), "it is whole")


def test_one_request_may_be_as_big_as_a_notebook_full_of_pictures(page: Page) -> None:
    """JupyterLab saves a notebook in one request, uploads files in many."""
    save = """async size => {
      const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
      const url = location.pathname.replace(/lab.*/, "api/contents/saved.txt");
      const body = JSON.stringify({type: "file", format: "text", content: "x".repeat(size)});
      return (await fetch(url, {method: "PUT", body, headers: {"X-XSRFToken": xsrf}})).status;
    }"""

    assert page.evaluate(save, 50 * 2**20) in (200, 201)
    assert (home("alice") / "saved.txt").stat().st_size == 50 * 2**20


def test_a_file_of_200_mb_comes_down(page: Page, front: Front, tmp_path: Path) -> None:
    with page.expect_download(timeout=BIG_DEADLINE_S * 1000) as coming:
        page.evaluate("url => { location.href = url; }", f"{front.session}/files/big.bin?download=1")
    saved = tmp_path / "saved.bin"
    coming.value.save_as(saved)

    assert saved.stat().st_size == BIG_BYTES
    assert digest(saved) == digest(home("alice") / "big.bin")


def test_the_next_page_is_answered_while_many_people_have_their_web_sockets(
    front: Front, context: BrowserContext
) -> None:
    url = f"{front.session}/api/events/subscribe".replace("https:", "wss:")
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in context.cookies(f"{front.session}/"))

    with ThreadPoolExecutor(1) as beside:  # the browser's driver has this thread's loop
        status = beside.submit(lambda: asyncio.run(answer_beside(front, url, cookies))).result()

    assert status == 200


async def answer_beside(front: Front, url: str, cookies: str) -> int:
    """What the next page is answered with while web sockets to the session are open."""
    held: list[WebSocketClientConnection] = []
    try:
        while len(held) < SOCKETS:
            asked = [HTTPRequest(url, headers={"Cookie": cookies}, ssl_options=trusted()) for _ in range(AT_A_TIME)]
            held += await asyncio.gather(*(websocket_connect(one) for one in asked))
        async with httpx.AsyncClient(verify=trusted(), trust_env=False, timeout=20) as next_one:
            return (await next_one.get(f"{front.address}hub/login")).status_code
    finally:
        await asyncio.gather(*(closed(one) for one in held))


async def closed(socket: WebSocketClientConnection) -> None:
    """Close a web socket and wait until the other side has, too."""
    socket.close()
    while await socket.read_message() is not None:
        pass


def test_a_name_with_a_slash_or_a_percent_sign_in_it_arrives_as_it_was_sent(front: Front) -> None:
    """A server that reads and rewrites the path would ask the portal for another one."""
    with client(front, ELSEWHERE) as person:
        asked = {"next": f"{front.address.removeprefix(f'https://{NAME}')}hub/home?a=%252F&b=%2F"}
        answer = person.get("hub/login", params=asked)
        other = person.get("hub/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd")

    assert answer.status_code == 200
    assert "a%3D%25252F%26b%3D%252F" in answer.text
    assert other.status_code in (400, 403, 404)


def test_what_a_browser_claims_of_itself_counts_for_nothing(front: Front) -> None:
    with client(front, ELSEWHERE, **CLAIMS) as stranger:
        stranger.get("hub/login")
        form = {"username": "alice", "password": "wrong"}
        xsrf = next(cookie.value for cookie in stranger.cookies.jar if cookie.name.endswith("_xsrf"))
        stranger.post("hub/login", params={"_xsrf": xsrf}, data=form)
        secure = [cookie.secure for cookie in stranger.cookies.jar]

    refused = [line for line in front.hub.log().splitlines() if "No login of " in line]
    assert f"from {ELSEWHERE}" in refused[-1]
    assert secure
    assert all(secure)


def test_headers_from_elsewhere_than_the_servers_address_are_dropped(front: Front) -> None:
    straight = f"{front.hub.url}/hub/login"
    told = {"X-Forwarded-Proto": "https", "X-Scheme": "https", "Host": NAME}
    seen = {}
    for address in ("127.0.0.1", NOT_TRUSTED):
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address), headers=told) as past_it:
            answer = past_it.get(straight)
            seen[address] = ["secure" in line.lower() for line in answer.headers.get_list("set-cookie")]

    in_any_case = bool(front.hub.settings["domain"])
    assert seen["127.0.0.1"]
    assert all(seen["127.0.0.1"])
    assert seen[NOT_TRUSTED]
    assert all(secure == in_any_case for secure in seen[NOT_TRUSTED])


def test_a_person_logs_out_and_is_out_of_the_session_too(page: Page, context: BrowserContext, front: Front) -> None:
    page.goto("hub/home")
    page.get_by_role("button", name="Logout").click()

    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    here = [cookie for cookie in context.cookies() if cookie["domain"] == NAME]
    assert not [cookie for cookie in here if not cookie["name"].endswith("_xsrf")]
    page.goto("about:blank")
    eventually(
        lambda: is_shut(page, front), "the session asks for a login", within_s=40
    )  # it believes the hub for 20 s


def is_shut(page: Page, front: Front) -> bool:
    """Whether the session's address leads to the login page."""
    page.goto(f"{front.session}/lab")
    return "/hub/login" in page.url


@pytest.fixture(scope="module", autouse=True)
def _files_go(front: Front) -> None:
    """What an earlier story saved is not there."""
    for name in ("big.bin", "saved.txt"):
        (home("alice") / name).unlink(missing_ok=True)
