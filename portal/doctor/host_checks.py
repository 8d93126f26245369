"""Checks of the host that the portal runs on: who it is, whose its code is, sudo, proxy, ports and folders."""

from __future__ import annotations

import contextlib
import errno
import functools
import getpass
import importlib.metadata
import os
import re
import socket
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from traitlets.config import Config

import portal
from portal.catalogue import specs
from portal.doctor.check import Check
from portal.homes.on_the_way import on_the_way, without_number
from portal.hub import state_place
from portal.hub.config import addresses
from portal.site import Site
from portal.slurm.runner import Result, Runner
from portal.slurm.submission import EXTENDER

PACKAGES = ("site-packages", "dist-packages")  # of a Python itself: an environment has its own alone
_PORT_REPAIRS = {
    errno.EADDRINUSE: "`ss -ltnp 'sport = :{number}'` shows who has it. Stop that, or set {key} to another port.",
    errno.EACCES: "systemd can give this right (AmbientCapabilities=CAP_NET_BIND_SERVICE); a shell does not have it.",
}


def installation(site: Site) -> list[Check]:
    """The code that runs is the distribution that is installed, and it does not run as root."""
    file = Path(portal.__file__).resolve()
    account = Check("account", "ok", getpass.getuser())
    if os.geteuid() == 0:
        repair = "Run it as the hub's own account: root may do more than the hub, which hides faults."
        account = Check("account", "warning", "running as root", repair)
    installed = importlib.metadata.distribution("dsportal")
    if file in (Path(str(installed.locate_file(name))).resolve() for name in installed.files or ()):
        return [account, Check("portal", "ok", f"dsportal {installed.version} in {sys.prefix}")]
    repair = "Sessions use the installed one. Leave PYTHONPATH empty, or run `make setup` to install this one."
    return [account, Check("portal", "warning", f"{file} is not the installed dsportal", repair)]


def launcher(site: Site) -> list[Check]:
    """The one program that sudo starts as a person: whoever can change it can act as that person."""
    program = Path(site.portal.launcher)
    module = program.parent.parent.glob("lib/python3*/site-packages/portal/launcher.py")
    loose = loose_on_the_way(program, *module, *python_of(program.resolve().parent.parent))
    if not os.access(program, os.X_OK):
        return [Check("launcher", "failed", f"{program} is not executable", f"chmod 755 {program}")]
    if loose:
        repair = "Let root own these and nobody else write them (chown -h root: …; chmod go-w …):\n" + "\n".join(loose)
        more = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        return [Check("launcher", "failed", f"others than root can change {loose[0]}{more}", repair)]
    if closed := closed_on_the_way(program):
        return [Check("launcher", "failed", f"people cannot reach it: {closed} is closed", f"chmod a+x {closed}")]
    return [Check("launcher", "ok", f"{program}, changed by root only")]


def environment(site: Site) -> list[Check]:
    """All code that runs as people: the environment that the launcher, the sessions' servers and the hub start from."""
    folder = Path(site.portal.launcher).resolve().parent.parent
    places = [folder, *(part.parent for part in python_of(folder) if part.suffix == ".py")]
    paths = [path for place in places for path in _all_in(place, () if place == folder else PACKAGES)]
    loose = [str(path) for path in paths if not path.is_symlink() and is_loose(path.stat())]
    named = " and ".join(map(str, places))
    if loose:
        repair = "; ".join(f"chown -R root: {place}; chmod -R go-w {place}" for place in places)
        more = f" and {len(loose) - 1} more" if len(loose) > 1 else ""
        return [Check("code", "failed", f"others than root can change {loose[0]}{more}", repair)]
    return [Check("code", "ok", f"{len(paths)} files and folders in {named}, changed by root only")]


def _all_in(folder: Path, left_out: Collection[str]) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out]
        yield from (Path(place, name) for name in (*folders, *files))


def python_of(environment: Path) -> list[Path]:
    """The Python that an environment is made of: its program, its library, a module of each standard library."""
    program = environment / "bin" / "python"
    if not program.exists():
        return []
    prefix = program.resolve().parent.parent
    return [program, *prefix.glob("lib*/libpython3*.so*"), *prefix.glob("lib*/python3*/os.py")]


def loose_on_the_way(*files: Path) -> list[str]:
    """What others than root can change of files, of the folders above them, and of each link that leads there."""
    paths = dict.fromkeys(path for file in files for path in (file, *on_the_way(file)))
    looks = {one: one.lstat() for one in paths}
    return [str(one) for one, look in looks.items() if _is_somebodys(look) or (not one.is_symlink() and is_loose(look))]


