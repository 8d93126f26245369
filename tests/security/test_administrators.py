"""What an administrator sees and does, and what not: a real hub, real LDAP groups, a real session in Slurm."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from portal.launcher import SESSIONS
from portal.session_settings import HUB_ANSWER
from tests.browser.portal_page import assert_accessible, log_in_as, picture
from tests.directory.slapd import GROUPS, PEOPLE
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, has_no_job, home, jobs_of, sh
from tests.security.test_leaving import of_the_cluster

FOLDER = Path("/cluster/test-administrators")
PORT = 18600
URL = f"http://127.0.0.1:{PORT}"
WATCHER = secrets.token_hex(16)
EXTRA = f"""
import portal.administration.enter
import portal.login.people
portal.administration.enter.TAKEN_BACK_EVERY_S = 1.0
portal.login.people.FRESH_S = 0.5
c.PortalHub.people_every_s = 1
c.Spawner.environment = {{"{HUB_ANSWER}": "2"}}
c.JupyterHub.services.append({{"name": "watcher", "api_token": "{WATCHER}"}})
scopes = ["admin:servers", "read:users"]
c.Authenticator.admin_users = {{"dave"}}
c.JupyterHub.load_roles.append({{"name": "watcher", "services": ["watcher"], "scopes": scopes}})
"""
REASON = "The disk of alice is full; looking for the file that grows."
ENTER = "/hub/dsportal/enter/alice"
LEFT_S = 60.0  # the promise; here the directory is asked sooner. Web sockets 5 s more
ADMINS = f"cn=portal-admins,{GROUPS}"
BELIEVED_S = 35.0  # an access that has ended is one for so long at most: hub 5 s, session 25 s, open web sockets 5 s


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A hub with the demo's people, of whom carol administers; nobody may enter sessions yet."""
    ours = Hub(FOLDER, PORT)
    ours.prepare()
    (FOLDER / "extra" / "watcher.py").write_text(EXTRA)
    ours.start()
    yield ours
    ours.stop()
    sh("scancel", "--user=alice")
    eventually(partial(has_no_job, "alice"), "no job is left")


@pytest.fixture(scope="module")
def alice(hub: Hub) -> Iterator[Person]:
    """Alice, whose session runs."""
    shutil.rmtree(home("alice") / SESSIONS, ignore_errors=True)
    person = Person("alice", URL)
    assert person.login().status_code == 200
    person.start()
    yield person
    person.http.close()


@pytest.fixture(scope="module")
def carol(alice: Person) -> Iterator[Person]:
    """Carol, who is in the group of the administrators."""
    person = Person("carol", URL)
    assert person.login().status_code == 200
    yield person
    person.http.close()


@pytest.fixture(scope="module")
def page(chromium: Browser, alice: Person) -> Iterator[Page]:
    """Carol's browser, on the administration page."""
    context = chromium.new_context(base_url=URL, reduced_motion="reduce")
    page = context.new_page()
    log_in_as(page, "carol")
    yield page
    context.close()


def restart(hub: Hub) -> None:
    """A hub that comes back; its sessions go on."""
    hub.end()
    hub.start()


def database(command: str, *values: object) -> None:
    """Change the hub's database behind its back."""
    with closing(sqlite3.connect(FOLDER / "state" / "jupyterhub.sqlite", timeout=10)) as file, file:
        file.execute(command, values)


def texts(value: Any) -> Iterator[str]:
    """Every text in an answer."""
    if isinstance(value, dict):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def by_token(token: str, path: str, method: str = "GET") -> httpx.Response:
    """The hub's answer to a token."""
    headers = {"Authorization": f"token {token}"}
    return httpx.request(method, f"{URL}/hub/api{path}", headers=headers, trust_env=False, timeout=30)


def enter(person: Person, reason: str) -> httpx.Response:
    """Send the form with the reason."""
    person.http.get(ENTER)
    return person.http.post(ENTER, params={"_xsrf": person.xsrf}, data={"reason": reason})


