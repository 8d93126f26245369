"""How a session ends: by a signal, because the hub refuses it, because it never answers, or of its own.

The signal handlers do nothing but put a word into a queue. jupyter_server's own handler writes to the log, and when
the signal lands inside another write to the log, that fails and the signal is lost (seen with 2.21.1). A thread of
its own waits for the word, tells the hub, asks the server to stop, and ends the process when that does not happen.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SERVES_WITHIN_S = 120.0
ENDS_WITHIN_S = 10.0
FAREWELL_WITHIN_S = 3.0  # its own time-out is shorter; a name that is not resolved has none
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
SERVING, OVER = "serving", "it is over"
TERMINATED, FAILED = 128 + signal.SIGTERM, 1  # exit statuses of an end that is not the server's own


class Ending:
    """The one end of a session, whoever asks for it, from whatever thread."""

    def __init__(self, runtime: str, farewell: Callable[[], None], serves_within_s: float | None = None) -> None:
        """``runtime`` is the folder that goes with the session; ``farewell`` is called once, in its first moment.

        A server that does not answer within ``serves_within_s`` is given up.
        """
        self._runtime, self._farewell, self._serves_within_s = runtime, farewell, serves_within_s or SERVES_WITHIN_S
        self._events: SimpleQueue[str | signal.Signals] = SimpleQueue()  # its put() may run inside a signal handler
        self._stop: Callable[[], None] | None = None
        self._said = threading.Event()
        self._asked = False

    def watch(self) -> None:
        """From now on the end is noticed. Called in the main thread."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._signalled)
        threading.Thread(target=self._run, name="ending", daemon=True).start()

    def let_go(self) -> bool:
        """Leave the signals to a fresh interpreter; ``False`` when an end has been asked for, so that it comes."""
        for number in STOP_SIGNALS:
            if signal.getsignal(number) == self._signalled:
                signal.signal(number, signal.SIG_DFL)  # one that came before has run its handler by then
        return not self._asked

    def _signalled(self, number: int, _frame: Any) -> None:
        self._asked = True
        self._events.put(signal.Signals(number))

    def serving(self, stop: Callable[[], None]) -> None:
        """From now on the server answers, and ``stop``, called from a thread, makes it end in good order."""
        self._stop = stop
        self._events.put(SERVING)

    @property
    def has_served(self) -> bool:
        """Whether the server has answered."""
        return self._stop is not None

    def ask(self, why: str) -> None:
        """End the session, and say why in its log."""
        self._asked = True
        self._events.put(why)

    def over(self) -> None:
        """The session has come to its end of its own; waits until the hub knows."""
        self._events.put(OVER)
        self._said.wait(FAREWELL_WITHIN_S)

    def _run(self) -> None:
        event = self._next(monotonic() + self._serves_within_s)
        if event == SERVING:
            event = self._next(None)
        asked_to_stop = isinstance(event, signal.Signals)
        if event is None:
            say(f"JupyterLab did not answer within {self._serves_within_s:.0f} s on this node: this session ends.")
        elif event != OVER:
            say(f"This session ends: {event.name if isinstance(event, signal.Signals) else event}")
        threading.Thread(target=self._tell, name="farewell", daemon=True).start()
        if self._stop and event != OVER:
            self._stop()
        if self._stop or event == OVER:
            self._await_end(monotonic() + ENDS_WITHIN_S)
        self._end_now(TERMINATED if asked_to_stop else FAILED)

    def _next(self, deadline: float | None) -> str | signal.Signals | None:
        """The next word; ``None`` when none comes until ``deadline``."""
        try:
            return self._events.get(timeout=None if deadline is None else max(0.0, deadline - monotonic()))
        except Empty:
            return None

    def _tell(self) -> None:
        try:
            self._farewell()
        finally:
            self._said.set()

    def _await_end(self, deadline: float) -> None:
        """Wait for the process to end by itself; come back when it does not, or at one more signal."""
        while not isinstance(event := self._next(deadline), signal.Signals):
            if event is None:
                say(f"The server did not end within {ENDS_WITHIN_S:.0f} s: it is ended.")
                return

    def _end_now(self, status: int) -> None:
        self._said.wait(FAREWELL_WITHIN_S)
        shutil.rmtree(self._runtime, ignore_errors=True)
        os._exit(status)


def say(words: str) -> None:
    """A line of the session's log, unless that cannot be written at this moment."""
    if select.select([], [1], [], 0)[1]:
        os.write(1, f"[portal] {words}\n".encode())


def wake_on_signals(loop: AbstractEventLoop) -> None:
    """Wake the event loop at each signal, also where the system gave the signal to another thread.

    Python runs handlers in the main thread only, and that one sleeps in the loop until something happens.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    loop.add_reader(reader, lambda: reader.recv(64))
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