def is_loose(found: os.stat_result) -> bool:
    """Whether somebody else than root can change a file, or replace what is in a folder."""
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return _is_somebodys(found) or bool(found.st_mode & 0o022 and not sticky)


def _is_somebodys(found: os.stat_result) -> bool:
    return found.st_uid != 0 and found.st_uid not in _without_number()


_without_number = functools.cache(without_number)


def closed_on_the_way(path: Path) -> str:
    """The first folder above ``path`` that people cannot pass; "" when they reach it."""
    return next((str(above) for above in reversed(path.parents) if not above.stat().st_mode & 0o001), "")


async def sudo(site: Site, run: Runner) -> list[Check]:
    """sudo lets the hub's account run the launcher as people, without a password; portal-extend at most beside."""
    account = hub_account(site)
    program = site.portal.launcher
    if not account:
        return [Check("sudo", "warning", "not checked: the state folder has no owner yet", "Make that folder first.")]
    done = await run(sudo_command(account if os.geteuid() == 0 else ""))
    rules = parse_sudo(done.stdout)
    ours = [people for people, command in rules if command in (program, "ALL")]
    more_time = (site.extend.account, str(Path(program).with_name(EXTENDER)))
    if not ours:
        rule = f'{account} ALL=(%PEOPLE, !root, !#0) NOPASSWD: {program} ""'
        repair = f"In sudoers, with PEOPLE the UNIX group of your people:\n{rule}"
        return [Check("sudo", "failed", f"{account} may not run {program} as people", repair)]
    repair = f"Leave one rule, for {program} alone, with !root, !#0 among the people: see the how-to on installing."
    if more := sorted({command for people, command in rules if command != program and (people, command) != more_time}):
        return [Check("sudo", "warning", f"{account} may run more than the launcher: {', '.join(more)}", repair)]
    if any("!#0" not in people and re.search(r"%|\b(ALL|root)\b", people) for people in ours):
        found = f"{account} may run the launcher as root, or as another account with the uid 0"
        return [Check("sudo", "warning", found, repair)]
    return [Check("sudo", "ok", f"{account} may run the launcher as {'; '.join(ours)}, and nothing else")]


def hub_account(site: Site) -> str:
    """The account that runs the hub: this one, or (seen by root) the owner of the state folder, or ``""``."""
    if os.geteuid() != 0:
        return getpass.getuser()
    folder = Path(site.portal.state_folder)
    return folder.owner() if folder.exists() else ""


def sudo_command(account: str = "") -> tuple[str, ...]:
    """List what sudo allows: to this account, or (asked by root) to another one."""
    command = ("sudo", "--non-interactive", "--list")
    return (*command, "--other-user", account) if account else command


def parse_sudo(stdout: str) -> list[tuple[str, str]]:
    """The rules that need no password: as whom, and which command."""
    text = " ".join(re.sub(r"\\(.)", r"\1", stdout).split())
    rules = re.findall(r"\(([^)]*)\) ((?:[A-Z_]+: )*)(.*?)(?= \(|$)", text)
    commands = ((people, every.split(", ")) for people, tags, every in rules if "NOPASSWD:" in tags)
    return [(people, one.removesuffix(' ""')) for people, every in commands for one in every]  # "" = no arguments


def configuration(site: Site) -> Config:
    """The addresses and the proxy as the hub itself would be configured."""
    config = Config()
    addresses(config, site)
    return config


_REINSTALL = (  # the second for who used pip: the proxy is not on PyPI
    "Run `make setup` or the release's `install` again; after pip: NODE_DISABLE_COMPILE_CACHE=1 "
    f"{sys.prefix}/bin/npm ci --prefix {sys.prefix}/share/dsportal/proxy --ignore-scripts"
)


async def proxy(site: Site, run: Runner) -> list[Check]:
    """Node and the proxy are there and start."""
    node, script = configuration(site).ConfigurableHTTPProxy.command
    versions = [("Node", (node, "--version")), ("proxy", (node, script, "--version"))]
    return [_version(what, argv, await run(argv, timeout_s=30)) for what, argv in versions]


def _version(what: str, argv: Sequence[str], done: Result) -> Check:
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return Check(what, "failed", f"{argv[-2]} does not start: {last}", _REINSTALL)
    return Check(what, "ok", f"{done.stdout.strip()} ({argv[-2]})")


