"""What the settings keep for one group, on real LDAP and Slurm: bob is in it, alice is not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hub.conftest import Hub, Person
from tests.hub.test_more_time import limit_of, session
from tests.inside import VENV_BIN, eventually, has_no_job, sh

PORT = 19000
FOLDER = Path("/cluster/test-for-one-group")
KERNELS = Path("/cluster/test-kernels-of-a-group")
GROUP = "hipri"
KERNEL = f"""
[[kernel]]
name = "vision"
title = "Vision group"
python = "{VENV_BIN}/python"
groups = ["{GROUP}"]
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A hub with a kernel for the group, and more time for its sessions alone."""
    ours = Hub(FOLDER, PORT)
    ours.prepare()
    text = ours.site_file.read_text().replace("[extend]\n", f'[extend]\ngroups = ["{GROUP}"]\n')
    assert 'folder = "/cluster/jupyter"' in text
    ours.site_file.write_text(text.replace('folder = "/cluster/jupyter"', f'folder = "{KERNELS}"') + KERNEL)
    KERNELS.mkdir(mode=0o755)
    said = sh(str(VENV_BIN / "portal"), "kernels", "sync", "--site", str(ours.site_file), check=False)
    assert "vision: written" in said, said
    ours.start()
    yield ours
    ours.stop()
    shutil.rmtree(KERNELS)


@pytest.fixture(scope="module")
def sessions(hub: Hub) -> Iterator[dict[str, tuple[Person, str]]]:
    """Alice and Bob, each in a session of one hour, and the ids of their jobs."""
    both = [Person(name, hub.url) for name in ("alice", "bob")]
    started: dict[str, tuple[Person, str]] = {}
    for person in both:
        assert person.login().status_code == 200
        started[person.name] = (person, person.start(gpus="0", hours="1", partition="sxm2"))
    yield started
    for person in both:
        person.stop()
        person.http.close()
        sh("scancel", f"--user={person.name}")
        eventually(partial(has_no_job, person.name), "no job is left")


def kernel_request(person: Person, method: str, path: str, body: object = None) -> tuple[int, str]:
    """An address below ``api/`` of a session: status and text."""
    cookies = [cookie for cookie in person.http.cookies.jar if cookie.name == "_xsrf"]
    xsrf = next((cookie.value or "" for cookie in cookies if f"/user/{person.name}" in cookie.path), "")
    address = f"/user/{person.name}/api/{path}"
    answer = person.http.request(method, address, json=body, headers={"X-XSRFToken": xsrf})
    return answer.status_code, answer.text


def test_a_member_sees_the_kernel_of_the_group_and_starts_it(sessions: dict[str, tuple[Person, str]]) -> None:
    bob, _ = sessions["bob"]
    assert [file.parent.name for file in KERNELS.glob("for/*/kernels/*/kernel.json")] == ["vision"]
    assert '"vision"' in kernel_request(bob, "GET", "kernelspecs")[1]
    status, text = kernel_request(bob, "POST", "kernels", {"name": "vision"})
    assert (status, '"name": "vision"' in text) == (201, True), text


def test_somebody_else_sees_no_such_kernel_and_starts_none(sessions: dict[str, tuple[Person, str]]) -> None:
    alice, _ = sessions["alice"]
    status, text = kernel_request(alice, "GET", "kernelspecs")
    assert (status, '"python3"' in text, '"vision"' in text) == (200, True, False)
    assert kernel_request(alice, "POST", "kernels", {"name": "vision"})[0] >= 400
    assert kernel_request(alice, "GET", "kernels")[1].strip() == "[]"


def test_more_time_is_for_sessions_of_the_group_alone(sessions: dict[str, tuple[Person, str]]) -> None:
    (alice, her_job), (bob, his_job) = sessions["alice"], sessions["bob"]
    refused = alice.api("POST", "/dsportal/extend/alice", {"minutes": 60})
    assert (refused.status_code, limit_of(her_job)) == (403, "01:00:00"), refused.text
    assert "gives this session no more time" in refused.json()["message"]
    assert session(alice, "POST", "extend", {"minutes": 60})[0] == 403
    assert not session(alice, "GET", "time")[1]["may_extend"]
    assert (session(bob, "GET", "time")[1]["may_extend"], limit_of(his_job)) == (True, "01:00:00")
    given = bob.api("POST", "/dsportal/extend/bob", {"minutes": 60})
    assert (given.status_code, limit_of(his_job)) == (200, "02:00:00"), given.text
