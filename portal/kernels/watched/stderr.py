"""What a kernel says on its stderr while it starts: kept, and passed on to the session's log, where it goes anyway.

A pipe that nobody reads would hold a kernel. So a process of its own passes on what comes after the start: it waits
for nothing of the server's, and it ends with the kernel.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

KEPT_BYTES = 16384
READ_BYTES = 65536
LOG = 2  # the server's own stderr, which a kernel would have been given
# What ends a job ends the kernel first: its last words are passed on, too.
COPIER = ("/bin/sh", "-c", "trap '' HUP INT TERM; exec cat >&2")
_copiers: list[subprocess.Popen[bytes]] = []  # that run, or whose end nobody has asked for


class StartStderr:
    """A pipe for the stderr of one kernel that starts."""

    def __init__(self) -> None:
        self._from_kernel, self.for_kernel = os.pipe()
        os.set_blocking(self._from_kernel, False)
        self._kept = b""
        self._is_over = False

    @property
    def text(self) -> str:
        """The end of what it said so far."""
        return self._kept.decode(errors="replace")

    def close_kernels_end(self) -> None:
        """To be called as soon as the kernel has it, or will never have it."""
        os.close(self.for_kernel)

    def pass_on(self) -> None:
        """Pass on what is there; this waits for nothing more."""
        while not self._is_over:
            try:
                said = os.read(self._from_kernel, READ_BYTES)
            except BlockingIOError:
                return
            self._is_over = not said
            self._kept = (self._kept + said)[-KEPT_BYTES:]
            _log(said)

    def leave(self) -> None:
        """Leave the rest to a process of its own, where anybody still has the other end."""
        _copiers[:] = [one for one in _copiers if one.poll() is None]
        self.pass_on()
        try:
            if not self._is_over:
                os.set_blocking(self._from_kernel, True)
                _copiers.append(self._copier())
        except OSError as error:  # no process more: the kernel runs, and is not held
            _log(f"portal: what a kernel says is not in this log: {error.strerror}\n".encode())
        finally:
            os.close(self._from_kernel)

    def _copier(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            COPIER,
            stdin=self._from_kernel,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )


def _log(said: bytes) -> None:
    with suppress(OSError):  # a log that is full is no reason to end a kernel
        while said:
            said = said[os.write(LOG, said) :]
