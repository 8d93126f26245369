"""The supervisor: the one process outside that starts the namespaces, shows how far they are, and ends them.

It dies with everything: a ``kill -9`` of the supervisor kills unshare (PDEATHSIG), which kills PID 1 (--kill-child),
which takes every process of the namespaces along.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from deploy import run_module
from deploy.demo import cgroups, debs, fetch_debs, host_port, ready_message, releases, requirements, unpack_debs
from deploy.demo.console import DemoError, say, stage
from deploy.demo.requirements import ROOT_UNSHARE, ROOTLESS_UNSHARE
from deploy.demo.start_plan import Plan
from deploy.demo.state_folder import CHECKOUT, Run, State

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_S = 20.0  # how long the orderly end may take


@dataclass(frozen=True)
class Options:
    """What a person chose."""

    variant: str
    port: int
    bind: str
    hub: bool
    groups: tuple[str, ...]
    domain: str | None = None  # None = "localhost" where only this computer can come, else none
    debian: str = releases.OLDEST.version  # the release that the cluster is made of

    @property
    def portal_domain(self) -> str:
        """The portal's own name and its port in browsers: each session is at NAME.domain; '' = all at one address."""
        name = self.domain
        if name is None:
            name = "localhost" if host_port.is_loopback(self.bind) else ""
        return f"{name}:{self.port}" if name and ":" not in name else name

    @property
    def address(self) -> str:
        """What to type into a browser; '' without a hub."""
        if not self.hub:
            return ""
        if self.portal_domain:
            return f"http://{self.portal_domain}"
        wildcards = ("0.0.0.0", "::")  # noqa: S104  compared with, not bound to
        host = socket.gethostname() if self.bind in wildcards else self.bind
        return f"http://{'localhost' if host.startswith('127.') else host}:{self.port}"


class Ended(Exception):
    """A signal asked for the end."""


def user_namespace(variant: str) -> list[str]:
    """What runs a command as namespace root: nothing for root, an own user namespace otherwise."""
    return [] if variant == "root" else ["unshare", "--user", "--map-root-user", "--map-auto", "--"]


def groups_of(options: Options) -> tuple[str, ...]:
    """The groups of packages, with the system itself where the host is of another release."""
    return releases.groups(releases.RELEASES[options.debian], requirements.debian_of_host(), options.groups)


def prepare(state: State, options: Options) -> None:
    """Download and unpack what is missing."""
    release = releases.RELEASES[options.debian]
    is_host = requirements.debian_of_host() == release.version
    for group in groups_of(options):
        tree = state.tree(group)
        stamp = f"{options.variant} {debs.fingerprint(debs.load(group, release.lock))}"
        if not unpack_debs.is_unpacked(tree, stamp):
            files = fetch_debs.fetch(state, group, release, is_host)
            command = [*user_namespace(options.variant), *run_module.command("deploy.demo.unpack_debs")]
            if subprocess.run([*command, str(tree), stamp, *map(str, files)], check=False).returncode:
                raise DemoError("the packages were not unpacked (the line above says why); start again to repeat it")


def plan_for(state: State, options: Options) -> Plan:
    """What PID 1 gets to know."""
    names = cgroups.usable() if options.variant == "root" else ()
    return Plan(
        state=str(state.folder),
        checkout=str(CHECKOUT),
        venv=os.environ.get("DSPORTAL_VENV") or str(CHECKOUT / ".venv"),
        variant=options.variant,
        groups=groups_of(options),
        hierarchies=names,
        hub=options.hub,
        domain=options.portal_domain if options.hub else "",
    )


def launch(state: State, plan: Plan, listening: socket.socket | None) -> subprocess.Popen[bytes]:
    """Start the namespaces with PID 1 in them; its report comes through the pipe ``stdout``."""
    unshare = ROOT_UNSHARE if plan.variant == "root" else ROOTLESS_UNSHARE
    command = ["setpriv", "--pdeathsig", "KILL", *unshare, "--mount-proc", "--propagation", "private", "--"]
    init = [*run_module.command("deploy.demo.init_process"), plan.dumps()]
    handed = [listening.fileno()] if listening else []
    errors = (state.folder / "init.log").open("wb")
    with errors:
        return subprocess.Popen(
            [*command, *init, *map(str, handed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=handed,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,  # Ctrl-C on the terminal reaches the supervisor alone
            preexec_fn=lambda: cgroups.enter(state.folder, plan.hierarchies),
        )


def child_of(parent: int) -> int | None:
    """The first child of a process, as this PID namespace counts."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            return int(file.parent.name)
    return None


def follow(process: subprocess.Popen[bytes], state: State, listening: socket.socket | None) -> None:
    """Show PID 1's stages until it says that all is ready. Raises ``DemoError`` when it failed or vanished."""
    if listening:
        listening.close()  # PID 1 has it
    for line in process.stdout or ():
        message = json.loads(line)
        if "failed" in message:
            raise DemoError(f"{message['failed']}\n  All logs: {state.cluster / 'logs'}")
        if "ready" in message:
            return
        if "note" in message:
            say(f"  {message['note']}")
        else:
            stage(message["stage"], message["seconds"])
    last_lines = (state.folder / "init.log").read_text(errors="replace").strip().splitlines()[-12:]
    raise DemoError("\n".join(["the namespaces ended before the cluster was up:", *last_lines]))


def on_signal(number: int, frame: FrameType | None) -> None:
    """INT, TERM and HUP end the demo in order."""
    raise Ended


def end(process: subprocess.Popen[bytes], in_order: bool) -> None:
    """Ask PID 1 for the orderly end, if the cluster was up; the kernel ends whatever is left."""
    init = child_of(process.pid)
    if in_order and init and process.poll() is None:
        os.kill(init, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            print(f"  The cluster did not end within {STOP_S:.0f} s: it is killed.", file=sys.stderr)
    process.kill()
    process.wait()


def supervise(state: State, options: Options, ready: Callable[[], None]) -> int:
    """Bring everything up, say so, and hold it until a signal or the end of PID 1; the exit status."""
    for number in SIGNALS:
        signal.signal(number, on_signal)
    state.make()
    lock = state.lock()
    if lock is None:
        ready_message.say_running(state)
        return 0
    with lock:
        try:
            return run_cluster(state, options, ready)
        except Ended:
            return 0


def run_cluster(state: State, options: Options, ready: Callable[[], None]) -> int:
    """With the folder taken: everything of :func:`supervise`."""
    started = time.monotonic()
    listening = host_port.listen(options.bind, options.port) if options.hub else None
    state.keep_release(options.debian)
    prepare(state, options)
    cgroups.remove(state.folder)  # what a killed supervisor left
    plan = plan_for(state, options)
    is_up = False
    try:
        cgroups.make(state.folder, plan.hierarchies)
        process = launch(state, plan, listening)
        try:
            follow(process, state, listening)
            is_up = True
            state.write_run(run_of(process, options))
            ready_message.say_ready(state, plan, options.address, time.monotonic() - started)
            ready()
            process.wait()
        finally:
            ignore_signals()
            end(process, in_order=is_up)
    finally:
        state.forget_run()
        cgroups.remove(state.folder)
    print("  The cluster ended by itself.", file=sys.stderr)
    return 1


def run_of(process: subprocess.Popen[bytes], options: Options) -> Run:
    """The running demo, as the other verbs need it."""
    return Run(os.getpid(), child_of(process.pid) or 0, options.variant, options.port if options.hub else 0)


def ignore_signals() -> None:
    """The end has begun: a second Ctrl-C does not disturb it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
