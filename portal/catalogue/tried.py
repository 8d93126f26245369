"""A program of a kernel of the site, run to see what it says: bounded in time and in what is read of it."""

from __future__ import annotations

import contextlib
import os
import pwd
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

from portal.catalogue.rights import Rights
from portal.kernels.delta import Environment

MOST_BYTES = 1024**2  # of each of its two outputs
PART_BYTES = 64 * 1024


class TrialFault(Exception):
    """It could not be started, or said too much, or did not end; the text goes on after the name of the program."""


def tried(argv: Sequence[str], env: Environment, within_s: float, rights: Rights) -> subprocess.CompletedProcess[str]:
    """Run a program of others, which gets no terminal of who asks, and whose process group is ended with it.

    Raises:
        TrialFault: as it says.
    """
    own = _who(rights["user"], env) if "user" in rights else {}
    quiet = env | own | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        process = subprocess.Popen(
            argv, env=quiet, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, **rights,
        )  # fmt: skip
    except OSError as error:
        raise TrialFault(f"cannot be run: {error.strerror}") from error
    try:
        with process:
            try:
                return _read(process, within_s)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired as error:
        raise TrialFault(f"did not answer within {within_s:g} s") from error


def _who(user: int, env: Environment) -> Environment:
    """Who it runs as, where it is told: the home of whoever asks is closed to it."""
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    return {key: value for key, value in {"HOME": "/", "USER": name, "LOGNAME": name}.items() if key in env}


def _read(process: subprocess.Popen[bytes], within_s: float) -> subprocess.CompletedProcess[str]:
    """What it says until it ends, or as much as is read of it."""
    deadline = time.monotonic() + within_s
    said = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe}
    with selectors.DefaultSelector() as pipes:
        for pipe in said:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            if not (ready := pipes.select(max(0, deadline - time.monotonic()))):
                raise subprocess.TimeoutExpired(process.args, within_s)
            for pipe in [pipe for key, _ in ready for pipe in said if pipe is key.fileobj]:
                part = os.read(pipe.fileno(), PART_BYTES)
                said[pipe] += part
                if not part:
                    pipes.unregister(pipe)
                if len(said[pipe]) > MOST_BYTES:
                    raise TrialFault(f"said more than {MOST_BYTES} bytes, and was ended")
    status = process.wait(max(0, deadline - time.monotonic()))
    out, err = (bytes(text).decode(errors="replace") for text in said.values())
    return subprocess.CompletedProcess(process.args, status, out, err)
