"""Notices what blocks an event loop, and where: in a hub that the tests start, or in a process of their own.

A hub runs this text by a file of its ``extra_config`` (:func:`put_into`); it needs the standard library only. What it
notices becomes lines of JSON, which the tests read (:func:`read`). Noticed are, in the thread of the loop only:

========== ========================================================================================================
names      a look into the list of accounts or groups (``pwd``, ``grp``): a silent name service waits for a minute
address    a look-up of a host's address or name; one of digits asks nobody
process    a process that is started, other than by asyncio, which does not wait for it
sleep      ``time.sleep``
home       a file or folder in a home is looked at: homes are somebody else's file server
database   a statement of SQL that took longer than :data:`SLOW_S`
slow       a callback of the loop that took longer than :data:`SLOW_S`, with the stack at that time, its CPU time, and
           each sleep of its thread, with the stack in it: a thread that waits for the processor of a busy machine
           does not sleep
========== ========================================================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import ipaddress
import json
import os
import pwd
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

SLOW_S = 0.05
LOOK_EVERY_S = 0.01
LONG_S = 1.0  # no machine is so busy that a callback is not given the processor for as long
STACK = 25  # places of a stack that are kept
_ADDRESSES = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
_FILES = {"open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown"}
_ACCOUNTS: dict[Any, tuple[str, ...]] = {
    pwd: ("getpwnam", "getpwuid", "getpwall"),
    grp: ("getgrnam", "getgrgid", "getgrall"),
    os: ("getgrouplist", "initgroups"),
}
_PROCESSES = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.forkpty"}


class Sleep(TypedDict):
    """One sleep of the loop's thread: how long, whether it was one in the disk's driver, and where."""

    seconds: float
    is_disk: bool
    stack: list[str]


class LoopWatch:
    """The watch of one process.

    Args:
        file: where what it notices goes.
        homes: the folders that hold homes.
        is_on: what happens before this says true is not noticed: a hub that starts may wait.
    """

    def __init__(self, file: str, homes: Sequence[str] = (), is_on: Callable[[], bool] = lambda: True) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._homes = tuple(f"{home.rstrip('/')}/" for home in homes)
        self._is_on = is_on
        self._loop_thread = 0
        self._began = 0.0  # of the callback that runs now; 0 = none does
        self._stack: list[str] = []  # of the callback that runs now, once it is slow
        self._sleeps: dict[str, Sleep] = {}  # of the callback that runs now, by what the system says of each
        self._is_noting = False

    def install(self) -> None:
        """Watch the loop that runs in this thread, until the end of the process."""
        self._loop_thread = threading.get_ident()
        self._status = f"/proc/self/task/{threading.get_native_id()}/status"
        self._wrap_callbacks()
        self._wrap_accounts()
        self._wrap_looks()
        self._watch_statements()
        sys.addaudithook(self._audit)
        threading.Thread(target=self._look, name="loop-watch", daemon=True).start()

    # -- what it is told of ------------------------------------------------------------------------------

    def _is_in_loop(self) -> bool:
        return threading.get_ident() == self._loop_thread and bool(self._began) and not self._is_noting

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_in_loop():
            return
        if event in _ADDRESSES and not _is_numeric(arguments[0]):
            self._note("address", f"{event} {arguments[0]!r}")
        elif event in _PROCESSES:
            stack = _stack(sys._getframe(1))
            if not any("asyncio/unix_events.py" in line for line in stack):
                self._note("process", f"{event} {arguments[:2]!r}", stack)
        elif event in _FILES:
            self._home(event, arguments[0])

    def _home(self, what: str, path: object) -> None:
        with contextlib.suppress(TypeError, ValueError):
            text = os.fsdecode(path)  # type: ignore[arg-type]  # the number of an open file is no path
            if f"{text}/".startswith(self._homes):
                self._note("home", f"{what} {text}")

    def _wrap_accounts(self) -> None:
        for library, names in _ACCOUNTS.items():
            for name in names:
                self._wrap(library, name, lambda what, arguments: self._note("names", f"{what} {arguments!r}"))

    def _wrap_looks(self) -> None:
        """``stat`` and ``sleep`` have no audit event."""
        self._wrap(time, "sleep", lambda what, arguments: self._note("sleep", f"{arguments[0]} s"))
        for name in ("stat", "lstat", "access", "readlink"):
            self._wrap(os, name, lambda what, arguments: self._home(what, arguments[0]))

    def _wrap(self, library: Any, name: str, notice: Callable[[str, tuple[Any, ...]], None]) -> None:
        theirs = getattr(library, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self._is_in_loop() and arguments:
                notice(name, arguments)
            return theirs(*arguments, **named)

        setattr(library, name, call)

    def _watch_statements(self) -> None:
        with contextlib.suppress(ImportError):
            from sqlalchemy import event
            from sqlalchemy.engine import Engine

            event.listen(Engine, "before_cursor_execute", self._statement_begins)
            event.listen(Engine, "after_cursor_execute", self._statement_ended)

    def _statement_begins(self, connection: Any, *_: Any) -> None:
        connection.info["loop_watch"] = time.monotonic()

    def _statement_ended(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        took_s = time.monotonic() - connection.info.pop("loop_watch", time.monotonic())
        if took_s > SLOW_S and self._is_in_loop():
            self._note("database", " ".join(statement.split())[:200], took_s=took_s)

    # -- callbacks that take long ------------------------------------------------------------------------

    def _wrap_callbacks(self) -> None:
        theirs = asyncio.Handle._run

        def run(handle: asyncio.Handle) -> None:
            if threading.get_ident() != self._loop_thread:
                theirs(handle)
                return
            self._stack = []
            self._sleeps = {}
            self._began, cpu = time.monotonic(), time.thread_time()
            try:
                theirs(handle)
            finally:
                took_s, cpu_s = time.monotonic() - self._began, time.thread_time() - cpu
                self._began = 0.0
                if took_s > SLOW_S:
                    told = {"took_s": took_s, "cpu_s": cpu_s, "sleeps": list(self._sleeps.values())}
                    self._note("slow", f"{handle!r}"[:300], self._stack, **told)

        asyncio.Handle._run = run  # type: ignore[method-assign, assignment]

    def _look(self) -> None:
        """In a thread: where the loop is while one callback goes on and on."""
        pause = threading.Event()
        last = (0.0, 0.0, "")
        while not pause.wait(LOOK_EVERY_S):
            began = self._began
            now = (began, time.monotonic(), _sleep_of(self._status) if began else "")
            if began and now[2] and (began, now[2]) == (last[0], last[2]):
                self._sleeps_on(now[2], now[1] - last[1])
            last = now
            if began and time.monotonic() - began > SLOW_S and not self._stack:
                self._stack = _stack(sys._current_frames().get(self._loop_thread))

    def _sleeps_on(self, sleep: str, seconds: float) -> None:
        """One of its sleeps went on for so long; the stack is that of a thread which sleeps still."""
        sleeps = self._sleeps
        if sleep not in sleeps:
            stack = _stack(sys._current_frames().get(self._loop_thread))
            if _sleep_of(self._status) != sleep:
                return
            sleeps[sleep] = {"seconds": 0.0, "is_disk": sleep.startswith("D"), "stack": stack}
        sleeps[sleep]["seconds"] += seconds

    # -- what it says ------------------------------------------------------------------------------------

    def _note(self, kind: str, what: str, stack: list[str] | None = None, **told: Any) -> None:
        if not self._is_on():
            return
        self._is_noting = True
        try:
            note = {"kind": kind, "what": what, "stack": stack or _stack(sys._getframe(1)), **told}
            os.write(self._descriptor, f"{json.dumps(note)}\n".encode())
        finally:
            self._is_noting = False


def _sleep_of(status: str) -> str:
    """Which sleep a thread is in, by proc_pid_status(5), the same text as long as it lasts; ``""`` = it is awake."""
    with open(status) as file:  # noqa: PTH123  a hundred times a second
        told = dict(line.split(":\t", 1) for line in file if line.startswith(("State", "voluntary")))
    return told["State"][0] + told["voluntary_ctxt_switches"] if told["State"][0] in "SD" else ""


def _is_numeric(host: object) -> bool:
    """True for an address of digits, and for none at all."""
    if not host or not isinstance(host, str | bytes):
        return True
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


def _stack(frame: Any) -> list[str]:
    """The places in a stack, the innermost last; without the texts of the lines, which would be read from files."""
    places = [(found.f_code, line) for found, line in traceback.walk_stack(frame)][:STACK]
    return [f"{code.co_filename}:{line} {code.co_name}" for code, line in reversed(places)]


# -- for the tests -------------------------------------------------------------------------------------


def put_into(extra_config: Path, file: Path, homes: Sequence[str]) -> None:
    """Have a hub watch its own loop, by one more file of its ``extra_config``; only what it does while it serves."""
    text = Path(__file__).read_text()
    start = "\n".join(
        [
            "from portal.hub.app import PortalHub as _Hub",
            "_is_serving = lambda: hasattr(_Hub.instance(), 'context') and _Hub.instance().context.serving.is_set()",
            f"LoopWatch({str(file)!r}, {list(homes)!r}, _is_serving).install()",
        ]
    )
    (extra_config / "loop_watch.py").write_text(f"{text}\n{start}\n")


def read(file: Path) -> list[dict[str, Any]]:
    """What was noticed so far."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def waits(note: dict[str, Any]) -> bool:
    """True for what waits for the outside, and not for the processor of a busy machine."""
    sleeps = note.get("sleeps", [])
    if sum(sleep["seconds"] for sleep in sleeps if not _is_for_this_machine(sleep)) > SLOW_S:
        return True
    if any(sleep["seconds"] > LONG_S for sleep in sleeps):
        return True
    if note["kind"] in ("slow", "database"):
        return bool(note["took_s"] - note.get("cpu_s", 0) > LONG_S)
    return True


