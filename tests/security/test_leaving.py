"""Who leaves is out, who logs out is out, and a directory that is silent ends nobody: hub, slapd and Slurm are real."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.cookiejar import Cookie
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from deploy.demo.people import GROUP as HPC_USERS
from deploy.demo.people import GROUP_ID, person, uids
from portal.launcher import ENVIRONMENT_FILE, SESSIONS
from portal.session_settings import HUB_ANSWER
from tests.contract.test_cluster import operator
from tests.directory.slapd import GROUPS, LDAP, PASSWORDS, PEOPLE, SERVICES, Authority, Slapd, service
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, has_no_job, home, jobs_of, sh

FOLDER = Path("/cluster/test-leaving")
PORT = 18400
GROUP = f"cn=jupyter,{GROUPS}"
BIND = """bind_dn = "{dn}"
bind_password_file = "{folder}/bind_password"
"""
SOON = f"""
import portal.login.people
portal.login.people.FRESH_S = 0.5
c.PortalHub.people_every_s = 1
c.Spawner.environment = {{"{HUB_ANSWER}": "2"}}
"""
WITHIN_S = 60.0  # the promise; here the looks come sooner


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A directory that these tests change and stop."""
    folder = tmp_path_factory.mktemp("leaving")
    authority = Authority(folder / "tls", "Test CA")
    made = Slapd(folder / "slapd", authority.certificate("good", "IP:127.0.0.1")).start()
    shutil.copy(authority.file, folder / "ca.crt")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def hub(server: Slapd) -> Iterator[Hub]:
    """A hub that asks it by an account of its own."""
    ours = Hub(FOLDER, PORT)
    ours.prepare()
    shutil.copy(server.folder.parent / "ca.crt", FOLDER / "ca.crt")
    (FOLDER / "ca.crt").chmod(0o644)
    secret = FOLDER / "bind_password"
    secret.touch(mode=0o600)
    secret.write_text(SERVICES["portal"] + "\n")
    shutil.chown(secret, "portal", "portal")
    settings = LDAP.format(url=server.url, folder=FOLDER, people=PEOPLE, groups=GROUPS)
    settings += BIND.format(folder=FOLDER, dn=service("portal"))
    ours.site_file.write_text(ours.site_file.read_text().partition("[ldap]")[0] + settings)
    (FOLDER / "extra" / "soon.py").write_text(SOON)
    ours.start()
    yield ours
    ours.stop()
    for name in ("alice", "bob"):
        sh("scancel", f"--user={name}")
        eventually(partial(has_no_job, name), "no job is left")


class Copy:
    """Cookies that somebody has copied; whatever an answer says, they stay as they are."""

    def __init__(self, cookies: list[Cookie]) -> None:
        self.cookies = cookies

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer to a request with them."""
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=30, trust_env=False) as client:
            for cookie in self.cookies:
                client.cookies.jar.set_cookie(copy.copy(cookie))
            return client.request(method, path, **more)


class Guest(Person):
    """Somebody with a browser and a token."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"http://127.0.0.1:{PORT}")
        self.token = ""

    def enter(self, password: str) -> None:
        """Log in and make a token."""
        assert self.login(password).status_code == 200
        answer = self.api("POST", f"/users/{self.name}/tokens", json={})
        assert answer.status_code == 201, answer.text
        self.token = answer.json()["token"]

    def copy(self) -> Copy:
        """The cookies of now."""
        return Copy([copy.copy(cookie) for cookie in self.http.cookies.jar])

    def by_token(self, method: str, path: str) -> int:
        """What the hub answers to the token."""
        headers = {"Authorization": f"token {self.token}"}
        return httpx.request(
            method, f"{self.http.base_url}/hub/api{path}", headers=headers, trust_env=False
        ).status_code


@pytest.fixture(scope="module")
def guests(hub: Hub) -> Iterator[dict[str, Guest]]:
    """Alice and Bob, each with a session that runs."""
    both = {name: Guest(name) for name in ("alice", "bob")}
    for name, guest in both.items():
        guest.enter(PASSWORDS[name])
        assert guest.spawn().status_code == 200
    for name, guest in both.items():
        eventually(guest.is_ready, f"the session of {name} is ready", within_s=90)
    yield both
    for guest in both.values():
        guest.http.close()


