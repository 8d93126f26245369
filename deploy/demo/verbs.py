"""The command line of the demo: ``deploy/demo/demo VERB``; ``demo VERB --help`` explains each verb.

Nothing is installed and nothing outside the state folder changes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deploy import run_module
from deploy.demo import (
    background,
    debs,
    enter_namespaces,
    enter_system,
    host_port,
    releases,
    requirements,
    resolve_debs,
    state_folder,
    supervisor,
)
from deploy.demo.console import CannotRun, DemoError, guarded, say
from deploy.demo.parent_death import signal_at_parents_end
from deploy.demo.state_folder import CHECKOUT, Run, State

EPILOG = """environment: PORT, BIND, DOMAIN, DSPORTAL_DEMO (the state folder), DSPORTAL_VENV (the portal's environment),
DSPORTAL_DEB_CACHE (a folder looked into before a package is downloaded)"""


def parser() -> argparse.ArgumentParser:
    """Every verb and option."""
    top = argparse.ArgumentParser(prog="demo", description="The private demo cluster.", epilog=EPILOG)
    top.add_argument("--state", help="the state folder (default: .demo of the checkout)")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, words in {"run": "start and stay until Ctrl-C", "up": "start in the background"}.items():
        add_start(verb(verbs, name, words))
    add_start(verb(verbs, "check", "is the port free? before anything is fetched"))
    fetching = verb(verbs, "fetch", "download and unpack, start nothing")
    add_groups(fetching)
    verb(verbs, "down", "end it")
    verb(verbs, "status", "does it run? status 0 when it does, 3 when not")
    cleaning = verb(verbs, "clean", "take the state folder away")
    cleaning.add_argument(
        "--live", action="store_true", help="only the cluster's state: people's files, jobs, accounts"
    )
    add_debian(verb(verbs, "lock", "maintainers: make the lock of a release's packages anew"))
    system = verb(verbs, "system", "run a command on the system of --debian, without a cluster: it builds environments")
    add_groups(system)
    system.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND…")
    shell = verb(verbs, "shell", "a login shell inside")
    shell.add_argument("--user", default="alice")
    shell.add_argument("--root", action="store_true", help="as the namespaces' root")
    run = verb(verbs, "exec", "run a command inside; its exit status is passed on")
    run.add_argument("--user", default="root")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND…")
    service = verb(verbs, "service", "stop, start or restart one daemon")
    service.add_argument("action", choices=["stop", "start", "restart", "status"])
    service.add_argument("name", help="for example slurmctld, slurmd-gpu01, slapd1, hub")
    return top


def verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str) -> argparse.ArgumentParser:
    """A verb that also takes --state after its name."""
    added = verbs.add_parser(name, help=words, description=words)
    added.add_argument("--state", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return added


def add_groups(to: argparse.ArgumentParser) -> None:
    """The options of what is unpacked."""
    to.add_argument("--variant", choices=["auto", "root", "rootless"], default="auto", help="auto = root when root")
    add_debian(to)
    groups = [group for group in debs.GROUPS if group not in ("cluster", releases.BASE)]
    to.add_argument("--with", dest="groups", action="append", choices=groups, default=[], help="also this group")


def add_debian(to: argparse.ArgumentParser) -> None:
    """The option of the release."""
    words = "the Debian that the cluster is made of (default: this machine's); Debian 13 starts whole on Debian 12 too"
    to.add_argument(
        "--debian", choices=releases.RELEASES, default=releases.of_host(requirements.debian_of_host()), help=words
    )


def add_start(to: argparse.ArgumentParser) -> None:
    """The options of a start."""
    add_groups(to)
    to.add_argument("--port", type=port, default=os.environ.get("PORT") or "8000")
    to.add_argument("--bind", default=os.environ.get("BIND") or "127.0.0.1")
    words = "each session at NAME.DOMAIN, or 'none'; by default localhost where only this computer can come, else none"
    to.add_argument("--domain", type=domain, default=os.environ.get("DOMAIN"), help=words)
    to.add_argument("--no-hub", action="store_true", help="the cluster only")
    to.add_argument("--local", action="store_true", help="no cluster: sessions are processes of yours")


def port(text: str) -> int:
    """A TCP port."""
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)


def domain(text: str) -> str:
    """The portal's own name, with a port where another one is seen outside; '' for none."""
    if text in ("", "none"):
        return ""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?", text) or re.fullmatch(r"[0-9.:]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a domain: a name such as gpubox.example.org, or none")
    return text


def variant_of(arguments: argparse.Namespace) -> str:
    """The variant to run."""
    auto = "root" if os.geteuid() == 0 else "rootless"
    return auto if arguments.variant == "auto" else str(arguments.variant)


def options_of(arguments: argparse.Namespace) -> supervisor.Options:
    """The chosen options of a start."""
    groups = ("cluster", *dict.fromkeys(arguments.groups))
    return supervisor.Options(
        variant_of(arguments),
        arguments.port,
        arguments.bind,
        not arguments.no_hub,
        groups,
        arguments.domain,
        arguments.debian,
    )


def start(state: State, arguments: argparse.Namespace) -> int:
    """`run` and `up`: the cluster, or the local mode where there can be none."""
    options = options_of(arguments)
    if arguments.local:
        return local(state, arguments)
    reason = requirements.reason(requirements.gather(options.variant), options.variant, options.debian)
    if reason:
        say(f"No private cluster: {reason}.")
        if arguments.no_hub:
            raise CannotRun("--no-hub asks for the cluster alone")
        say("The portal starts in its local mode instead: sessions are processes of yours, without Slurm and LDAP.")
        return local(state, arguments)
    say(f"The Data Scientist Portal's demo, in {state.folder}")
    if arguments.verb == "up":
        return background.up(state, options)
    signal_at_parents_end(signal.SIGTERM)  # a demo in the foreground ends, in order, with the make or shell above it
    return supervisor.supervise(state, options, lambda: None)


def check(state: State, arguments: argparse.Namespace) -> int:
    """Refuse a port that is taken: before a start has downloaded anything."""
    if not state.is_taken():
        host_port.listen(arguments.bind, arguments.port).close()
    return 0


def local(state: State, arguments: argparse.Namespace) -> int:
    """Become the portal in its local mode, with the kernels of the demo's environments where they were built."""
    venv = os.environ.get("DSPORTAL_VENV") or str(CHECKOUT / ".venv")
    portal = f"{venv}/bin/portal"
    if not Path(portal).exists():
        raise DemoError(f"{portal} is missing: run 'make setup' first")
    state.make()
    folder = state.folder / "local"
    (folder / "files").mkdir(parents=True, exist_ok=True)
    site = folder / "site.toml"
    template = Path(__file__).with_name("local.toml").read_text()
    site.write_text(template.replace("@STATE@", str(state.folder)))
    subprocess.run([portal, "kernels", "sync", "--site", str(site)], check=False)
    sys.stdout.flush()
    options = [
        "--site",
        str(site),
        "--state",
        str(folder / "hub"),
        "--files",
        str(folder / "files"),
        "--port",
        str(arguments.port),
    ]
    os.execv(portal, [portal, "up", "--local", *options])  # noqa: S606


def running(state: State) -> Run:
    """The demo that runs. Raises ``DemoError`` when none does."""
    run = state.running()
    if run is None:
        raise DemoError(f"no demo runs in {state.folder}: make demo-up starts one")
    return run


def enter(state: State, arguments: list[str]) -> int:
    """Become a command inside."""
    run = running(state)
    os.environ["DSPORTAL_CLUSTER"] = run.variant
    command = enter_namespaces.command(run, arguments)
    if arguments[0] != "root":
        command = enter_namespaces.on_no_terminal_of_ours(command)
    os.execvp(command[0], command)  # noqa: S606


def shell(state: State, arguments: argparse.Namespace) -> int:
    """A login shell, on a terminal of the inside when there is one outside."""
    start = ["script", "-qec", "exec bash -l", "/dev/null"] if sys.stdin.isatty() else ["bash", "-l"]
    return enter(state, ["root" if arguments.root else arguments.user, "", *start])


def execute(state: State, arguments: argparse.Namespace) -> int:
    """One command, from the folder that one is in."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise DemoError("what should run? demo exec [--user NAME] -- COMMAND…")
    return enter(state, [arguments.user, str(Path.cwd()), *command])


def service(state: State, arguments: argparse.Namespace) -> int:
    """One daemon."""
    command = run_module.command("deploy.demo.service_control")
    return enter(state, ["root", "/", *command, arguments.action, arguments.name])


def status(state: State, arguments: argparse.Namespace) -> int:
    """Whether a demo runs, and how."""
    run = state.running()
    if run is None:
        say(f"No demo runs in {state.folder}.")
        return 3
    where = f"http://localhost:{run.port}" if run.port else "without the portal"
    say(f"The demo runs: {where}; {run.variant}; process {run.supervisor_pid}; state in {state.folder}")
    return 0


def fetch(state: State, arguments: argparse.Namespace) -> int:
    """`fetch`: everything that a start would download and unpack."""
    state.make()
    supervisor.prepare(state, without_hub(arguments))
    return 0


def without_hub(arguments: argparse.Namespace) -> supervisor.Options:
    """The options of what starts no hub."""
    return options_of(argparse.Namespace(**vars(arguments), port=0, bind="", no_hub=True, domain=None))


def system(state: State, arguments: argparse.Namespace) -> int:
    """`system`."""
    options = without_hub(arguments)
    if not arguments.command[1:]:
        raise DemoError("what should run? demo system --debian 13 -- COMMAND…")
    if options.debian == requirements.debian_of_host():
        raise DemoError(f"this machine is a Debian {options.debian} itself: run the command as it is")
    state.make()
    supervisor.prepare(state, options)
    command = arguments.command[1:] if arguments.command[0] == "--" else arguments.command
    return enter_system.run(supervisor.plan_for(state, options), command)


def relock(state: State, arguments: argparse.Namespace) -> int:
    """`lock`."""
    state.make()
    is_host = arguments.debian == requirements.debian_of_host()
    resolve_debs.write_lock(state.folder / "apt", releases.RELEASES[arguments.debian], is_host)
    return 0


VERBS: dict[str, Callable[[State, argparse.Namespace], int]] = {
    "run": start,
    "up": start,
    "fetch": fetch,
    "down": lambda state, arguments: background.down(state),
    "check": check,
    "status": status,
    "clean": lambda state, arguments: background.clean(state, arguments.live),
    "lock": relock,
    "system": system,
    "shell": shell,
    "exec": execute,
    "service": service,
}


def main(arguments: list[str]) -> int:
    """Run one verb."""
    chosen = parser().parse_args(arguments)
    os.umask(0o022)
    os.environ["PATH"] = requirements.search_path()
    return guarded(lambda: VERBS[chosen.verb](state_folder.chosen(chosen.state), chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
