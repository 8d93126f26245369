"""A name that is given to another account brings nothing of who had it before; hub and Slurm are real.

The accounts of the cluster stay: it is what the hub has kept of Alice's number that becomes another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from portal.login.holders import FILE
from tests.hub.conftest import Hub, Person
from tests.inside import eventually, has_no_job, sh


def give_away(hub: Hub, name: str) -> None:
    """The hub was off when the name's account got the number that it has now."""
    hub.end()
    numbers = hub.folder / "state" / FILE
    assert name in numbers.read_text(), "a login has noted it"
    with numbers.open("a") as file:
        file.write(json.dumps({name: "1"}) + "\n")
    hub.start()


@pytest.fixture
def newcomer(alice: Person) -> Iterator[Person]:
    """Who has the name, in another browser."""
    made = Person(alice.name)
    yield made
    made.http.close()
    assert alice.login().status_code == 200  # the browser of before is hers again


def ended(person: Person) -> int:
    """How many ended sessions the hub lists to somebody."""
    return len(person.api("GET", "/dsportal/sessions").json()["sessions"])


def test_who_has_a_name_now_finds_no_list_and_no_login_of_who_had_it(hub: Hub, alice: Person, newcomer: Person) -> None:
    alice.start()
    alice.stop()
    token = alice.api("POST", "/users/alice/tokens", json={}).json()["token"]
    assert ended(alice)

    give_away(hub, "alice")
    assert alice.spawn().status_code == 403
    assert has_no_job("alice")

    assert newcomer.login().status_code == 200
    assert ended(newcomer) == 0
    assert alice.api("GET", "/user").status_code == 403
    asked: dict[str, Any] = {"headers": {"Authorization": f"token {token}"}, "trust_env": False}
    assert httpx.get(f"{hub.url}/hub/api/user", **asked).status_code == 403

    newcomer.start()
    newcomer.stop()
    assert ended(newcomer) == 1


def test_nobody_gets_the_session_of_who_had_the_name(hub: Hub, alice: Person, newcomer: Person) -> None:
    alice.start()
    give_away(hub, "alice")

    answer = newcomer.login()
    assert answer.status_code == 403
    assert "a session of before still runs" in answer.text

    sh("scancel", "--user=alice")
    eventually(partial(has_no_job, "alice"), "an administrator has ended it")
    eventually(lambda: newcomer.login().status_code == 200, "the name is free", within_s=60)
    assert ended(newcomer) == 0
