"""The proxy's process, which outlives the hub: how it is to be started, which one runs, and its end.

Standard library alone: this file is also a program of its own, which becomes the proxy of the state folder it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = b"configurable-http-proxy"
FOLDER = "proxy"  # below portal.state_folder
PLAN_FILE = "plan.json"
RUNNING_FILE = "running.json"
LOG_FILE = "proxy.log"
LOG_MAX_BYTES = 20 * 2**20
PID_FILE = "proxy.pid"  # below portal.state_folder: where JupyterHub and every version of the portal look for it
TOKEN_VARIABLE = "CONFIGPROXY_AUTH_TOKEN"  # noqa: S105  the name of a variable
END_WITHIN_S = 5.0
STEP_S = 0.02
StartedProxy = subprocess.Popen[bytes]
WAIT_STEP_S = 0.2


@dataclass(frozen=True)
class ProxyPlan:
    """How the proxy is to be started.

    Attributes:
        argv: its command line, without any secret.
        environment: what it needs beside the environment of who starts it; the token is in there.
        umask: which rights a socket of it in the file system does not have.
        parts: what would make it another proxy, by the name that people know it by.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    umask: int
    parts: dict[str, str]

    @property
    def can_start(self) -> bool:
        """False when the version of the portal that made it was removed."""
        return all(Path(word).exists() for word in self.argv[:2] if Path(word).is_absolute())


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that was started, with the parts of its plan.

    ``began`` tells it from a later process of its number, ``place`` the state folder from a copy of it.
    """

    pid: int
    began: str
    place: str
    parts: dict[str, str]

    @property
    def lives(self) -> bool:
        """Whether this very process is there."""
        return bool(self.began) and began(self.pid) == self.began


def absent(command: Sequence[str]) -> str:
    """What to do where the proxy's own program is not there, as after `pip install`; ``""`` where it is."""
    script = next((Path(word) for word in command[1:] if not word.startswith("-")), Path())
    if not script.is_absolute() or script.exists():
        return ""
    folder = Path(sys.prefix, "share", "dsportal", "proxy")
    return (
        f"The proxy is not installed: {script} is not there. It comes from npm, not from PyPI; its lock file is here. "
        f"Run: NODE_DISABLE_COMPILE_CACHE=1 {sys.prefix}/bin/npm ci --prefix {folder} --ignore-scripts "
        "(in a checkout: make setup)"
    )


def began(pid: int) -> str:
    """The moment at which a process started (proc(5), field 22); '' when it has ended, with all its threads.

    One that is killed is a zombie at once, while another of its threads closes what it has open.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    is_over = fields[0] in "ZX" and int(fields[17]) <= 1
    return "" if is_over else fields[19]


def age_s(process_began: str) -> float:
    """How many seconds ago a process started, by its moment (:func:`began`)."""
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    return up_s - int(process_began) / os.sysconf("SC_CLK_TCK")


def plan_of(state: Path) -> ProxyPlan | None:
    """The plan in a state folder; ``None`` when no hub has made one yet."""
    try:
        found = json.loads((state / FOLDER / PLAN_FILE).read_text())
        return ProxyPlan(tuple(found["argv"]), found["environment"], found["umask"], found["parts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_plan(state: Path, plan: ProxyPlan) -> None:
    """Leave it for who starts the proxy; nobody else can read it."""
    write(state / FOLDER / PLAN_FILE, json.dumps(asdict(plan), indent=1))


def running_in(state: Path) -> RunningProxy | None:
    """The proxy of this state folder that lives; one of a version before has no parts."""
    place = str(state.resolve())
    noted = None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((state / FOLDER / RUNNING_FILE).read_text())
        noted = RunningProxy(int(found["pid"]), str(found["began"]), str(found["place"]), dict(found["parts"]))
    if noted and noted.lives:
        return noted if noted.place == place else None
    with contextlib.suppress(OSError, ValueError):
        pid = int((state / PID_FILE).read_text())
        process = Path("/proc", str(pid))
        is_ours = process.stat().st_uid == (state / PID_FILE).stat().st_uid
        if is_ours and PROGRAM in (process / "cmdline").read_bytes() and not (noted and noted.pid == pid):
            return RunningProxy(pid, began(pid), place, {})
    return None


def note(state: Path, running: RunningProxy) -> None:
    """Leave which process the proxy is, for the next start of a hub."""
    write(state / FOLDER / RUNNING_FILE, json.dumps(asdict(running), indent=1))
    write(state / PID_FILE, str(running.pid))


def start_apart(state: Path) -> StartedProxy:
    """Start the proxy as the plan says, so that it outlives this process; its words go to a log of its own."""
    log = state / FOLDER / LOG_FILE
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_MAX_BYTES:
            log.replace(log.with_suffix(".log.1"))
    argv = [sys.executable, "-IS", __file__, str(state)]
    with log.open("ab") as stream:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd="/", start_new_session=True
        )


def become(state: Path, say: Callable[[str], None]) -> None:
    """Become the proxy, as soon as there is a plan for it and no other one lives."""
    plan = _wait_for_plan(state, say)
    note(state, RunningProxy(os.getpid(), began(os.getpid()), str(state.resolve()), plan.parts))
    sys.stdout.flush()
    os.umask(plan.umask)
    os.execvpe(plan.argv[0], plan.argv, {**os.environ, **plan.environment})  # noqa: S606


def _wait_for_plan(state: Path, say: Callable[[str], None]) -> ProxyPlan:
    said = ""
    while True:
        plan = plan_of(state)
        running = running_in(state)
        if plan and plan.can_start and not running:
            return plan
        words = f"process {running.pid} is the proxy already" if running else "no portal has started here yet"
        if words != said:
            say(f"waits: {words}")
            said = words
        time.sleep(WAIT_STEP_S)


def end(pid: int, within_s: float = END_WITHIN_S) -> None:
    """End a process; it is killed when it does not go."""
    ours = began(pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + within_s
        if ours and began(pid) == ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while ours and began(pid) == ours and time.monotonic() < deadline:
            time.sleep(STEP_S)


def write(file: Path, text: str) -> None:
    """A file that is whole or not there at all, for the owner's eyes."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.replace(file)


if __name__ == "__main__":
    become(Path(sys.argv[1]), lambda words: print(f"portal proxy: {words}", flush=True))