def is_login(answer: httpx.Response) -> bool:
    """Whether an answer leads to the login."""
    return answer.status_code == 302 and "/hub/login" in answer.headers["Location"]


def is_out(copied: Copy, name: str) -> bool:
    """Whether nothing answers to these cookies, neither the hub nor the session."""
    page = copied.ask("GET", "/hub/home")
    session = copied.ask("GET", f"/user/{name}/api/contents")
    return is_login(page) and session.status_code != 200


def is_in(guest: Guest) -> bool:
    """Whether page, token and session answer."""
    page = guest.http.get("/hub/home", follow_redirects=False).status_code
    session = guest.http.get(f"/user/{guest.name}/api/contents").status_code
    return (page, session, guest.by_token("GET", "/user")) == (200, 200, 200)


def test_a_directory_that_is_silent_ends_nobody(hub: Hub, server: Slapd, guests: dict[str, Guest]) -> None:
    jobs = jobs_of("alice") + jobs_of("bob")
    server.stop()
    try:
        eventually(lambda: "Nobody says who may use the portal" in hub.log(), "the hub has noticed")
        for _ in range(10):  # it asks twice in a second
            assert all(map(is_in, guests.values()))
        assert jobs_of("alice") + jobs_of("bob") == jobs
        assert hub.log().count("Nobody says who may use the portal") == 1
    finally:
        server.start()
    eventually(lambda: "It is known again who may use the portal" in hub.log(), "the hub has heard of it")


async def closed(copied: Copy, name: str, opened: threading.Event) -> bool:
    """Whether a web socket of a session, opened with copied cookies, is closed within the promised time."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in copied.cookies)
    url = f"ws://127.0.0.1:{PORT}/user/{name}/api/events/subscribe"
    connection = await websocket_connect(HTTPRequest(url, headers={"Cookie": cookies}))
    opened.set()
    async with asyncio.timeout(WITHIN_S):
        while await connection.read_message() is not None:
            pass
    connection.close()
    return True


class Download:
    """What copied cookies have begun to read; a little more is read each time that somebody looks at it."""

    def __init__(self, copied: Copy, path: str) -> None:
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in copied.cookies)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=30, trust_env=False)
        self.answer = self.client.send(self.client.build_request("GET", path, headers={"Cookie": cookies}), stream=True)
        assert self.answer.status_code == 200, path
        self.parts = self.answer.iter_raw(2**20)
        self.read = len(next(self.parts))

    def is_broken_off(self) -> bool:
        """Whether it has ended before its time."""
        try:
            part = next(self.parts, None)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            return True
        assert part is not None, f"all of it has come: {self.read} bytes"
        self.read += len(part)
        return False

    def close(self) -> None:
        """Read no more."""
        self.answer.close()
        self.client.close()


@pytest.fixture
def large() -> Iterator[str]:
    """A folder in Bob's home with more in it than is read slowly in a minute, or fits on the way to him."""
    folder = home("bob") / "slow"
    folder.mkdir(exist_ok=True)
    with (folder / "large.bin").open("wb") as file:
        for _ in range(400):
            file.write(os.urandom(2**20))
    sh("chown", "-R", "bob:", str(folder))
    yield folder.name
    shutil.rmtree(folder)


