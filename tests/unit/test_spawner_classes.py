"""What the hub and the profile switch ask of a spawner, whichever one a site has set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.spawner import SimpleLocalProcessSpawner

from portal.hub.app import PortalHub
from portal.session_state import Announcement
from spawners.profiles import PortalProfilesSpawner


def test_a_hub_starts_with_a_spawner_that_is_not_the_portals(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(JupyterHub, "init_handlers", lambda hub: made.append(hub))
    hub = PortalHub(spawner_class=SimpleLocalProcessSpawner)

    hub.init_handlers()

    assert made == [hub]


@pytest.mark.parametrize("expected", [True, False])
async def test_the_profile_switch_hands_a_port_on_and_answers_what_its_child_does(expected: bool) -> None:
    taken: list[int] = []

    async def announce_port(announcement: Announcement) -> bool:
        taken.append(announcement.port)
        return expected

    switch: Any = SimpleNamespace(child_spawner=SimpleNamespace(announce_port=announce_port))

    assert await PortalProfilesSpawner.announce_port(switch, Announcement(40123)) is expected
    assert taken == [40123]