def go_in(person: Person, reason: str) -> httpx.Response:
    """Enter, and let the session know who enters where JupyterHub asks about that."""
    answer = enter(person, reason)
    if "oauth" in str(answer.url):
        form = dict(re.findall(r'<input[^>]*name="(_xsrf|scopes)"[^>]*value="([^"]*)"', answer.text))
        answer = person.http.post(str(answer.url), data=form | {"_xsrf": person.xsrf})
    return answer


def is_inside(person: Person) -> bool:
    """Whether somebody reads Alice's files through her session."""
    return person.http.get("/user/alice/api/contents").status_code == 200


def test_nothing_in_a_sessions_state_is_a_token_of_anything(alice: Person) -> None:
    state = by_token(WATCHER, "/users/alice").json()["servers"][""]["state"]

    assert state["job_id"] in jobs_of("alice")
    assert [by_token(text, "/user").status_code for text in texts(state) if text] == [403] * len(list(texts(state)))


def test_an_administrator_sees_everybody_and_their_sessions(carol: Person) -> None:
    people = {user["name"]: user for user in carol.api("GET", "/users").json()}

    assert people["alice"]["servers"][""]["ready"]
    assert not people["carol"]["admin"]
    assert "portal-admins" in people["carol"]["groups"]
    assert carol.http.get("/hub/admin").status_code == 200


def test_the_administration_page_shows_sessions_and_no_button_that_cannot_work(page: Page) -> None:
    page.goto("/hub/admin")
    expect(page.get_by_role("row", name=re.compile(r"\balice\b"))).to_be_visible()
    picture(page, "administration")

    expect(page.get_by_role("button", name="Stop Server")).to_have_count(1)
    names = page.get_by_role("button").all_inner_texts() + page.get_by_role("link").all_inner_texts()
    cannot = {"Start Server", "Spawn Page", "Access Server", "Start All", "Add Users", "Shutdown Hub"}
    assert not cannot & {name.strip() for name in names}
    page.get_by_role("link", name="Manage Groups").click()
    expect(page.get_by_text("portal-admins")).to_be_visible()
    picture(page, "administration-groups")
    page.goto("/hub/admin")
    page.get_by_role("row", name=re.compile(r"\balice\b")).get_by_role("button", name="Edit User").click()
    expect(page.get_by_role("button", name="Delete user")).to_be_visible()
    picture(page, "administration-person")
    page.goto("/hub/admin")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/users/alice/tokens"),
        ("POST", "/users/alice/tokens"),
        ("POST", "/users/bob/server"),
        ("PATCH", "/users/alice"),
        ("POST", "/users/mallory"),
        ("POST", "/groups/portal-admins/users"),
        ("POST", "/shares/alice/"),
        ("GET", "/proxy"),
        ("POST", "/shutdown"),
    ],
)
def test_an_administrator_is_nobody_else(carol: Person, method: str, path: str) -> None:
    answer = carol.api(method, path, json={} if method != "GET" else None)

    assert answer.status_code in (403, 404), answer.text


def test_an_administrator_gets_neither_into_a_session_nor_its_secrets(carol: Person) -> None:
    state = carol.api("GET", "/users/alice").json()["servers"][""].get("state")

    assert state is None
    assert not is_inside(carol)
    assert carol.http.get("/hub/spawn/alice").status_code in (403, 404)


def test_nobody_enters_a_session_where_the_site_does_not_allow_it(carol: Person, alice: Person) -> None:
    page = carol.http.get(ENTER)

    assert page.status_code == 404
    assert "portal.admin_access" in page.text
    assert carol.http.post(ENTER, params={"_xsrf": carol.xsrf}, data={"reason": REASON}).status_code == 404
    assert not is_inside(carol)