def test_a_link_of_another_site_logs_nobody_out(guests: dict[str, Guest]) -> None:
    bob = guests["bob"]
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Origin": "https://elsewhere.example"}
    link = foreign | {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    assert bob.http.get("/hub/logout", headers=link).status_code == 200  # it asks
    assert bob.http.get("/hub/logout", headers=foreign).status_code == 403
    assert bob.http.post("/hub/logout", headers=foreign, follow_redirects=False).status_code == 403
    without_cookies = Copy([]).ask("POST", "/hub/logout", headers=foreign)  # as browsers send it: SameSite
    assert without_cookies.status_code == 403
    assert "Clear-Site-Data" not in without_cookies.headers
    for asked in (link, foreign):
        assert bob.http.get("/user/bob/logout", headers=asked).status_code == 403

    assert bob.http.get("/hub/home", follow_redirects=False).status_code == 200
    bob.http.get("/user/bob/lab")


def test_a_logout_ends_what_was_copied_and_leaves_the_session_alone(guests: dict[str, Guest]) -> None:
    bob = guests["bob"]
    assert is_in(bob)
    job = jobs_of("bob")
    copied = bob.copy()
    xsrf = {"X-XSRFToken": bob.xsrf}
    assert copied.ask("GET", "/hub/home").status_code == 200
    assert copied.ask("GET", "/user/bob/api/contents").status_code == 200
    assert copied.ask("POST", "/hub/api/users/bob/tokens", json={}, headers=xsrf).status_code == 201

    opened = threading.Event()
    threads = ThreadPoolExecutor(1)
    socket = threads.submit(asyncio.run, closed(copied, "bob", opened))
    assert opened.wait(20)
    assert bob.http.get("/user/bob/api/contents").status_code == 200
    assert not socket.done()

    left = bob.http.post("/hub/logout", params={"_xsrf": bob.xsrf}, follow_redirects=False)

    assert is_login(left)
    assert left.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert is_login(copied.ask("GET", "/hub/home"))
    assert copied.ask("POST", "/hub/api/users/bob/tokens", json={}, headers=xsrf).status_code == 403
    eventually(partial(is_out, copied, "bob"), "the session refuses the copy", within_s=WITHIN_S)
    assert socket.result(WITHIN_S), "the open web socket is closed"
    threads.shutdown()
    assert jobs_of("bob") == job
    assert bob.by_token("GET", "/user") == 200  # a token that he made himself is no login


def test_a_logout_breaks_off_what_is_still_read_with_a_copy(guests: dict[str, Guest], large: str) -> None:
    bob = guests["bob"]
    assert bob.login(PASSWORDS["bob"]).status_code == 200
    bob.http.get("/user/bob/lab")
    copied = bob.copy()
    paths = (f"/user/bob/files/{large}/large.bin", f"/user/bob/dsportal/api/archive?path={large}")
    downloads = [Download(copied, path) for path in paths]
    assert not any(one.is_broken_off() for one in downloads)
    job = jobs_of("bob")

    assert is_login(bob.http.post("/hub/logout", params={"_xsrf": bob.xsrf}, follow_redirects=False))

    for one in downloads:
        eventually(one.is_broken_off, "the download ends", within_s=WITHIN_S)
        one.close()
    assert jobs_of("bob") == job


def test_a_sessions_own_token_which_lies_in_the_home_opens_nothing_for_whoever_has_read_it(
    guests: dict[str, Guest],
) -> None:
    (file,) = (home("bob") / SESSIONS).glob(f"*/{ENVIRONMENT_FILE}")
    headers = {"Authorization": f"token {json.loads(file.read_text())['JUPYTERHUB_API_TOKEN']}"}

    def status(method: str, path: str) -> int:
        given: dict[str, Any] = {"headers": headers, "trust_env": False, "timeout": 30}
        return httpx.request(method, f"http://127.0.0.1:{PORT}{path}", json={}, **given).status_code

    assert status("GET", "/user/bob/api/contents") == 403
    assert status("POST", "/user/bob/api/terminals") == 403
    assert status("POST", "/hub/api/users/bob/tokens") == 403
    assert status("POST", "/hub/api/users/bob/activity") == 400  # it is his session's: only that body is none
    assert jobs_of("bob")


def test_a_new_password_ends_the_logins_and_tokens_of_before_but_no_session(
    hub: Hub, server: Slapd, guests: dict[str, Guest]
) -> None:
    bob = guests["bob"]
    job = jobs_of("bob")
    bob.enter(PASSWORDS["bob"])
    eventually(bob.is_ready, "he is back in his session")
    copied = bob.copy()

    server.change(f"uid=bob,{PEOPLE}", "changetype: modify", "replace: userPassword", "userPassword: new-pw")

    eventually(lambda: bob.by_token("GET", "/user") == 403, "who knew the old password is out", within_s=WITHIN_S)
    assert is_login(copied.ask("GET", "/hub/home"))
    assert jobs_of("bob") == job
    assert bob.login(PASSWORDS["bob"]).status_code == 403
    bob.enter("new-pw")


def test_who_leaves_the_group_is_out_the_job_ends_and_nobody_else_is_touched(
    hub: Hub, server: Slapd, guests: dict[str, Guest]
) -> None:
    alice, bob = guests["alice"], guests["bob"]
    assert is_in(alice)
    assert jobs_of("alice")
    copied = alice.copy()
    server.change(GROUP, "changetype: modify", "delete: member", f"member: uid=alice,{PEOPLE}")

    eventually(lambda: alice.by_token("GET", "/user") == 403, "the token is refused", within_s=WITHIN_S)
    assert alice.by_token("POST", "/users/alice/server") == 403
    eventually(partial(is_out, copied, "alice"), "pages and session are refused", within_s=WITHIN_S)
    eventually(partial(has_no_job, "alice"), "the job has ended", within_s=WITHIN_S)
    assert alice.login(PASSWORDS["alice"]).status_code == 403
    assert bob.by_token("GET", "/user") == 200
    assert jobs_of("bob")

    server.change(GROUP, "changetype: modify", "add: member", f"member: uid=alice,{PEOPLE}")
    assert alice.login(PASSWORDS["alice"]).status_code == 200
    assert alice.by_token("GET", "/user") == 403  # the token of before is gone


@pytest.mark.parametrize("restarts", [False, True], ids=["hub-lives", "hub-restarts"])
def test_a_session_that_waits_ends_too_also_when_its_person_left_while_the_hub_was_away(
    hub: Hub, server: Slapd, restarts: bool
) -> None:
    alice = Guest("alice")
    alice.enter(PASSWORDS["alice"])
    eventually(lambda: not alice.server(), "nothing is left of the last session")
    sh("scontrol", "update", "PartitionName=sxm2", "State=DOWN")
    try:
        assert alice.spawn().status_code == 200
        eventually(lambda: jobs_of("alice"), "the job waits")
        if restarts:
            hub.kill()
        server.change(GROUP, "changetype: modify", "delete: member", f"member: uid=alice,{PEOPLE}")
        if restarts:
            hub.start()
        eventually(partial(has_no_job, "alice"), "the job is gone", within_s=WITHIN_S)
        eventually(lambda: alice.by_token("GET", "/user") == 403, "the token is refused", within_s=WITHIN_S)
        server.change(GROUP, "changetype: modify", "add: member", f"member: uid=alice,{PEOPLE}")
    finally:
        sh("scontrol", "update", "PartitionName=sxm2", "State=UP")
        alice.http.close()


def of_the_cluster(dn: str, *lines: str) -> None:
    """Change both of the cluster's own directories, out of which the UNIX accounts come."""
    for name in ("slapd1", "slapd2"):
        admin = ["-D", "cn=admin,dc=cluster,dc=example", "-y", "/cluster/ldap/root.pw"]
        command = ["ldapmodify", "-x", "-H", f"ldapi://%2Frun%2Fslapd%2F{name}/", *admin]
        subprocess.run(command, input="\n".join([f"dn: {dn}", *lines, ""]), text=True, check=True, capture_output=True)


@pytest.fixture
def mallory(server: Slapd) -> Iterator[str]:
    """Somebody who may use this portal for a while; her account on the cluster is there again afterwards."""
    with contextlib.suppress(subprocess.CalledProcessError):  # a test before has let her in
        server.change(GROUP, "changetype: modify", "add: member", f"member: uid=mallory,{PEOPLE}")
    uid = uids()["mallory"]
    yield str(uid)
    with contextlib.suppress(subprocess.CalledProcessError):
        of_the_cluster(f"uid=mallory,{PEOPLE}", "changetype: delete")
    of_the_cluster(f"uid=mallory,{PEOPLE}", "changetype: add", *person("mallory", uid).splitlines()[1:])
    eventually(lambda: "mallory" in sh("getent", "passwd", "mallory", check=False), "she is back")
    sh("scancel", "--user=mallory")


NO_GROUP = ("delete: memberUid", "memberUid: mallory")
OTHER_GROUP = ("changetype: modify", "replace: gidNumber", "gidNumber: 65534")
OWN_GROUP = ("changetype: modify", "replace: gidNumber", f"gidNumber: {GROUP_ID}")


@contextlib.contextmanager
def without_group() -> Iterator[None]:
    """Meanwhile mallory is not in the group of the line in sudoers."""
    group = f"cn={HPC_USERS},ou=groups,dc=cluster,dc=example"
    of_the_cluster(f"uid=mallory,{PEOPLE}", *OTHER_GROUP)
    of_the_cluster(group, "changetype: modify", *NO_GROUP)
    yield
    of_the_cluster(f"uid=mallory,{PEOPLE}", *OWN_GROUP)
    of_the_cluster(group, "changetype: modify", *(word.replace("delete", "add") for word in NO_GROUP))
    eventually(lambda: HPC_USERS in sh("id", "mallory"), "she is in it again")


@contextlib.contextmanager
def without_account() -> Iterator[None]:
    """Meanwhile mallory has no account on the cluster; the fixture gives it back."""
    of_the_cluster(f"uid=mallory,{PEOPLE}", "changetype: delete")
    eventually(lambda: not sh("getent", "passwd", "mallory", check=False), "the account is gone")
    yield


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        (without_group, "sudo does not let it act as mallory"),
        (without_account, "it knows nobody called mallory"),
    ],
)
def test_who_may_log_in_but_has_no_place_on_the_hubs_host_is_told_so_at_once(
    hub: Hub, mallory: str, lack: Callable[[], contextlib.AbstractContextManager[None]], words: str
) -> None:
    guest = Guest("mallory")
    guest.enter(PASSWORDS["mallory"])
    began = time.monotonic()
    with lack():
        answer = guest.spawn()
        eventually(lambda: words in guest.http.get("/hub/spawn-pending/mallory").text, "she is told why", within_s=20)
        page = answer.text + guest.http.get("/hub/home").text
    guest.http.close()

    assert time.monotonic() - began < 25
    assert "Unhandled error" not in page
    assert "mallory" not in sh("squeue", "--noheader", "--format=%u")


