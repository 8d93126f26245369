"""Who has the hub's account does not choose what the launcher's programs load, however a site has set sudo up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.launcher import SESSIONS
from tests.inside import VENV_BIN, home, sh

SUDOERS = Path("/etc/sudoers")
FOR_SITES = Path(__file__).parents[2] / "deploy" / "site" / "sudoers.dsportal"
KEY = "0123456789abcdef"
REQUEST = {"verb": "submit", "key": KEY, "options": ["--time=1", "--mem=10M"], "environment": {}}


@pytest.fixture
def slurm_elsewhere(tmp_path: Path) -> Iterator[None]:
    """Sudo as our file says it for a site whose slurm.conf is not in its usual place."""
    before = SUDOERS.read_text()
    (line,) = [line for line in FOR_SITES.read_text().splitlines() if line.startswith("# Defaults:")]
    variables = tmp_path / "launcher.env"
    variables.write_text("SLURM_CONF=/etc/slurm/slurm.conf\n")
    SUDOERS.write_text(before + line.removeprefix("# ").replace("/etc/dsportal/launcher.env", str(variables)) + "\n")
    sh("visudo", "--check")
    yield
    SUDOERS.write_text(before)
    sh("scancel", "--user=alice")
    sh("rm", "-rf", str(home("alice") / SESSIONS / KEY))


@pytest.mark.usefixtures("slurm_elsewhere")
def test_the_hubs_account_names_no_slurm_conf_for_others(tmp_path: Path) -> None:
    theirs = tmp_path / "slurm.conf"
    theirs.write_text("ClusterName=theirs\nSlurmctldHost=nowhere.invalid\nCliFilterPlugins=theirs\n")
    tmp_path.chmod(0o755)
    argv = ["runuser", "-u", "portal", "--", "env", f"SLURM_CONF={theirs}", "sudo", "--non-interactive", "-u", "alice"]
    argv += ["--", str(VENV_BIN / "portal-launch")]

    done = subprocess.run(argv, input=json.dumps(REQUEST), capture_output=True, text=True, cwd="/", check=False)

    assert json.loads(done.stdout)["ok"] is True, done