def _is_for_this_machine(sleep: Sleep) -> bool:
    """True for a sleep that a busy machine alone makes long: its disk's, or that of who needs another's turn."""
    return sleep["is_disk"] or _starts_a_child(sleep["stack"]) or _commits(sleep["stack"])


def _starts_a_child(stack: Sequence[str]) -> bool:
    """True for who sleeps until a child process, or a thread, is given the processor for the first time."""
    child = re.compile(r"/(subprocess\.py:\d+ _execute_child|threading\.py:\d+ start)$")
    return any(child.search(place) for place in stack[-3:])  # a thread's start waits two places further in


def _commits(stack: Sequence[str]) -> bool:
    """True for a transaction's end, which JupyterHub waits for: until the disk has what others write to it, too."""
    return any(place.endswith(" do_commit") for place in stack[-1:])


def shown(notes: Sequence[dict[str, Any]]) -> str:
    """Notes as a person reads them: what, how long, and where."""
    return "\n".join(_shown(note) for note in notes)


def _shown(note: dict[str, Any]) -> str:
    seconds = "".join(f" {name} {note[name]:.3f}" for name in ("took_s", "cpu_s") if name in note)
    lines = [f"{note['kind']}:{seconds} {note['what']}", *note["stack"]]
    for sleep in note.get("sleeps", []):
        lines += [f"asleep {sleep['seconds']:.3f} s{', disk' if sleep['is_disk'] else ''}:", *sleep["stack"][-6:]]
    return "\n    ".join(lines)
