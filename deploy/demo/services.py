"""The cluster's daemons: how each is started, when it is ready, and where its output goes."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.console import DemoError

LOGS = Path("/cluster/logs")
PIDS = Path("/run/demo")
NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
WAIT_S = 120.0  # a daemon that is not ready by then never will be, even on a busy machine
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Service:
    """One daemon in the foreground: its argv, the account it starts as, and how one sees that it answers."""

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool]
    user: str = "root"
    keeps_log: bool = False  # it writes its log itself; what it prints is the same without times

    @property
    def output(self) -> Path:
        """Where what it prints goes."""
        return LOGS / f"{self.name}.{'out' if self.keeps_log else 'log'}"


class ServiceFailed(DemoError):
    """A daemon ended, or never answered. The message names it and ends with the end of its log."""

    def __init__(self, service: Service, what: str) -> None:
        super().__init__(f"{service.name} {what}.\n{tail(service.output)}")
        self.service = service


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log, indented, with the name of the file (as the host sees it: below the state folder)."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    lines_shown = "\n".join(f"    {line}" for line in text[-lines:]) or "    (empty)"
    return f"  The end of {str(log).removeprefix('/')}:\n{lines_shown}"


def answers(command: list[str], expect: str = "") -> bool:
    """Whether a command succeeds, with ``expect`` in what it prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and expect in done.stdout


def listens(port: int) -> bool:
    """Whether something accepts connections on a local port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def knows_people() -> bool:
    """Whether the directory's people are UNIX users (a new process asks: this one keeps the old root's rules)."""
    return answers(["getent", "passwd", "alice"], "/home/alice")


def nodes_answer(name: str) -> Callable[[], bool]:
    """Whether slurmctld has heard from a node since it started."""

    def check() -> bool:
        command = ["sinfo", "--noheader", "--Node", "--nodes", name, "--format", "%N %T"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        states = [line.split()[1] for line in done.stdout.splitlines()]
        return bool(states) and not any("*" in state or state in ("unknown", "down") for state in states)

    return check


def slapd(name: str, port: int) -> Service:
    """One of the two LDAP servers."""
    addresses = f"ldap://127.0.0.1:{port}/ ldapi://%2Frun%2Fslapd%2F{name}/"
    argv = (
        "slapd",
        "-d",
        "none",
        "-h",
        addresses,
        "-u",
        "openldap",
        "-g",
        "openldap",
        "-f",
        f"/cluster/etc/{name}.conf",
    )
    return Service(name, argv, lambda: listens(port))


def slurmd(node: str) -> Service:
    """One node."""
    return Service(f"slurmd-{node}", ("slurmd", "-D", "-N", node), nodes_answer(node), keeps_log=True)


DAEMONS = (
    slapd("slapd1", 3890),
    slapd("slapd2", 3891),
    Service("nslcd", ("nslcd", "-n"), knows_people),
    Service(
        "munged", ("munged", "-F", "--key-file=/cluster/munge/munge.key"), lambda: answers(["munge", "-n"]), "munge"
    ),
    Service(
        "mariadbd",
        ("mariadbd", "--defaults-file=/cluster/etc/my.cnf"),
        lambda: answers(["mariadb", "--no-defaults", "-e", "select 1"]),
        "mysql",
    ),
    Service("slurmdbd", ("slurmdbd", "-D"), lambda: listens(6819), "slurm", keeps_log=True),
    Service("slurmctld", ("slurmctld", "-D"), lambda: answers(["scontrol", "ping"], "UP"), "slurm", keeps_log=True),
    *(slurmd(node) for node in NODES),
)
SERVICES = {service.name: service for service in DAEMONS}


def start(service: Service) -> subprocess.Popen[bytes]:
    """Start a daemon; its output goes to its log."""
    account = pwd.getpwnam(service.user)
    environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": account.pw_dir}
    with service.output.open("wb" if service.keeps_log else "ab") as log:
        process = subprocess.Popen(
            service.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd="/",
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            start_new_session=True,
        )
    (PIDS / f"{service.name}.pid").write_text(str(process.pid))
    return process


def wait_ready(service: Service, process: subprocess.Popen[bytes]) -> None:
    """Wait until a daemon answers. Raises ``ServiceFailed`` when it ends or stays silent."""
    deadline = time.monotonic() + WAIT_S
    while not service.is_ready():
        if process.poll() is not None:
            raise ServiceFailed(service, f"ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise ServiceFailed(service, f"does not answer after {WAIT_S:.0f} s")
        time.sleep(0.02)


def up(*names: str) -> None:
    """Start daemons side by side and wait until all are ready."""
    started = [(SERVICES[name], start(SERVICES[name])) for name in names]
    for service, process in started:
        wait_ready(service, process)


def pid_of(service: Service) -> int | None:
    """The process of a daemon that runs. One that ended and waits for its parent (a zombie) does not run."""
    try:
        pid = int((PIDS / f"{service.name}.pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return None if state == "Z" else pid


def stop_all(some: list[Service], within_s: float = 5.0) -> None:
    """End daemons side by side: TERM, and KILL for those that have not gone ``within_s`` later."""
    for number, patience_s in ((signal.SIGTERM, within_s), (signal.SIGKILL, 2.0)):
        for pid in [pid for pid in map(pid_of, some) if pid]:
            os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while any(map(pid_of, some)) and time.monotonic() < deadline:
            time.sleep(0.02)
