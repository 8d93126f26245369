"""The recipe for PAM: a real hub that is not root, a real PAM with pam_ldap and a second factor."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.directories.logins import FOLDER, block, prepared, secret
from tests.hub.conftest import Hub, Person
from tests.inside import eventually

PORT = 18300
SERVICE, GROUPS = Path("/etc/pam.d/dsportal"), Path("/etc/group")
# RFC 4226, appendix D: this key has these codes, one after the other.
KEY, CODES = b"12345678901234567890".hex(), ("755224", "287082", "359152", "969429", "338314", "254676")


def members(*names: str) -> None:
    """Who is in the group of the recipe, on this host."""
    kept = [line for line in GROUPS.read_text().splitlines() if not line.startswith("jupyter:")]
    GROUPS.write_text("\n".join([*kept, f"jupyter:x:7070:{','.join(names)}", ""]))


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """The recipe, without and with a code for the second module of PAM."""
    before = GROUPS.read_text()
    text = block("With PAM:", "python").replace("auth_refresh_age = 60", "auth_refresh_age = 1")
    ours = prepared(PORT, f"{text}c.SiteLogin.request_otp = True\n")
    codes = secret("users.oath", "\n".join(f"HOTP {name} - {KEY}" for name in ("alice", "bob", "Alice")))
    SERVICE.write_text(block("With PAM:", "text").replace("/var/lib/dsportal/users.oath", str(codes)))
    members("alice")
    ours.start()
    yield ours
    ours.stop()
    shutil.rmtree(FOLDER, ignore_errors=True)
    SERVICE.unlink()
    GROUPS.write_text(before)


Login = Callable[[str, str, str], tuple[Person, httpx.Response]]


@pytest.fixture
def log_in(hub: Hub) -> Iterator[Login]:
    """Sends the form with a password and a code."""
    made: list[Person] = []

    def send(name: str, password: str, code: str) -> tuple[Person, httpx.Response]:
        person = Person(name, hub.url)
        made.append(person)
        person.http.get("/hub/login")
        form = {"username": name, "password": password, "otp": code}
        return person, person.http.post("/hub/login", params={"_xsrf": person.xsrf}, data=form)

    members("alice")
    yield send
    for person in made:
        person.http.close()


def may_go_on(person: Person) -> bool:
    return person.http.get("/hub/api/user").status_code == 200


def test_a_password_and_a_code_let_a_person_in_and_one_of_them_does_not(log_in: Login) -> None:
    assert not may_go_on(log_in("alice", "alice-demo", "000000")[0])
    assert not may_go_on(log_in("alice", "wrong", CODES[0])[0])

    person, _ = log_in("alice", "alice-demo", CODES[1])

    assert may_go_on(person)
    assert person.api("GET", "/user").json()["name"] == "alice"


def test_who_is_in_no_allowed_group_is_refused(log_in: Login) -> None:
    person, page = log_in("bob", "bob-demo", CODES[0])

    assert page.status_code in (200, 403)
    assert not may_go_on(person)


def test_another_spelling_is_nobody(log_in: Login) -> None:
    """slapd takes Alice for alice, and this host does not."""
    person, page = log_in("Alice", "alice-demo", CODES[0])

    assert page.status_code == 403
    assert not may_go_on(person)


def test_who_leaves_the_group_of_this_host_is_out(log_in: Login) -> None:
    person, _ = log_in("alice", "alice-demo", CODES[3])
    assert may_go_on(person)

    members("bob")

    eventually(lambda: not may_go_on(person), "alice is out")