LOCK = "pwdAccountLockedTime: 000001010000Z"


def test_who_has_a_login_alone_and_was_away_for_a_while_has_to_log_in_again(
    hub: Hub, server: Slapd, mallory: str
) -> None:
    guest = Guest("mallory")
    guest.http.follow_redirects = False  # no page is opened with this login
    assert guest.login(PASSWORDS["mallory"]).status_code == 302
    copied = guest.copy()
    guest.http.close()
    left = hub.log().count("mallory may not use the portal any more")

    server.change(f"uid=mallory,{PEOPLE}", "changetype: modify", "add: pwdAccountLockedTime", LOCK)
    said = "her login was ended"
    eventually(lambda: hub.log().count("mallory may not use the portal any more") > left, said, within_s=WITHIN_S)
    server.change(f"uid=mallory,{PEOPLE}", "changetype: modify", "delete: pwdAccountLockedTime")

    back = Guest("mallory")
    assert back.login(PASSWORDS["mallory"]).status_code == 200
    assert is_login(copied.ask("GET", "/hub/home"))
    back.http.close()


def test_the_job_of_somebody_whose_account_is_gone_from_the_cluster_too_ends(
    hub: Hub, server: Slapd, mallory: str
) -> None:
    guest = Guest("mallory")
    guest.enter(PASSWORDS["mallory"])
    job = guest.start()
    guest.http.close()

    with operator("portal"):
        of_the_cluster(f"uid=mallory,{PEOPLE}", "changetype: delete")
        eventually(lambda: not sh("getent", "passwd", "mallory", check=False), "the account is gone")
        server.change(f"uid=mallory,{PEOPLE}", "changetype: delete")

        eventually(lambda: guest.by_token("GET", "/user") == 403, "the token is refused", within_s=WITHIN_S)
        eventually(lambda: job not in sh("squeue", "--noheader", "--format=%i").split(), "the job has ended")


def test_an_administrator_who_is_none_any_more_loses_the_rights_at_once(
    server: Slapd, guests: dict[str, Guest]
) -> None:
    bob = guests["bob"]
    assert bob.by_token("GET", "/users") == 200
    admins = f"cn=portal-admins,{GROUPS}"
    server.change(admins, "changetype: modify", "replace: member", f"member: uid=mallory,{PEOPLE}")

    eventually(lambda: bob.by_token("GET", "/users") == 403, "he is none any more", within_s=WITHIN_S)
    assert bob.by_token("GET", "/users/alice") in (403, 404)


def test_a_token_has_an_end_and_not_a_later_one_than_the_site_allows(guests: dict[str, Guest]) -> None:
    bob = guests["bob"]
    assert bob.login("new-pw").status_code == 200  # the hub came back: it wants to have heard the password
    month = 30 * 86400

    assert bob.api("POST", "/users/bob/tokens", json={}).json()["expires_at"] is not None
    assert bob.api("POST", "/users/bob/tokens", json={"expires_in": month}).status_code == 201
    assert bob.api("POST", "/users/bob/tokens", json={"expires_in": month + 1}).status_code == 400
