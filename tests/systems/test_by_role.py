"""The Ansible role as its own page has it, on each Debian: a look, a run, a second run, and a session."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.environments import portal_venv
from tests.inside import eventually
from tests.systems import guide, roots
from tests.systems.browser import Browser
from tests.systems.conftest import FOLDER, ROOT, serves
from tests.systems.machine import Machine

ROLES = ROOT / "deploy/ansible/roles"
LOCK = ROOT / "deploy/locks/ansible.lock"
# The controller and its hosts are one machine here; the compute node has a prefix of its own, as where none is shared.
HOSTS = """\
[portal]
portal.example.org ansible_connection=local
[compute]
node1 ansible_connection=local dsportal_prefix=/opt/node
"""
ANSIBLE = "PYTHONPATH=/root/ansible ANSIBLE_NOCOLOR=1 python3 /root/ansible/bin/ansible-playbook"
PLAY = f"cd /root/site; {ANSIBLE} -i hosts site.yml"


def ansible(suite: str) -> Path:
    """Ansible from PyPI, for the Python of a Debian."""
    folder = FOLDER / suite / "ansible"
    if (folder / ".lock").is_file() and (folder / ".lock").read_text() == LOCK.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    argv = [*portal_venv.find_pip(), "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    argv += ["--require-hashes", "--only-binary=:all:", "--python-version", roots.SUITES[suite], "-r", str(LOCK)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / ".lock").write_text(LOCK.read_text())
    return folder


@pytest.fixture(scope="module")
def controller(host: Machine, release: Path) -> Machine:
    """The host with Ansible, the role, the playbook of the role's page and the files that it names."""
    inside = Path(f"/proc/{host.pid}/root/root")
    shutil.copytree(ansible(host.debian.parent.name), inside / "ansible")
    (playbook,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROLES / "dsportal/README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    shutil.copytree(ROLES, inside / "site/roles")
    host.write("/root/site/site.yml", playbook)
    host.write("/root/site/hosts", HOSTS)
    (settings,) = guide.blocks("4. The settings", "toml")
    host.write("/root/site/files/site.toml", settings)
    host.sh("cp /root/ca/portal.crt /root/ca/portal.key /root/site/files/; mkdir /srv/releases")
    host.copy(release, f"/srv/releases/{release.name}")
    return host


def recap(said: str) -> dict[str, dict[str, int]]:
    """What Ansible counted for each host."""
    lines = re.findall(r"^(\S+)\s+: (ok=.*)$", said, re.MULTILINE)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)} for name, counts in lines}


def test_the_page_of_the_role_leads_to_a_portal_that_runs_and_a_second_run_changes_nothing(
    controller: Machine,
) -> None:
    look = controller.sh(f"{PLAY} --check")
    assert "would make /opt/dsportal/" in look or "unpack and install" in look
    assert controller.sh("ls /opt").split() == []

    first = recap(controller.sh(PLAY))
    second = recap(controller.sh(PLAY))

    assert {name: counts["failed"] + counts["unreachable"] for name, counts in first.items()} == {
        "portal.example.org": 0,
        "node1": 0,
    }
    assert {name: counts["changed"] for name, counts in second.items()} == {"portal.example.org": 0, "node1": 0}
    assert controller.sh("/opt/node/bin/portal --version") == controller.sh("/opt/dsportal/bin/portal --version")
    assert " 0 failed" in controller.sh(guide.commands("6. Ask the doctor", 0))


def test_a_session_runs_on_it(controller: Machine) -> None:
    eventually(lambda: serves(controller), "the hub answers", within_s=60)
    bob = Browser(controller, "bob", "/opt/dsportal/current/bin/python")
    try:
        assert bob.ask("login", "bob-demo") == 200
        bob.ask("start", 60)
        bob.ask("open_kernel", "python3")
        assert bob.ask("run", "print(6 * 7)") == "42\n"
    finally:
        bob.close()
