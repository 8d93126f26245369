"""A session of the local mode is a process that ends with its hub: without one it would believe who takes its port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HUB = """
import subprocess, time
from spawners.local import LocalSessionSpawner

session = LocalSessionSpawner().make_preexec_fn("alice")
print(subprocess.Popen(["sleep", "600"], preexec_fn=session, start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_a_session_ends_with_a_hub_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HUB], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as hub:
        assert hub.stdout
        session = int(hub.stdout.readline())
        ran = runs(session)

        hub.kill()

    deadline = time.monotonic() + 10
    while runs(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    goes_on = runs(session)
    if goes_on:
        os.kill(session, signal.SIGKILL)
    assert (ran, goes_on) == (True, False)


def test_a_session_whose_hub_has_ended_before_does_not_begin() -> None:
    script = f"from spawners.local import _end_with; _end_with({os.getpid()} + 1); print('it begins')"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT, check=False)

    assert (done.returncode, done.stdout) == (1, "")


def runs(pid: int) -> bool:
    """Whether a process is there that is more than its number, which its parent has not asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
