"""What a site's own file may set, and what the portal needs whatever is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal import data
from portal.administration import enter, role
from portal.errors import SiteError
from portal.hub import needed
from portal.hub.app import PortalHub
from portal.hub.context import RESUMER
from tests.unit.test_hub_config import configured

THEIRS = """\
c = get_config()
c.JupyterHub.services = [{"name": "idle", "api_token": "theirs"}]
c.JupyterHub.load_roles = [{"name": "idle", "services": ["idle"], "scopes": ["list:users"]}]
c.JupyterHub.template_vars = {"announcement": "Maintenance on Monday", "site_title": "Theirs"}
c.JupyterHub.template_paths = ["/etc/dsportal/templates"]
c.JupyterHub.tornado_settings = {"cookie_options": {"samesite": "Strict"}, "headers": {"X-Theirs": "1"}}
c.JupyterHub.jinja_environment_options = {"trim_blocks": True}
c.JupyterHub.trusted_alt_names = ["DNS:theirs.example.org"]
"""
Set = Callable[[str], Any]


@pytest.fixture
def with_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Set:
    """The configuration with a file of the administrator's own."""
    return lambda extra: configured(tmp_path, monkeypatch, extra)


def names(entries: list[dict[str, Any]]) -> list[str]:
    """How services or roles are called."""
    return [entry["name"] for entry in entries]


def test_a_file_that_names_its_own_services_and_roles_takes_none_of_the_portals_away(with_extra: Set) -> None:
    c = with_extra(THEIRS)

    assert names(c.JupyterHub.services) == ["idle", RESUMER]
    assert names(c.JupyterHub.load_roles) == ["idle", RESUMER, role.NAME]


def test_what_it_adds_to_the_lists_stands_there_once(with_extra: Set) -> None:
    c = with_extra('c.JupyterHub.services.append({"name": "idle", "api_token": "theirs"})\n')

    assert names(c.JupyterHub.services) == [RESUMER, "idle"]
    assert names(c.JupyterHub.load_roles) == [RESUMER, role.NAME]


def test_what_it_deletes_is_put_back(with_extra: Set) -> None:
    c = with_extra("del c.JupyterHub.services\nc.JupyterHub.load_roles.clear()\ndel c.JupyterHub.template_paths\n")

    assert names(c.JupyterHub.services) == [RESUMER]
    assert names(c.JupyterHub.load_roles) == [RESUMER, role.NAME]
    assert c.JupyterHub.template_paths == [str(data.folder("templates") / "hub")]


def test_pages_keep_the_portals_words_and_looks_beside_those_of_the_site(with_extra: Set) -> None:
    c = with_extra(THEIRS)

    shown = c.JupyterHub.template_vars
    assert (shown["announcement"], shown["site_title"], shown["cluster_name"]) == (
        "Maintenance on Monday",
        "Theirs",
        "cluster",
    )
    assert c.JupyterHub.template_paths == ["/etc/dsportal/templates", str(data.folder("templates") / "hub")]
    assert c.JupyterHub.jinja_environment_options == {"auto_reload": False, "trim_blocks": True}


def test_settings_of_tornado_are_completed_also_inside_their_tables(with_extra: Set) -> None:
    settings = with_extra(THEIRS).JupyterHub.tornado_settings

    assert settings["slow_spawn_timeout"] == 2
    assert settings[enter.SETTING] is False
    assert settings["headers"] == {"X-Theirs": "1"}
    assert settings["cookie_options"] == {"samesite": "Strict"}


def test_the_certificate_of_the_hub_is_for_its_own_name_beside_those_of_the_site(with_extra: Set) -> None:
    first, ours = with_extra(THEIRS).JupyterHub.trusted_alt_names

    assert first == "DNS:theirs.example.org"
    assert ours.startswith(("DNS:", "IP:"))


def test_a_service_of_the_site_with_the_portals_name_is_refused_in_words(with_extra: Set) -> None:
    with pytest.raises(SiteError, match=r"the service 'dsportal' is the portal's own\. Take out"):
        with_extra('c.JupyterHub.services = [{"name": "dsportal", "api_token": "theirs"}]\n')


def test_a_role_of_the_site_with_the_portals_name_and_fewer_rights_is_refused_in_words(with_extra: Set) -> None:
    with pytest.raises(SiteError, match="the role 'dsportal' is not as the portal needs it"):
        with_extra('c.JupyterHub.load_roles = [{"name": "dsportal", "scopes": ["list:users"]}]\n')


def test_a_site_may_give_its_administrators_a_role_of_its_own_making(with_extra: Set) -> None:
    c = with_extra(f'c.JupyterHub.load_roles = [{{"name": "{role.NAME}", "scopes": ["admin-ui"]}}]\n')

    assert [one["scopes"] for one in c.JupyterHub.load_roles if one["name"] == role.NAME] == [["admin-ui"]]


def hub_with(**settings: Any) -> PortalHub:
    """A hub as the command line, or a section ``c.PortalHub``, leaves it."""
    return PortalHub(launcher="/opt/dsportal/bin/portal-launch", **settings)


SERVICE = {"name": RESUMER, "api_token": "secret"}


@pytest.mark.parametrize(
    ("services", "roles", "words"),
    [
        ([], [needed.resumer_role(), role.role(())], "the service 'dsportal' is missing"),
        ([SERVICE], [role.role(())], "the role 'dsportal' is not as the portal needs it"),
        ([SERVICE], [needed.resumer_role()], "the role 'portal-admin' is missing"),
    ],
)
def test_a_hub_without_the_portals_service_or_roles_does_not_start(
    services: list[dict[str, Any]], roles: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(SiteError, match=words):
        hub_with(services=services, load_roles=roles).init_secrets()


def test_the_local_mode_needs_neither(tmp_path: Path) -> None:
    PortalHub(cookie_secret_file=str(tmp_path / "secret")).init_secrets()