def ports(site: Site) -> list[Check]:
    """The three ports are free, or our own portal has them."""
    config = configuration(site)
    running = own_processes(Path(site.portal.state_folder))
    urls = {
        "portal.port": config.JupyterHub.bind_url,
        "portal.hub_port": config.JupyterHub.hub_bind_url,
        "portal.proxy_port": config.ConfigurableHTTPProxy.api_url,
    }
    parts = {key: urlsplit(url) for key, url in urls.items()}
    return [port(key, url.hostname or "", url.port or 0, running) for key, url in parts.items()]


def port(key: str, address: str, number: int, running: Sequence[int]) -> Check:
    """Whether one port can be had; ``running`` are the processes of our own portal."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, number))
    except OSError as error:
        holder = next((process for process in running if listens(process, number)), None)
        if error.errno == errno.EADDRINUSE and holder:
            return Check(key, "ok", f"{number} is used by this portal (process {holder})")
        repair = _PORT_REPAIRS.get(error.errno or 0, "{address} is no address of this host: see portal.bind.")
        repair = repair.format(number=number, key=key, address=address)
        is_known = error.errno == errno.EACCES
        return Check(key, "warning" if is_known else "failed", f"{address}:{number}: {error.strerror}", repair)
    return Check(key, "ok", f"{number} is free")


def own_processes(state: Path) -> list[int]:
    """The hub and its proxy (which outlives a hub that crashed), as the state folder names them."""
    found = []
    for name in ("hub.pid", "proxy.pid"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int((state / name).read_text()))
    return found


def listens(process: int, number: int) -> bool:
    """Whether a process of this account has the listening TCP socket of a port (proc(5), /proc/net/tcp)."""
    rows = [line.split() for file in ("tcp", "tcp6") for line in _text(Path("/proc/net", file)).splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == number}
    try:
        return any(_target(link) in sockets for link in Path(f"/proc/{process}/fd").iterdir())
    except OSError:  # it has ended, or belongs to somebody else
        return False


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed in this moment
        return ""


def folders(site: Site) -> list[Check]:
    """The hub can write its state, and people find kernelspecs that nobody else can change."""
    return [state_folder(Path(site.portal.state_folder)), kernels_folder(Path(site.kernels.folder, "kernels"), site)]


def state_folder(folder: Path) -> Check:
    """The hub's own folder: cookie secret, database, process ids."""
    user = getpass.getuser()
    if not folder.is_dir():
        owner = "PORTAL" if os.geteuid() == 0 else user
        who = ", with the hub's own account for PORTAL" if os.geteuid() == 0 else ""
        repair = f"install -d -o {owner} -m 700 {folder}{who}"
        return Check("state folder", "failed", f"there is no folder {folder}", repair)
    if not os.access(folder, os.W_OK | os.X_OK):
        repair = f"Run this as {folder.owner()}, or give it to the hub's account: chown -R {user}: {folder}"
        return Check("state folder", "failed", f"{user} cannot write in {folder}", repair)
    if words := state_place.fault(folder):
        return Check("state folder", "failed", words, state_place.WAYS_OUT)
    if folder.stat().st_mode & 0o077:
        return Check("state folder", "warning", f"others can look into {folder}", f"chmod 700 {folder}")
    return Check("state folder", "ok", f"{folder}, writable by {user} only")


def kernels_folder(folder: Path, site: Site) -> Check:
    """What lies in there is run by people: only its owner may write it, everybody may read it."""
    what = "kernels folder"
    missing = sorted(kernel.name for kernel in site.kernel if not specs.of_table(kernel, site))
    if missing:
        repair = f"Run `portal kernels sync` as {folder.owner() if folder.is_dir() else 'root'}."
        return Check(what, "failed", f"not in {folder}: {', '.join(missing)}", repair)
    if not folder.is_dir():
        return Check(what, "ok", "the site has no kernel")
    if folder.stat().st_mode & 0o022:
        return Check(what, "failed", f"others can change what people's kernels run: {folder}", f"chmod go-w {folder}")
    if folder.stat().st_mode & 0o005 != 0o005:
        return Check(what, "failed", f"people cannot read {folder}", f"chmod 755 {folder}")
    if closed := closed_on_the_way(folder):
        repair = "Set kernels.folder to a place that people can read, on the nodes too."
        return Check(what, "failed", f"people cannot reach {folder}: {closed} is closed", repair)
    return Check(what, "ok", f"{folder}, written by {folder.owner()}")
