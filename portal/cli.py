"""The command ``portal``: up, proxy, down, doctor, config, ldap, state, database, kernels, tools, notebooks, job, …"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from portal import __version__, data, journal
from portal.commands import (
    database_commands,
    environment_commands,
    file_commands,
    job_commands,
    kernel_commands,
    ldap_commands,
    module_commands,
    notebook_commands,
    state_commands,
    tool_commands,
)
from portal.errors import PortalError
from portal.homes.held_place import is_own_all_the_way
from portal.homes.own_folder import is_own, make_own
from portal.hub import database, state_place, variables
from portal.proxy import other_localhost, proxy_process
from portal.singleuser import quick_start
from portal.site import Site, load

DEFAULT_SITE = "/etc/dsportal/site.toml"
HUB_ENDS_WITHIN_S = 60.0  # an sbatch may be under way
BENCHES = Path("tests", "bench", "__main__.py")  # of a checkout; they are not installed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except PortalError as error:
        journal.tell(error.message)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("portal", description="Notebooks on a GPU cluster that runs Slurm.")
    parser.add_argument("--version", action="version", version=f"portal {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands)
    doctor = commands.add_parser("doctor", help="check a site: what, result, how to repair")
    doctor.add_argument("--person", default="", metavar="NAME", help="and what this person needs on this host")
    _with_site(doctor, _doctor)
    config = commands.add_parser("config", help="check the settings file").add_subparsers(required=True)
    check = config.add_parser("check", help="all faults of the file, each with what is allowed")
    check.add_argument("file", nargs="?", default=DEFAULT_SITE)
    check.set_defaults(command=_config_check)
    state_commands.add(commands, DEFAULT_SITE)
    ldap_commands.add(commands, DEFAULT_SITE)
    database_commands.add(commands, DEFAULT_SITE)
    kernel_commands.add(commands, DEFAULT_SITE)
    tool_commands.add(commands, DEFAULT_SITE)
    notebook_commands.add(commands, DEFAULT_SITE)
    job_commands.add(commands)
    environment_commands.add(commands)
    module_commands.add(commands)
    file_commands.add(commands)
    _add_bench(commands)
    return parser


def _with_site(parser: argparse.ArgumentParser, command: object) -> None:
    parser.add_argument("--site", default=DEFAULT_SITE, help="the settings file (default: %(default)s)")
    parser.set_defaults(command=command)


def _add_up(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = commands.add_parser("up", help="start the portal in the foreground")
    up.add_argument("--site", help=f"the settings file (default: {DEFAULT_SITE}; with --local: none)")
    up.add_argument("--local", action="store_true", help="sessions as processes of this machine, for yourself only")
    up.add_argument("--port", type=int, help="with --local: another port than the settings file's")
    up.add_argument("--state", help="with --local: the folder of the portal's state")
    up.add_argument("--files", help="with --local: the folder that sessions show (default: your home)")
    up.add_argument("--without-proxy", action="store_true", help="a service of its own runs portal proxy")
    up.set_defaults(command=_up)
    _with_site(commands.add_parser("proxy", help="run the proxy in the foreground (portal up --without-proxy)"), _proxy)
    _with_site(commands.add_parser("down", help="end the portal, and the proxy that outlives it"), _down)


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    words = "measure the portal beside the stock parts, in the private cluster of a checkout"
    bench = commands.add_parser("bench", help=words, add_help=False)  # what stands behind it has its own help
    bench.add_argument("-h", "--help", action="store_true")
    bench.add_argument("words", nargs=argparse.REMAINDER)
    bench.set_defaults(command=_bench)


def _up(arguments: argparse.Namespace) -> int:
    quick_start.without_grammars()
    if arguments.local:
        _prepare_local(arguments)
    else:
        os.environ[variables.SITE] = str(Path(arguments.site or DEFAULT_SITE).resolve())
        if arguments.without_proxy:
            os.environ[variables.WITHOUT_PROXY] = "1"
        site = load(os.environ[variables.SITE])
        _warn_without_https(site)
        _warn_of_loose_code(site)
        state_place.check(Path(site.portal.state_folder))
        database.check_of(site)
        _refuse_taken_ports(site)
    from portal.hub.app import PortalHub

    PortalHub.launch_instance([f"--config={data.folder('deploy') / 'jupyterhub_config.py'}"])
    return 0


def _warn_without_https(site: Site) -> None:
    if not site.portal.certificate:
        journal.tell(
            "portal: no certificate is set (portal.certificate, portal.key): passwords cross the network in clear "
            "text unless something in front of the portal does HTTPS.",
            logging.WARNING,
        )


def _warn_of_loose_code(site: Site) -> None:
    """Say at each start when somebody else than root can change what runs as people; the doctor looks at all of it."""
    from portal.doctor import host_checks

    with contextlib.suppress(OSError):
        for check in host_checks.launcher(site):
            if check.result != "ok":
                journal.tell(f"portal: {check.found}. `portal doctor` says what to do.", logging.WARNING)


def _refuse_taken_ports(site: Site) -> None:
    """Raise when somebody listens on our ports; a proxy that outlived its hub is ours: it is used, or replaced."""
    from portal.doctor import host_checks

    checks = {check.what: check for check in host_checks.ports(site)}
    hub = urlsplit(host_checks.configuration(site).JupyterHub.hub_bind_url)  # no hub of ours may be there either
    checks["portal.hub_port"] = host_checks.port("portal.hub_port", hub.hostname or "", hub.port or 0, running=())
    faults = [f"  {check.what}: {check.found}. {check.repair}" for check in checks.values() if check.result == "failed"]
    if faults:
        raise PortalError("\n".join(["The portal does not start, because it cannot listen:", *faults]))


def _proxy(arguments: argparse.Namespace) -> int:
    state = Path(load(arguments.site).portal.state_folder)
    state_place.check(state)
    proxy_process.become(state, lambda words: print(f"portal proxy: {words}", flush=True))
    return 0


def _down(arguments: argparse.Namespace) -> int:
    """End the hub first: it would start its proxy again."""
    from portal.doctor import host_checks

    site = load(arguments.site)
    state = Path(site.portal.state_folder)
    state_place.check(state)  # what a copy names are the processes of another portal
    hubs = [pid for pid in host_checks.own_processes(state) if host_checks.listens(pid, site.portal.hub_port)]
    for pid in hubs:
        proxy_process.end(pid, HUB_ENDS_WITHIN_S)
        print(f"portal: the hub has ended (process {pid})")
    if proxy := proxy_process.running_in(state):
        proxy_process.end(proxy.pid)
        print(f"portal: the proxy has ended (process {proxy.pid})")
    elif not hubs:
        print(f"portal: no portal of {state} runs")
    return 0


def _prepare_local(arguments: argparse.Namespace) -> None:
    state = Path(arguments.state or Path.home() / ".local" / "state" / "dsportal").resolve()
    _make_private(state, is_chosen=bool(arguments.state))
    database.check(state / database.FILE)
    site = load(arguments.site) if arguments.site else Site()
    from portal.doctor import host_checks

    if words := proxy_process.absent(host_checks.configuration(site).ConfigurableHTTPProxy.command):
        raise PortalError(words)  # the hub of a cluster looks itself, after `extra_config`
    port = arguments.port or site.portal.port
    other_localhost.hold(port)
    os.environ[variables.LOCAL_STATE] = str(state)
    os.environ[variables.LOCAL_PASSWORD] = secrets.token_urlsafe(9)
    if arguments.site:
        os.environ[variables.SITE] = str(Path(arguments.site).resolve())
    os.environ[variables.LOCAL_PORT] = str(port)
    if arguments.files:
        os.environ[variables.LOCAL_FILES] = str(Path(arguments.files).resolve())


def _make_private(state: Path, *, is_chosen: bool) -> None:
    """Make the local mode's state folder; of one below the home the way there is what all of the home depends on."""
    make_own(state)
    if not (is_own_all_the_way(state) if is_chosen else is_own(state)):
        raise PortalError(
            f"{state}: others could change this portal's keys and logins there. Allowed is a folder of your own, below "
            "folders that are yours or root's, into none of which others can write: take another one with --state, or "
            "close it with 'chmod go-w FOLDER'."
        )


def _config_check(arguments: argparse.Namespace) -> int:
    site = load(arguments.file)
    counts = f"{len(site.partitions)} partitions, {len(site.kernel)} kernels, {len(site.storage)} storage folders"
    print(f"{arguments.file}: in order ({counts})")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from portal.doctor import report

    return report.main(arguments.site, arguments.person)


def _bench(arguments: argparse.Namespace) -> int:
    """Become the benches of the checkout whose environment this is; what lies where it is called is not looked at."""
    places = (Path(sys.prefix), *Path(sys.prefix).parents)
    checkout = next((place for place in places if (place / BENCHES).is_file()), None)
    if checkout is None:
        raise PortalError(
            "portal bench needs a checkout of the portal, which is not here: "
            "in a checkout, after 'make setup', run .venv/bin/portal bench."
        )
    words = ["--help"] if arguments.help else arguments.words
    argv = [sys.executable, str(checkout / "deploy" / "run_module.py"), "tests.bench", *words]
    sys.stdout.flush()
    os.execv(sys.executable, argv)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
