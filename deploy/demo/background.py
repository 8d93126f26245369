"""The verbs around a supervisor: start one in the background, end one, remove its folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from deploy.demo import cgroups
from deploy.demo.console import DemoError, guarded, say
from deploy.demo.state_folder import State
from deploy.demo.supervisor import STOP_S, Options, supervise, user_namespace


def up(state: State, options: Options) -> int:
    """Start a supervisor in the background; show its output until all is ready."""
    reading, writing = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.setsid()
        os.close(reading)
        become_background(writing)
        os._exit(guarded(lambda: supervise(state, options, lambda: to_log(state))))
    os.close(writing)
    try:
        with os.fdopen(reading, "rb", buffering=0) as output:
            while chunk := output.read(4096):
                with contextlib.suppress(BrokenPipeError):  # `demo up | head` must not end the demo
                    os.write(1, chunk)
    except KeyboardInterrupt:
        os.kill(supervisor, signal.SIGTERM)
    if state.running():
        return 0
    return os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])


def become_background(writing: int) -> None:
    """No terminal any more: nothing to read, and output goes to the process that waits."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (writing, 1), (writing, 2)):
        os.dup2(old, new)
    os.close(writing)


def to_log(state: State) -> None:
    """From now on nobody waits: later output goes to the log."""
    log = os.open(state.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def down(state: State) -> int:
    """End a running demo, in order."""
    supervisor = state.supervisor()
    if supervisor is None:
        cgroups.remove(state.folder)
        say(f"No demo runs in {state.folder}.")
        return 0
    os.kill(supervisor, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S + 10
    while state.is_taken():
        if time.monotonic() > deadline:
            os.kill(supervisor, signal.SIGKILL)
        time.sleep(0.05)
    say(f"The demo in {state.folder} has ended.")
    return 0


def clean(state: State, live: bool = False) -> int:
    """Remove the state folder (``live``: only the cluster's own state), with the files of subordinate ids in it."""
    refusal = state.why_not_clean()
    if refusal:
        raise DemoError(refusal)
    cgroups.remove(state.folder)
    folder = state.cluster if live else state.folder
    say(f"Removing {folder} …")
    command = ["rm", "-rf", "--one-file-system", "--", str(folder)]
    first = subprocess.run(command, capture_output=True, check=False)
    if first.returncode:  # files of subordinate ids: only namespace root may remove them
        subprocess.run([*user_namespace("rootless"), *command], check=False)
    if folder.exists():
        raise DemoError(f"{folder} could not be removed completely")
    say(f"{folder} is gone.")
    return 0
