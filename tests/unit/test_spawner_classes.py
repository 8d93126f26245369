"""What the hub and the profile switch ask of a spawner, whichever one a site has set."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets.config import Config

from portal.errors import SiteError
from portal.hub.app import PortalHub
from portal.session_state import Announcement
from spawners.profiles import PortalProfilesSpawner
from spawners.slurm import SlurmSessionSpawner


def test_a_hub_starts_with_a_spawner_that_is_not_the_portals(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(JupyterHub, "init_handlers", lambda hub: made.append(hub))
    hub = PortalHub(spawner_class=SimpleLocalProcessSpawner)

    hub.init_handlers()

    assert made == [hub]


def test_a_hub_does_not_start_with_an_environment_of_which_sessions_would_get_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JupyterHub, "init_handlers", lambda hub: pytest.fail("it goes on"))
    c = Config()
    c.Spawner.environment = {"JUPYTERHUB_OWN": "1", "HTTPS_PROXY": "http://proxy:3128"}

    with pytest.raises(SiteError, match=r"c\.Spawner\.environment: 1 fault\n  'HTTPS_PROXY' would not reach"):
        PortalHub(spawner_class=SlurmSessionSpawner, config=c).init_handlers()


async def test_a_hub_that_refuses_its_settings_ends_with_their_faults(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_hub: JupyterHub, _argv: object = None) -> None:
        raise SiteError("c.Spawner.environment", ["'HTTPS_PROXY' would not reach a session."])

    monkeypatch.setattr(JupyterHub, "initialize", refuse)
    hub = PortalHub(log=logging.getLogger("hub"))

    with pytest.raises(SystemExit) as ended:
        await hub.initialize([])

    assert ended.value.code == 1
    (told,) = caplog.records
    assert "'HTTPS_PROXY' would not reach a session." in told.getMessage()
    assert told.exc_info is None


@pytest.mark.parametrize("expected", [True, False])
async def test_the_profile_switch_hands_a_port_on_and_answers_what_its_child_does(expected: bool) -> None:
    taken: list[int] = []

    async def announce_port(announcement: Announcement) -> bool:
        taken.append(announcement.port)
        return expected

    switch: Any = SimpleNamespace(child_spawner=SimpleNamespace(announce_port=announce_port))

    assert await PortalProfilesSpawner.announce_port(switch, Announcement(40123)) is expected
    assert taken == [40123]
