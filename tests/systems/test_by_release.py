"""The guide followed to the letter with the release, on each Debian, and the units under a real systemd."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inside import eventually
from tests.systems import guide
from tests.systems.browser import Browser
from tests.systems.conftest import go_on, serves
from tests.systems.machine import Machine

PYTHON = "/opt/dsportal/current/bin/python"
JOBS = "squeue --noheader --user alice --format %A"
ON_DISK = "find /etc /opt /usr /var /home -xdev | sort"
# What belongs to others, or is no file of a program: logs, caches, and what the site's daemons and people write.
OTHERS = (
    "/var/log",
    "/var/cache",
    "/var/lib/munge",
    "/var/lib/slurm",
    "/var/lib/systemd",
    "/var/lib/ldap-site",
    "/var/lib/misc",
    "/var/tmp/",  # a folder of systemd's for each service and boot
    "/home/",
)
EXPOSURE_MAX = 4.0  # systemd's own count; 10 is a unit with no line about it
STAYS = ("/etc/dsportal", "/var/lib/dsportal", "/opt/dsportal", "/opt/dsportal/jupyter")


@pytest.fixture(scope="module")
def before(host: Machine) -> set[str]:
    """The files of the host before the portal came."""
    return set(host.sh(ON_DISK).splitlines())


@pytest.fixture(scope="module")
def doctor(host: Machine, before: set[str], release: Path) -> str:
    """The guide, step by step; what its doctor said."""
    host.copy(release, f"/usr/local/src/{release.name}")
    host.sh(f"cd /usr/local/src\n{guide.commands('By the release', 0)}")
    return go_on(host)


@pytest.fixture(scope="module")
def alice(host: Machine, doctor: str) -> Iterator[Browser]:
    """Alice, in a session with a kernel."""
    eventually(lambda: serves(host), "the hub answers", within_s=60)
    browser = Browser(host, "alice", PYTHON)
    assert browser.ask("login", "alice-demo") == 200
    browser.ask("start", 60)
    browser.ask("open_kernel", "python3")
    yield browser
    browser.close()


def main_pid(host: Machine, unit: str) -> str:
    """The process of a unit."""
    return host.sh(f"systemctl show --property MainPID --value {unit}").strip()


def test_the_page_leads_to_a_doctor_without_a_failure(doctor: str) -> None:
    assert doctor.splitlines()[-1].endswith(" 0 failed"), doctor


def test_a_second_run_of_the_install_has_nothing_to_do(host: Machine, doctor: str) -> None:
    said = host.sh("cd /usr/local/src/dsportal-*/\n./install --dry-run")

    assert "would " not in said
    assert "/etc/dsportal/site.toml stays as it is" in said


def test_a_kernel_of_the_sites_modules_runs_as_the_person_in_a_job_of_slurm(host: Machine, alice: Browser) -> None:
    said = alice.ask("run", "import os, getpass; print(6 * 7, os.environ['SITE_PYTHON'], getpass.getuser())")

    assert said == "42 yes alice\n"
    assert len(host.sh(JOBS).split()) == 1


def kill(host: Machine) -> None:
    """As a crash: systemd starts it again."""
    host.sh(f"kill -KILL {main_pid(host, 'dsportal')}")


def restart(host: Machine) -> None:
    """As after an update."""
    host.sh("systemctl restart dsportal")


def stop_and_start(host: Machine) -> None:
    """The hub away for a while, and back."""
    host.sh("systemctl stop dsportal")
    host.sh("systemctl start dsportal")


@pytest.mark.parametrize("ends", [kill, restart, stop_and_start])
def test_who_is_in_a_session_does_not_notice_that_the_unit_of_the_hub_ends_and_starts(
    host: Machine, alice: Browser, ends: Callable[[Machine], None]
) -> None:
    hub, proxy, job = main_pid(host, "dsportal"), main_pid(host, "dsportal-proxy"), host.sh(JOBS)
    alice.ask("run", "kept = 'since before'")

    ends(host)

    assert alice.ask("run", "print(kept)") == "since before\n", "the same web socket, while no hub is there"
    eventually(lambda: main_pid(host, "dsportal") not in ("0", hub) and serves(host), "another hub", within_s=60)
    assert alice.ask("run", "print(kept)") == "since before\n"
    assert alice.ask("reaches")
    assert (main_pid(host, "dsportal-proxy"), host.sh(JOBS)) == (proxy, job)


def test_a_proxy_that_is_killed_is_back_with_the_routes_of_the_sessions(host: Machine, alice: Browser) -> None:
    proxy = main_pid(host, "dsportal-proxy")

    host.sh(f"kill -KILL {proxy}")

    eventually(lambda: main_pid(host, "dsportal-proxy") not in ("0", proxy) and serves(host), "another proxy")
    eventually(lambda: alice.ask("reaches"), "the session has its route again", within_s=60)
    alice.ask("open_kernel", "python3")


def test_systemd_finds_no_fault_in_the_units(host: Machine, doctor: str) -> None:
    units = "/etc/systemd/system/dsportal.service /etc/systemd/system/dsportal-proxy.service"

    assert host.sh(f"systemd-analyze verify {units}").strip() == ""


def test_the_proxys_unit_may_do_little(host: Machine, doctor: str) -> None:
    said = host.sh("systemd-analyze security dsportal-proxy --no-pager").splitlines()[-1]

    (exposure,) = re.findall(r"exposure level for dsportal-proxy.service: ([0-9.]+)", said)
    assert float(exposure) < EXPOSURE_MAX, said


def test_the_journal_has_hub_and_proxy_with_their_levels_and_no_secret(host: Machine, alice: Browser) -> None:
    lines = host.sh("journalctl --unit dsportal --unit dsportal-proxy --output json --no-pager").splitlines()
    entries = [json.loads(line) for line in lines]
    said = "\n".join(str(entry["MESSAGE"]) for entry in entries)

    assert {entry["_SYSTEMD_UNIT"] for entry in entries} >= {"dsportal.service", "dsportal-proxy.service"}
    assert "alice-demo" not in said
    assert next(entry["PRIORITY"] for entry in entries if "Running JupyterHub version" in entry["MESSAGE"]) == "6"
    assert [entry["PRIORITY"] for entry in entries if entry["MESSAGE"].endswith("has ended")] == ["3"], "the proxy"
    assert {entry["PRIORITY"] for entry in entries if "[ConfigProxy] info: " in entry["MESSAGE"]} == {"6"}, "no colours"
    assert "is replaced, connections end once" not in said


def test_both_units_stop_in_order_and_the_session_lives_on(host: Machine, alice: Browser) -> None:
    job = host.sh(JOBS)

    host.sh("systemctl stop dsportal dsportal-proxy")
    assert host.sh("systemctl show --property Result --value dsportal dsportal-proxy").split() == ["success"] * 2
    assert host.call("pgrep", "--uid", "portal").stdout == "", "no process of the portal is left"
    assert host.sh(JOBS) == job
    host.sh("systemctl start dsportal")  # and the proxy that it wants

    eventually(lambda: serves(host) and alice.ask("reaches"), "the session is reached again", within_s=60)


def test_after_a_reboot_the_portal_is_there_by_itself(host: Machine, alice: Browser) -> None:
    alice.close()
    host.halt()
    host.start()

    eventually(lambda: serves(host), "the hub answers", within_s=90)


def test_after_the_uninstall_nothing_of_ours_is_left_but_what_the_page_names(
    host: Machine, before: set[str], doctor: str
) -> None:
    (folder,) = host.sh("ls -d /usr/local/src/dsportal-*/").split()
    said = host.sh(f"cd {folder}\n./install --uninstall")

    new = set(host.sh(ON_DISK).splitlines()) - before
    left = {path for path in new if not path.startswith((*OTHERS, "/usr/local/src"))}
    assert {path for path in left if not path.startswith(STAYS)} == set()
    assert {path for path in left if path.startswith("/opt/dsportal/")} >= {"/opt/dsportal/jupyter"}
    assert host.call("pgrep", "--uid", "portal").stdout == ""
    assert "dsportal" not in host.sh("ls /tmp /var/tmp /run")
    assert "dsportal" not in host.sh("systemctl list-units --all --no-legend; systemctl list-unit-files --no-legend")
    assert host.sh("stat -c %U /var/lib/dsportal").strip() == "portal"
    (last,) = [line for line in said.splitlines() if line.startswith("To take them away as well: ")]

    host.sh(last.removeprefix("To take them away as well: "))
    new = set(host.sh(ON_DISK).splitlines()) - before
    assert {path for path in new if not path.startswith((*OTHERS, "/usr/local/src"))} == set()
    assert host.call("getent", "passwd", "portal").stdout == ""
