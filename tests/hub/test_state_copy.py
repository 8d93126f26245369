"""A second portal on a copy of the state folder, as a staging host is made: both portals' sessions live on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.conftest import Hub, Person
from tests.inside import VENV_BIN, eventually, jobs_of, sh

PORT = 18800


def command(hub: Hub, *words: str) -> str:
    """What a command of ``portal`` says to the hub's account."""
    return sh(str(VENV_BIN / "portal"), *words, "--site", str(hub.site_file), user="portal", check=False)


@pytest.fixture
def staging(hub: Hub) -> Iterator[Hub]:
    """A portal with other ports on a copy of the first one's state."""
    ours = Hub(Path("/cluster/test-staging"), PORT)
    ours.prepare()
    yield ours
    if ours._process:
        ours.stop()


def copied(hub: Hub, staging: Hub) -> None:
    """Copy the state as it is now."""
    shutil.copytree(hub.folder / "state", staging.folder / "state")
    sh("chown", "-R", "portal:", str(staging.folder / "state"))


def test_a_portal_on_a_copy_ends_no_session_of_the_first_and_starts_its_own(
    hub: Hub, staging: Hub, people: dict[str, Person]
) -> None:
    alice = people["alice"]
    job_id = alice.start(gpus="0")
    copied(hub, staging)

    for verb in ("up", "down"):
        assert f"is that of a portal at {hub_place(hub)}" in command(staging, verb)
    assert "still runs: end it first" in command(staging, "state", "adopt")
    assert "it has forgotten 1 sessions" in command(staging, "state", "separate")
    staging.start()

    there = {name: Person(name, staging.url) for name in ("alice", "bob")}
    for person in there.values():
        assert person.login().status_code == 200
    assert not there["alice"].server(), "it knows nothing of her session"
    there["alice"].stop()
    own = there["bob"].start(gpus="0")
    staging.end()
    hub.kill()
    hub.start()

    eventually(alice.is_ready, "the first portal's session goes on", within_s=30)
    assert jobs_of("alice") == [job_id]
    assert jobs_of("bob") == [own], "and the first leaves the other's alone"
    staging.start()
    eventually(there["bob"].is_ready, "the session of the copy goes on, too", within_s=30)
    there["bob"].stop()
    for person in there.values():
        person.http.close()


def hub_place(hub: Hub) -> str:
    """Host and path of a portal, as its state folder has it."""
    return (hub.folder / "state" / "hub_place").read_text().strip()