def test_rights_of_before_end_with_the_hubs_start_and_the_sites_own_setting_counts(
    hub: Hub, carol: Person, alice: Person
) -> None:
    """Also the hub comes back here with the setting that lets administrators enter."""
    hub.end()
    database("UPDATE users SET admin = 1 WHERE name IN ('carol', 'alice')")
    text = hub.site_file.read_text()
    hub.site_file.write_text(text.replace("[portal]\n", "[portal]\nadmin_access = true\n", 1))
    hub.start()

    assert carol.api("GET", "/user").json()["admin"] is False
    assert by_token(WATCHER, "/users/dave").json()["admin"] is True
    assert alice.api("GET", "/user").json()["roles"] == ["user"]
    assert alice.api("GET", "/users").status_code == 403
    assert carol.api("GET", "/users").status_code == 200


def test_a_change_of_what_is_others_asks_for_the_password_again(carol: Person, alice: Person) -> None:
    """The hub has just come back, and knows of no password that was given lately."""
    refused = carol.api("DELETE", "/users/alice/server")
    assert refused.status_code == 403
    assert "/hub/again" in refused.json()["message"]
    assert jobs_of("alice")
    asked = carol.http.get(ENTER)
    assert "Your password again" in asked.text
    assert "Your password again" in enter(carol, REASON).text
    assert not is_inside(carol)

    form = {"next": ENTER, "password": "wrong"}
    carol.http.get("/hub/again")
    wrong = carol.http.post("/hub/again", params={"_xsrf": carol.xsrf}, data=form)
    right = carol.http.post("/hub/again", params={"_xsrf": carol.xsrf}, data=form | {"password": "carol-demo"})

    assert wrong.status_code == 403
    assert right.url.path == ENTER
    assert "Enter the session of alice" in right.text


def test_the_administration_page_says_why_nothing_was_stopped_and_leads_to_the_reason_of_who_enters(
    page: Page,
) -> None:
    """The page was loaded before the hub came back, which knows of no password that was given."""
    page.get_by_role("button", name="Stop Server").click()
    expect(page.get_by_role("alert").filter(has_text="Type it again")).to_be_visible()
    picture(page, "administration-refused")
    page.get_by_role("link", name="Type it now").click()
    picture(page, "password-again")
    assert_accessible(page, "password-again")
    page.get_by_label("Password", exact=True).fill("carol-demo")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Access Server").click()
    expect(page.get_by_role("heading", name="Enter the session of alice")).to_be_visible()
    picture(page, "enter")
    assert_accessible(page, "enter")
    assert jobs_of("alice")


def test_the_page_that_asks_for_the_password_leads_nowhere_else(carol: Person) -> None:
    form = {"next": "https://elsewhere.example/", "password": "carol-demo"}

    answer = carol.http.post("/hub/again", params={"_xsrf": carol.xsrf}, data=form)

    assert str(answer.url).startswith(f"{URL}/hub/")


def test_who_does_not_administer_finds_no_page_to_enter(alice: Person) -> None:
    assert alice.http.get("/hub/dsportal/enter/carol").status_code == 404
    assert enter(alice, REASON).status_code == 404


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", "x" * 501, "\u202etxet"])
def test_a_reason_that_nobody_could_read_opens_nothing(carol: Person, reason: str) -> None:
    assert enter(carol, reason).status_code == 400
    assert not is_inside(carol)


def test_a_forged_request_enters_nothing(carol: Person) -> None:
    carol.http.get(ENTER)

    assert carol.http.post(ENTER, data={"reason": REASON}).status_code == 403
    assert not is_inside(carol)


def test_who_enters_is_in_the_log_and_on_the_persons_page_also_after_the_hub_came_back(
    hub: Hub, carol: Person, alice: Person
) -> None:
    answer = go_in(carol, f"{REASON} <b>&")

    assert is_inside(carol), answer.text[-3000:]
    (line,) = [line for line in hub.log().splitlines() if "enters the session" in line]
    assert f"carol, an administrator, enters the session of alice from 127.0.0.1: {REASON} <b>&" in line
    told = r"carol, an administrator, entered your session at \d\d:\d\d [A-Z]+: The disk of alice .* &lt;b&gt;&amp;"
    assert re.search(told, alice.http.get("/hub/home").text)
    restart(hub)
    assert re.search(told, alice.http.get("/hub/home").text)
    assert is_inside(carol)


