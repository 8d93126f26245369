"""How a session ends: by a signal, because the hub refuses it, because it never answers, or of its own.

The signal handlers do nothing but put an event into a queue. jupyter_server's own handler writes to the log, and when
the signal comes inside another write to the log, that fails and the signal is lost (seen with 2.21.1). A thread of
its own waits for the event, has another one tell the hub, stops the server, and ends the process when the server does
not stop. Both are there from the beginning: on a node full of processes none is started at the end.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from portal.homes import temporary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SERVES_WITHIN_S = 120.0
ENDS_WITHIN_S = 10.0
ANSWERS_WITHIN_S = 10.0
FAREWELL_WITHIN_S = 3.0  # its own time-out is shorter; a name that is not resolved has none
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Events; the others are signals, and reasons for which the session is ended.
SERVING = "serving"
OVER = "it is over"
# Exit statuses of an end that is not the server's own.
TERMINATED = 128 + signal.SIGTERM
FAILED = 1
# Takes the place of the process: a thread that is in the middle of the start would make its folder again.
REMOVE = 'status=$2; trap "exit $status" EXIT; /bin/rm -rf -- "$1"'  # also where no process can be made for rm


class Ending:
    """The one end of a session, whatever causes it, from whatever thread."""

    def __init__(self, runtime: str, farewell: Callable[[], None], serves_within_s: float | None = None) -> None:
        """``runtime`` is the folder that is removed with the session; ``farewell`` is called once, when the end begins.

        A server that does not answer within ``serves_within_s`` is given up.
        """
        self._runtime = runtime
        self._farewell = farewell
        self._serves_within_s = serves_within_s or SERVES_WITHIN_S
        self._events: SimpleQueue[str | signal.Signals] = SimpleQueue()  # its put() may run inside a signal handler
        self._stop: Callable[[], None] | None = None
        self._loop: AbstractEventLoop | None = None
        self._has_begun = threading.Event()
        self._farewell_is_over = threading.Event()
        self._is_ending = False

    def watch(self) -> None:
        """Handle signals, and wait for the end, from now on. Called in the main thread."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._signalled)
        threading.Thread(target=self._call_farewell, name="farewell", daemon=True).start()
        threading.Thread(target=self._run, name="ending", daemon=True).start()

    def let_go(self) -> bool:
        """Leave the signals to a fresh interpreter; ``False`` when this session is ending already."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) == self._signalled:
                signal.signal(number, signal.SIG_DFL)  # one that came before has run its handler by then
        return not self._is_ending

    def _signalled(self, number: int, _frame: Any) -> None:
        self._is_ending = True
        self._events.put(signal.Signals(number))

    def serving(self, stop: Callable[[], None], loop: AbstractEventLoop | None = None) -> None:
        """From now on the server answers in ``loop``; ``stop``, called from a thread, makes it end in good order."""
        self._stop = stop
        self._loop = loop
        self._events.put(SERVING)

    def answers(self) -> bool:
        """Whether the server can answer now. Called from a thread."""
        turned = threading.Event()
        if self._loop is None or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(ANSWERS_WITHIN_S)

    @property
    def has_served(self) -> bool:
        """Whether the server has answered."""
        return self._stop is not None

    def ask(self, why: str) -> None:
        """End the session, and say why in its log."""
        self._is_ending = True
        self._events.put(why)

    def over(self) -> None:
        """End a session whose server has stopped of its own; waits until the hub knows."""
        self._events.put(OVER)
        self._farewell_is_over.wait(FAREWELL_WITHIN_S)

    def _run(self) -> None:
        event = self._next(monotonic() + self._serves_within_s)
        if event == SERVING:
            event = self._next(None)
        if event is None:
            say(f"JupyterLab did not answer within {self._serves_within_s:.0f} s on this node: this session ends.")
        elif isinstance(event, signal.Signals):
            say(f"This session ends: {event.name}")
        elif event != OVER:
            say(f"This session ends: {event}")
        self._has_begun.set()
        if self._stop and event != OVER:
            self._stop()
        if self._stop or event == OVER:
            self._await_end(monotonic() + ENDS_WITHIN_S)
        self._end_now(TERMINATED if isinstance(event, signal.Signals) else FAILED)

    def _next(self, deadline: float | None) -> str | signal.Signals | None:
        """The next event; ``None`` when none comes until ``deadline``."""
        timeout_s = None if deadline is None else max(0.0, deadline - monotonic())
        try:
            return self._events.get(timeout=timeout_s)
        except Empty:
            return None

    def _call_farewell(self) -> None:
        self._has_begun.wait()
        try:
            self._farewell()
        finally:
            self._farewell_is_over.set()

    def _await_end(self, deadline: float) -> None:
        """Wait for the process to end by itself; return when it does not, or at one more signal."""
        while True:
            event = self._next(deadline)
            if isinstance(event, signal.Signals):
                return
            if event is None:
                say(f"The server did not end within {ENDS_WITHIN_S:.0f} s: it is ended.")
                return

    def _end_now(self, status: int) -> None:
        self._farewell_is_over.wait(FAREWELL_WITHIN_S)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # one more shall not come between
        if temporary.is_held(Path(self._runtime)):
            temporary.remove(Path(self._runtime))  # it is all, where the shell can start nothing
            with suppress(OSError):
                os.execv("/bin/sh", ["sh", "-c", REMOVE, "sh", self._runtime, str(status)])  # noqa: S606  no shell text
        temporary.remove(Path(self._runtime))
        os._exit(status)


def say(text: str) -> None:
    """Write a line into the session's log, unless that cannot be written at this moment."""
    if select.select([], [1], [], 0)[1]:
        with suppress(OSError):  # its disk is full
            os.write(1, f"[portal] {text}\n".encode())


def wake_on_signals(loop: AbstractEventLoop) -> None:
    """Wake the event loop at each signal, also where the system gave the signal to another thread.

    Python runs handlers in the main thread only, and that one sleeps in the loop until something happens.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    loop.add_reader(reader, lambda: reader.recv(64))
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
