"""PID 1 of the private namespaces: builds the root, starts the cluster, waits, and ends everything in order.

What the supervisor outside should show goes to standard output, one JSON object a line: ``stage`` and ``seconds``,
``failed``, or ``ready``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import NoReturn

from deploy import run_module
from deploy.demo import cluster_files, port_forward, portal_service, rootfs, services
from deploy.demo.console import DemoError
from deploy.demo.start_plan import Plan

HUB_PORT = 8000
JOBS_END_S = 3.0  # jobs that take longer to end are ended with the namespaces


class Stop(Exception):
    """The supervisor asks for the end."""


def report(**fields: object) -> None:
    """Send one line to the supervisor."""
    os.write(1, json.dumps(fields).encode() + b"\n")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time one stage and report it."""
    started = time.monotonic()
    yield
    report(stage=name, seconds=round(time.monotonic() - started, 2))


def start_network() -> None:
    """A network of our own with nothing but the loopback.

    The second address is for glibc: with 127.0.0.1 alone, AI_ADDRCONFIG makes Slurm's look-ups fail.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", "10.201.0.1/32", "dev", "lo"], check=True)
    socket.sethostname("demo")


def start_people() -> None:
    """The directory, and its people as UNIX users."""
    with stage("LDAP with StartTLS, and its people as UNIX users"):
        cluster_files.fill_directory()
        services.up("slapd1", "slapd2")
        services.up("nslcd")
        rootfs.make_homes()


def start_accounting() -> None:
    """munge, MariaDB and slurmdbd."""
    with stage("MariaDB and Slurm's accounting"):
        cluster_files.fill_database()
        services.up("munged", "mariadbd")
        cluster_files.fill_accounts()
        services.up("slurmdbd")


def start_cluster() -> None:
    """Everything but the hub."""
    with ThreadPoolExecutor() as pool:
        for lane in [pool.submit(start_people), pool.submit(start_accounting)]:
            lane.result()
    with stage("Slurm: the controller and the nodes gpu01 to gpu04"):
        services.up("slurmctld")
        services.up(*(f"slurmd-{node}" for node in services.NODES))


def start_portal() -> None:
    """The kernels of the site's modules, and the hub."""
    with stage("kernels out of the module tree"):
        note = portal_service.sync_kernels()
    if note:
        report(note=note)
    with stage("the portal"):
        portal_service.start()


def start_forwarder(listening: socket.socket, port: int) -> None:
    """Fork the process that serves the host's port: this program goes on as nobody in it."""
    if os.fork() == 0:
        os.closerange(0, listening.fileno())
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asyncio.run(port_forward.serve(listening, port))
    listening.close()


def run(plan: Plan, listening: socket.socket | None) -> None:
    """Start everything and wait for the end. Raises ``DemoError`` when something does not start."""
    with stage("the private root file system"):
        if not plan.is_built:
            rootfs.build(plan)
            if plan.is_whole:
                go_on(plan, listening)
        start_network()
        cluster_files.write_etc(plan)
    start_cluster()
    if listening:
        start_portal()
        start_forwarder(listening, HUB_PORT)
    report(ready=True)
    wait()


def go_on(plan: Plan, listening: socket.socket | None) -> NoReturn:
    """Become the same program in the new root's Python: this one's modules are not in the new root."""
    handed = [str(listening.fileno())] if listening else []
    argv = [*run_module.command("deploy.demo.init_process"), replace(plan, is_built=True).dumps(), *handed]
    os.execv(argv[0], argv)  # noqa: S606


def wait() -> None:
    """Reap every process that ends; note the daemons among them in the log."""
    names = {services.pid_of(service): service.name for service in services.SERVICES.values()}
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid in names:
            with (services.LOGS / "demo.log").open("a") as log:
                log.write(f"{time.strftime('%FT%T')} {names[pid]} (process {pid}) ended with status {status}\n")


def stop() -> None:
    """End the jobs, then the daemons in the order in which they need each other."""
    deadline = time.monotonic() + JOBS_END_S
    while jobs := queued():
        subprocess.run(["scancel", "--quiet", *jobs], capture_output=True, check=False, timeout=5)
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    nodes = [f"slurmd-{node}" for node in services.NODES]
    for names in (["hub"], ["slurmctld"], nodes, ["slurmdbd"], ["mariadbd", "slapd1", "slapd2"]):
        services.stop_all([services.SERVICES[name] for name in names if name in services.SERVICES])


def queued() -> list[str]:
    """Every job that has not ended; none when Slurm does not answer."""
    command = ["squeue", "--noheader", "--format", "%A"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=5).stdout.split()


def on_term(number: int, frame: FrameType | None) -> None:
    """TERM ends the demo."""
    raise Stop


def safely(what: Callable[[], None]) -> None:
    """Do a step of the end; what fails there does not matter any more, the kernel ends the rest."""
    try:
        what()
    except (subprocess.SubprocessError, OSError) as error:
        print(f"at the end: {error}", file=sys.stderr)


def main() -> int:
    """``init_process PLAN [SOCKET]``."""
    os.umask(0o022)
    signal.signal(signal.SIGTERM, on_term)
    cluster_files.read_templates()
    plan = Plan.loads(sys.argv[1])
    listening = socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None
    try:
        run(plan, listening)
    except Stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        safely(stop)
        return 0
    except (DemoError, subprocess.CalledProcessError, OSError) as error:
        report(failed=f"{error}{setup_log(error)}")
    return 1


def setup_log(error: Exception) -> str:
    """Where a short program of the preparation said what it could not do."""
    is_setup = isinstance(error, subprocess.CalledProcessError) and (services.LOGS / "setup.log").exists()
    return "\n" + services.tail(services.LOGS / "setup.log") if is_setup else ""


if __name__ == "__main__":
    sys.exit(main())
