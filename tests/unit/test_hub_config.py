"""JupyterHub's configuration out of the site's settings, and what a site's own files may overrule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jupyterhub import orm
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from portal.administration import enter, role
from portal.hub import config, variables
from portal.hub.app import PortalHub

SITE = """\
[portal]
state_folder = "{folder}/state"
extra_config = "{folder}/extra"
"""


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, extra: str = "") -> Config:
    """What a hub is started with, on settings with one file of the administrator's own."""
    (folder / "extra").mkdir()
    (folder / "extra" / "own.py").write_text(extra)
    (folder / "site.toml").write_text(SITE.format(folder=folder))
    monkeypatch.setenv(variables.SITE, str(folder / "site.toml"))
    c = Config()
    config.configure_from_environment(c)
    return c


def test_the_hub_and_its_spawner_know_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = configured(tmp_path, monkeypatch)

    assert c.SlurmSessionSpawner.site_file == str(tmp_path / "site.toml")
    assert c.PortalHub.hub_id == (tmp_path / "state" / "hub_id").read_text()
    assert c.PortalHub.session_key_file == str(tmp_path / "state" / "session_key")
    assert c.PortalHub.launcher == "/opt/dsportal/bin/portal-launch"
    assert c.JupyterHub.spawner_class == "dsportal-slurm"


def test_an_error_of_the_database_has_none_of_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the code of a login, or the last lines of somebody's log: the hub's log has the error."""
    c = configured(tmp_path, monkeypatch)
    session = orm.new_session_factory(c.JupyterHub.db_url, **c.JupyterHub.db_kwargs)()

    with pytest.raises(SQLAlchemyError) as fault:
        session.execute(text("SELECT code FROM nowhere WHERE code = :code"), {"code": "of-a-login"})

    assert "SELECT code FROM nowhere" in str(fault.value)
    assert "of-a-login" not in str(fault.value)
    session.close()
    session.get_bind().dispose()


def test_slurms_commands_are_looked_for_where_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    cluster = '[cluster]\nslurm_path = "/opt/slurm/bin"\nslurm_conf = "/etc/slurm/b.conf"\n'
    monkeypatch.setitem(globals(), "SITE", cluster + SITE)

    configured(tmp_path, monkeypatch)

    assert os.environ["PATH"] == "/opt/slurm/bin:/usr/bin"
    assert os.environ["SLURM_CONF"] == "/etc/slurm/b.conf"


def test_a_site_that_says_nothing_of_slurms_place_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")

    configured(tmp_path, monkeypatch)

    assert (os.environ["PATH"], os.environ["SLURM_CONF"]) == ("/usr/bin", "/etc/slurm/slurm.conf")


def test_administrators_have_the_portals_own_role_by_their_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ldap = 'servers = ["ldaps://one.example"]\nca_file = "/ca"\nuser_dn = "uid={username}"\ngroup_base = "ou=groups"\n'
    settings = f'[ldap]\n{ldap}admin_groups = ["operators", "two words"]\n'
    monkeypatch.setattr("tests.unit.test_hub_config.SITE", SITE + settings.replace("{", "{{").replace("}", "}}"))

    c = configured(tmp_path, monkeypatch)

    (given,) = [one for one in c.JupyterHub.load_roles if one["name"] == role.NAME]
    assert given["groups"] == ["operators", "two words"]
    assert given["scopes"] == list(role.SCOPES)
    assert c.JupyterHub.tornado_settings[enter.SETTING] is False


def test_everything_is_below_the_path_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.test_hub_config.SITE", SITE + 'base_url = "/jupyter/"\n')

    hub = PortalHub(config=configured(tmp_path, monkeypatch))
    hub.init_db()
    hub.init_hub()

    assert (hub.base_url, hub.hub_prefix) == ("/jupyter/", "/jupyter/hub/")
    assert hub.hub.api_url.endswith(":8081/jupyter/hub/api")
    assert not [value for value in hub.template_vars.values() if str(value).startswith("/hub/")]


def test_an_administrators_own_file_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = configured(tmp_path, monkeypatch, "c.Spawner.default_url = '/tree'\nc.PortalHub.settle_every_s = 2\n")

    assert (c.Spawner.default_url, c.PortalHub.settle_every_s) == ("/tree", 2)


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new in config.OLD_NAMES.items()])
def test_an_old_name_still_counts_and_the_new_one_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: tuple[str, str],
    new: tuple[str, str],
) -> None:
    c = configured(tmp_path, monkeypatch, f"c.{'.'.join(old)} = 'theirs'\n")

    assert c[new[0]][new[1]] == "theirs"
    assert f"c.{'.'.join(old)} is called c.{'.'.join(new)} since 0.1.0" in capsys.readouterr().err


def test_nothing_is_said_of_old_names_where_none_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(tmp_path, monkeypatch)

    assert "since 0.1.0" not in capsys.readouterr().err
