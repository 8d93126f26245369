"""An earlier release under a real systemd is updated as the guide says, and brought back, while a session runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside import eventually
from tests.systems import earlier, guide, roots
from tests.systems.browser import Browser
from tests.systems.conftest import FOLDER, go_on, serves
from tests.systems.machine import Machine

EARLIER = "0.0.9"
PYTHON = f"/opt/dsportal/{EARLIER}/bin/python"
JOBS = "squeue --noheader --format '%A %u' | sort"
SUITE = "bookworm"
STARTS_WITHIN_S = 120

pytestmark = pytest.mark.parametrize("host", [SUITE], indirect=True, scope="module")


def typed(number: int, new: str) -> str:
    """Commands of the guide with the versions that are here: its 0.1.0 is the earlier one, its 0.2.0 the new one."""
    text = guide.commands("By the release", number)
    return "cd /usr/local/src\n" + text.replace("0.1.0", EARLIER).replace("0.2.0", new)


@pytest.fixture(scope="module")
def new(release: Path) -> str:
    """The version of the new release."""
    return release.name.split("-")[1]


@pytest.fixture(scope="module")
def kernel(host: Machine, release: Path, new: str) -> Iterator[tuple[Browser, str]]:
    """Alice in a session of the earlier version, and the id of her kernel; the new release lies beside."""
    before = earlier.release(FOLDER / "earlier", EARLIER, roots.SUITES[SUITE])
    for file in (before, release):
        host.copy(file, f"/usr/local/src/{file.name}")
    host.sh(typed(0, new))
    assert go_on(host).splitlines()[-1].endswith(" 0 failed")
    eventually(lambda: serves(host), "the hub answers", within_s=60)
    alice = Browser(host, "alice", PYTHON)
    assert alice.ask("login", "alice-demo") == 200
    alice.ask("start", STARTS_WITHIN_S)
    identifier = alice.ask("open_kernel", "python3")
    alice.ask("run", "kept = 'since before'")
    yield alice, identifier
    alice.close()


def has_open(host: Machine, pids: str, version: str) -> bool:
    """Whether one of the processes, by a command that prints their numbers, has files of that version open."""
    look = f"for pid in $({pids}); do grep -q /opt/dsportal/{version}/ /proc/$pid/maps && echo yes; done; true"
    return "yes" in host.call("bash", "-c", look).stdout


def runs(host: Machine, version: str) -> bool:
    """Whether the hub is up and is that version."""
    return has_open(host, "systemctl show --property MainPID --value dsportal", version) and serves(host)


def test_the_update_keeps_the_session_its_kernel_and_the_login(
    host: Machine, kernel: tuple[Browser, str], new: str
) -> None:
    alice, identifier = kernel
    assert runs(host, EARLIER)
    jobs = host.sh(JOBS)

    said = host.sh(typed(1, new))

    assert " 0 failed" in said
    assert "/etc/dsportal/site.toml stays as it is" in said
    eventually(lambda: runs(host, new), "the new version answers", within_s=60)
    eventually(lambda: alice.ask("reaches"), "the session is reached, without a new login", within_s=60)
    alice.ask("connect", identifier)
    assert alice.ask("run", "print(kept)") == "since before\n"
    assert host.sh(JOBS) == jobs


def test_somebody_else_starts_a_session_of_the_new_version(
    host: Machine, kernel: tuple[Browser, str], new: str
) -> None:
    bob = Browser(host, "bob", PYTHON)
    try:
        assert bob.ask("login", "bob-demo") == 200
        bob.ask("start", STARTS_WITHIN_S)
        bob.ask("open_kernel", "python3")
        assert bob.ask("run", "print(6 * 7)") == "42\n"
    finally:
        bob.close()
    assert has_open(host, "pgrep --uid bob", new)


def test_the_way_back_keeps_both_sessions(host: Machine, kernel: tuple[Browser, str], new: str) -> None:
    alice, identifier = kernel
    jobs = host.sh(JOBS)
    assert len(jobs.splitlines()) == 2

    host.sh(typed(2, new))

    eventually(lambda: runs(host, EARLIER), "the earlier version answers", within_s=60)
    eventually(lambda: alice.ask("reaches"), "the session is reached, without a new login", within_s=60)
    alice.ask("connect", identifier)
    assert alice.ask("run", "print(kept)") == "since before\n"
    assert host.sh(JOBS) == jobs
