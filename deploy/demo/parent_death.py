"""A process that ends with the one that started it: the kernel sends it a signal (prctl(2), PR_SET_PDEATHSIG).

The setting survives an exec. It comes too late for a parent that has ended before; :func:`ended_by` sees that.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)  # loaded now: between fork and exec is no time for it


def signal_at_parents_end(number: signal.Signals) -> None:
    """Get this signal when the parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, number)


def ended_by(parent: int) -> Callable[[], None]:
    """What ``preexec_fn`` runs for a child that must not outlive the process ``parent``, its starter.

    The signal is KILL, which is not lost between fork and exec; the child may choose another one later.
    """

    def set_up() -> None:
        signal_at_parents_end(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return set_up