async def listen(person: Person, opened: threading.Event, within_s: float = BELIEVED_S) -> None:
    """Hold a web socket of Alice's session open, until it is closed there."""
    page = person.http.build_request("GET", "/user/alice/api/events/subscribe")
    url = str(page.url).replace("http://", "ws://")
    connection = await websocket_connect(HTTPRequest(url, headers={"Cookie": page.headers["Cookie"]}))
    opened.set()
    async with asyncio.timeout(within_s):
        while await connection.read_message() is not None:
            pass
    connection.close()


def test_access_ends_with_its_hour_also_for_what_is_open(hub: Hub, carol: Person, alice: Person) -> None:
    opened = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        socket = threads.submit(asyncio.run, listen(carol, opened))
        assert opened.wait(10)
        assert not socket.done()

        database("UPDATE shares SET expires_at = datetime('now', '-1 second')")

        eventually(lambda: not is_inside(carol), "the access is taken back", within_s=BELIEVED_S)
        socket.result(BELIEVED_S)
    assert "The access of an administrator was taken back: carol, session of alice" in hub.log()
    assert is_inside(alice)


@pytest.fixture
def leave() -> Iterator[Callable[[], None]]:
    """Carol's place among the administrators is dave's: the group needs a member. Afterwards it is hers again."""

    def administers(name: str) -> None:
        of_the_cluster(ADMINS, "changetype: modify", "replace: member", f"member: uid={name},{PEOPLE}")

    yield partial(administers, "dave")
    administers("carol")


def test_access_ends_with_the_role_also_for_what_is_open(
    hub: Hub, carol: Person, alice: Person, leave: Callable[[], None]
) -> None:
    """Who has left the group is still one of the portal's people. The next test needs her role again."""
    carol.http.get("/hub/again")
    carol.http.post("/hub/again", params={"_xsrf": carol.xsrf}, data={"password": "carol-demo"})
    go_in(carol, REASON)
    eventually(lambda: is_inside(carol), "she is inside", within_s=BELIEVED_S)
    before = hub.log().count("The access of an administrator was taken back: carol, session of alice")
    opened = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        socket = threads.submit(asyncio.run, listen(carol, opened, LEFT_S + 5))
        assert opened.wait(10)

        leave()

        eventually(lambda: not is_inside(carol), "the access is taken back", within_s=LEFT_S)
        socket.result(LEFT_S)
    assert hub.log().count("The access of an administrator was taken back: carol, session of alice") == before + 1
    assert carol.http.get("/hub/home").status_code == 200
    assert carol.http.get(ENTER).status_code == 404
    assert is_inside(alice)


def test_access_ends_with_the_session_and_a_script_is_not_asked_for_a_password(
    hub: Hub, carol: Person, alice: Person
) -> None:
    """The hub comes back once more after carol has given her password; her token stops the session all the same."""
    eventually(lambda: carol.api("GET", "/users").status_code == 200, "she administers again", within_s=LEFT_S)
    carol.http.get("/hub/again")
    carol.http.post("/hub/again", params={"_xsrf": carol.xsrf}, data={"password": "carol-demo"})
    token = carol.api("POST", "/users/carol/tokens", json={}).json()["token"]
    enter(carol, REASON)
    restart(hub)
    assert by_token(token, "/users/carol/shared").json()["items"]

    assert by_token(token, "/users/alice/server", "DELETE").status_code in (202, 204)
    eventually(lambda: not alice.server(), "the session is stopped", within_s=40)

    eventually(lambda: not by_token(token, "/users/carol/shared").json()["items"], "nothing is shared", within_s=10)
    assert "entered your session" in alice.http.get("/hub/home").text, "until the next one: nobody enters in secret"
    assert alice.api("DELETE", "/users/carol").status_code == 403
    refused = by_token(token, "/users/alice", "DELETE")
    assert refused.status_code == 409
    assert "alice has to read first that carol entered the session" in refused.json()["message"]
    assert "entered your session" in alice.http.get("/hub/home").text, "it did not go with her, to come back without it"
