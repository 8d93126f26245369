"""portal doctor on the real cluster, as the hub's own account."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside import SITE_FILE, VENV_BIN, of_one_kernel, sh

FOLDER = Path("/cluster/test-doctor")
# No certificate; GPUs that are none, kernels for CPUs; nodes that are all this machine.
OF_A_DEMO = dict.fromkeys(("HTTPS", "kernels on GPUs", "temporary files"), "warning")


def doctor(site_file: Path, user: str = "portal") -> tuple[int, dict[str, str], str]:
    """Run the command; its exit status, the result of each check by name, and everything it printed."""
    command = ["runuser", "-u", user, "--", str(VENV_BIN / "portal"), "doctor", "--site", str(site_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd="/")
    lines = re.findall(r"^(ok|warning|failed) +(\S.*?)  +", done.stdout, flags=re.MULTILINE)
    return done.returncode, {what: result for result, what in lines}, done.stdout + done.stderr


def not_ok(results: dict[str, str]) -> dict[str, str]:
    return {what: result for what, result in results.items() if result != "ok"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the hub's account can read."""
    FOLDER.mkdir(mode=0o755)
    yield FOLDER
    shutil.rmtree(FOLDER)


def broken(folder: Path, *lines: str, more: str = "") -> Path:
    """The demo's settings with the given lines in the place of those with the same key, and more tables; one kernel."""
    text = of_one_kernel(SITE_FILE.read_text())
    for line in lines:
        key = line.partition(" = ")[0]
        text, count = re.subn(rf"^{key} = .*$", line, text, count=1, flags=re.MULTILINE)
        assert count == 1, f"the demo's settings have no {key}"
    site_file = folder / "site.toml"
    site_file.write_text(f"{text}\n{more}\n")
    return site_file


def test_a_site_that_is_in_order_is_ok_but_for_what_a_demo_has_not() -> None:
    status, results, said = doctor(SITE_FILE)

    assert not_ok(results) == OF_A_DEMO, said
    assert status == 0
    assert re.search(r"built for CPUs and see none: .*tensorflow \(TensorFlow\)", said), said
    read = r"Slurm's answers +read: \d+ jobs, 4 nodes, 4 partitions, 0 reservations; sessions of a portal: \d+"
    assert re.search(read, said), said  # how many, depends on the ring that runs at the same time
    assert {"Slurm", "sudo", "launcher", "proxy", "partition iq", "kernel tensorflow", "storage isilon"} <= set(results)
    assert said.splitlines()[-1] == f"{len(results)} checks: {len(results) - 3} ok, 3 warning, 0 failed"


def test_what_is_wrong_in_a_sites_file_is_what_fails_and_each_says_how_to_repair_it(folder: Path) -> None:
    ca = folder / "other-ca.crt"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(folder / "ca.key")]
    sh(*request, "-out", str(ca), "-subj", "/CN=Another CA", "-days", "9")
    more = '[session]\nhours_max = 48\n[[partition]]\nname = "nope"'

    status, results, said = doctor(broken(folder, f'ca_file = "{ca}"', "hours_max = 48", "port = 3890", more=more))

    servers = ("LDAP ldap://127.0.0.1:3890", "LDAP ldap://127.0.0.1:3891", "LDAP, who left")
    failed = dict.fromkeys(("partition nope", "portal.port", "launcher's file", *servers), "failed")
    warned = {**OF_A_DEMO, "partition sxm2": "warning"}
    del warned["kernels on GPUs"]  # Python alone has no framework
    assert not_ok(results) == warned | failed, said
    assert status == 1
    assert "certificate verify failed" in said
    assert f"{ca}\n" in said
    assert "Slurm has: sxm2, hipri, iq, requestq." in said
    assert "Slurm allows 24 h, the portal offers 48 h" in said
    assert "127.0.0.1:3890: Address already in use" in said


def test_somebody_else_than_the_hubs_account_is_told_what_only_that_account_may(folder: Path) -> None:
    status, results, said = doctor(broken(folder), user="alice")

    assert status == 1
    assert {what for what, result in results.items() if result == "failed"} >= {"sudo", "state folder"}, said
    assert "Run this as portal" in said
