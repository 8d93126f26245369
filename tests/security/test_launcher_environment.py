"""Who has the hub's account does not choose what the launcher's programs load, however a site has set sudo up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.launcher import SESSIONS
from portal.request import SessionRequest
from portal.site import load
from portal.slurm.submission import submission
from tests.inside import VENV_BIN, home, sh

SUDOERS = Path("/etc/sudoers")
KEY = "0123456789abcdef"


@pytest.fixture
def sudo_lets_it_through() -> Iterator[None]:
    """Sudo as a site may have set it up that has its slurm.conf elsewhere."""
    before = SUDOERS.read_text()
    SUDOERS.write_text(before + 'Defaults:portal env_keep += "SLURM_CONF"\n')
    sh("visudo", "--check")
    yield
    SUDOERS.write_text(before)
    sh("scancel", "--user=alice")
    sh("rm", "-rf", str(home("alice") / SESSIONS / KEY))


@pytest.mark.usefixtures("sudo_lets_it_through")
def test_the_hubs_account_names_no_slurm_conf_for_others(tmp_path: Path) -> None:
    theirs = tmp_path / "slurm.conf"
    theirs.write_text("ClusterName=theirs\nSlurmctldHost=nowhere.invalid\nCliFilterPlugins=theirs\n")
    tmp_path.chmod(0o755)
    argv = ["runuser", "-u", "portal", "--", "env", f"SLURM_CONF={theirs}", "sudo", "--non-interactive", "-u", "alice"]
    argv += ["--", str(VENV_BIN / "portal-launch")]

    asked = submission(SessionRequest("sxm2", 0, 1), load("/etc/dsportal/site.toml"), KEY, {})
    request = {"verb": "submit", "key": KEY, "options": list(asked.options), "environment": {}}

    done = subprocess.run(argv, input=json.dumps(request), capture_output=True, text=True, cwd="/", check=False)

    assert json.loads(done.stdout)["ok"] is True, done
