"""What the hub tells a session's server: written by one and read by the other, in whatever version each is."""

from __future__ import annotations

import json

import pytest

from portal.session_settings import SETTINGS, TLS, SessionSettings, StorageFolder, environment
from portal.site import Site

GIVEN = SessionSettings("GPU Portal", "/opt/notebooks", (StorageFolder("isilon", "/mnt/isilon"),), 600, "/srv")


def test_what_the_hub_writes_is_what_the_server_reads() -> None:
    assert SessionSettings.from_environment({SETTINGS: GIVEN.to_text()}) == GIVEN


def test_a_session_knows_of_its_site_what_it_needs(site: Site) -> None:
    settings = SessionSettings.of(site, notebooks="/opt/notebooks")

    assert settings.title == site.portal.title
    assert settings.storage == tuple(StorageFolder(place.name, place.path) for place in site.storage)
    assert settings.start_timeout_s == site.session.start_timeout_min * 60


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_settings_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|JSON object"):
        SessionSettings.from_environment({SETTINGS: text})


def test_a_server_that_no_hub_started_has_the_defaults() -> None:
    assert SessionSettings.from_environment({}) == SessionSettings()


def test_settings_of_another_version_are_read_as_far_as_they_are_known() -> None:
    before = {"title": "GPU Portal", "notebooks": "/n", "storage": [], "modules": {"path": ["/cm"]}, "later": 1}

    assert SessionSettings.from_environment({SETTINGS: json.dumps(before)}) == SessionSettings("GPU Portal", "/n")


def test_a_session_gets_jupyterhubs_variables_and_nothing_else_of_the_hubs() -> None:
    hubs = {"PATH": "/usr/bin", "LANG": "C", "JUPYTERHUB_API_TOKEN": "t", "JUPYTERHUB_SSL_KEYFILE": "/hub/key"}

    found = environment(GIVEN, "/site/jupyter", hubs)

    assert found == {"JUPYTERHUB_API_TOKEN": "t", SETTINGS: GIVEN.to_text(), "JUPYTER_PATH": "/site/jupyter"}
    assert environment(GIVEN, "/site/jupyter", hubs, tls="{}")[TLS] == "{}"
