"""``portal doctor``: is a site in order? Each line says what was checked, what was found and how to repair it.

Nothing is changed and no job is submitted. All checks run, whatever the others find: one run shows everything.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from portal.doctor import (
    database_checks,
    domain_checks,
    extend_checks,
    host_checks,
    kernel_checks,
    launch_checks,
    notebook_checks,
    person_checks,
    quota_checks,
    site_checks,
)
from portal.doctor.check import Check
from portal.errors import PortalError, SiteError, printable
from portal.site import Site, load
from portal.slurm.runner import RunError, Runner, run

_COLOURS = {"ok": "\x1b[32m", "warning": "\x1b[33m", "failed": "\x1b[31m"}
_PLAIN = "\x1b[0m"

Checks = Callable[[Site, Runner], Awaitable[Sequence[Check]]]


@dataclass(frozen=True)
class Group:
    """Checks of one part of a site, and what helps when that part cannot be checked."""

    what: str
    checks: Checks
    repair: str
    needs_site: bool = True


def threaded(checks: Callable[[Site], Sequence[Check]]) -> Checks:
    """Checks that block (on files that hang, for one), in a thread of their own."""

    async def in_thread(site: Site, run: Runner) -> Sequence[Check]:
        return await asyncio.to_thread(checks, site)

    return in_thread


GROUPS = (
    Group("portal", threaded(host_checks.installation), "Run `make setup` again.", needs_site=False),
    Group(
        "launcher",
        threaded(host_checks.launcher),
        "Set portal.launcher to the portal-launch of the portal's environment.",
    ),
    Group("launcher's file", threaded(launch_checks.settings), "portal config check /etc/dsportal/site.toml"),
    Group("code", threaded(host_checks.environment), "See portal.launcher in the settings."),
    Group("sudo", host_checks.sudo, "Install sudo; the how-to on installing has the line it needs."),
    Group("more time", extend_checks.extend, "See [extend] in the settings."),
    Group("proxy", host_checks.proxy, "Run `make setup` again.", needs_site=False),
    Group(
        "HTTPS",
        threaded(domain_checks.https),
        "portal.certificate and portal.key are PEM files that this account can read.",
    ),
    Group("domain", threaded(domain_checks.domain), "See portal.domain in the settings."),
    Group("JupyterLab's files", threaded(domain_checks.lab_files), "See portal.domain in the settings."),
    Group("neighbours", threaded(domain_checks.neighbours), "See portal.internal_ssl and kernels.debugger."),
    Group("ports", threaded(host_checks.ports), "See portal.bind, portal.hub_address and the ports in the settings."),
    Group("folders", threaded(host_checks.folders), "See portal.state_folder and kernels.folder in the settings."),
    Group("database", threaded(database_checks.database), "See portal.database_url in the settings."),
    Group("Slurm", site_checks.slurm, "Put Slurm's commands into this account's PATH.", needs_site=False),
    Group("Slurm's answers", site_checks.answers, "See the lines about Slurm."),
    Group("node names", site_checks.node_names, "See the lines about Slurm."),
    Group("partitions", site_checks.partitions, "See the lines about Slurm."),
    Group("temporary files", kernel_checks.temporary_files, "See the lines about Slurm.", needs_site=False),
    Group("GPUs", kernel_checks.gpus, "See the lines about Slurm."),
    Group("LDAP", site_checks.ldap, "See the table [ldap] in the settings."),
    Group("module command", site_checks.modules, "Set kernels.module_command, or take the modules out of [[kernel]]."),
    Group("last tests", threaded(kernel_checks.last_tests), "See kernels.folder in the settings."),
    Group("web tools", threaded(kernel_checks.tools), "See [[tool]] in the settings."),
    Group("environments", threaded(person_checks.environments), "See environments.folder in the settings."),
    Group("storage", threaded(site_checks.storage), "See [[storage]] in the settings."),
    Group("quota command", threaded(quota_checks.command), "See quota.command in the settings."),
    Group("templates", threaded(notebook_checks.folders), "See [notebooks] in the settings."),
)


def main(site_path: str, person: str = "") -> int:
    """Check a site, and what one person of it needs, and print what was found; answers 1 when something failed."""
    found = asyncio.run(examine(site_path, person=person))
    print("\n".join(lines(found, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))))
    return int(any(check.result == "failed" for check in found))


async def examine(site_path: str, run: Runner = run, person: str = "") -> list[Check]:
    """Every check; where the settings file has faults, those that need it are listed as not checked."""
    site, first = settings(site_path)
    if site:
        os.environ.update(site.cluster.environment(os.environ.get("PATH", os.defpath)))
    of_person = [Group(f"person {person}", partial(person_checks.person, person), "See the line about sudo.")]
    groups = (*GROUPS, *(of_person if person else ()))
    found = await asyncio.gather(*(_checked(group, site, run) for group in groups))
    return [first, *(check for group in found for check in group)]


def settings(path: str) -> tuple[Site | None, Check]:
    """The site, if its settings file has no faults."""
    try:
        site = load(path)
    except SiteError as error:
        return None, Check("settings", "failed", error.message.splitlines()[0], "\n".join(error.faults))
    counts = f"{len(site.partitions)} partitions, {len(site.kernel)} kernels, {len(site.storage)} storage folders"
    return site, Check("settings", "ok", f"{path} ({counts})")


async def _checked(group: Group, site: Site | None, run: Runner) -> Sequence[Check]:
    """What one group found; whatever goes wrong in it is its finding."""
    if site is None and group.needs_site:
        return [Check(group.what, "warning", "not checked", "Repair the settings first.")]
    try:
        return await group.checks(site or Site(), run)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return [Check(group.what, "failed", fault, group.repair)]
    except (LookupError, ValueError, RunError, PortalError) as error:
        return [Check(group.what, "failed", str(error), group.repair)]


def lines(found: Sequence[Check], colour: bool = False) -> Iterator[str]:
    """What is printed: a line for each check, what to do below it, and a summary."""
    width = max(len(printable(check.what)) for check in found)
    for check in found:
        mark = f"{check.result:<8}"
        if colour:
            mark = f"{_COLOURS[check.result]}{mark}{_PLAIN}"
        first, *below = printable(check.found).splitlines() or [""]
        yield f"{mark} {printable(check.what):<{width}}  {first}"
        if check.result != "ok":
            below += printable(check.repair).splitlines()
        yield from (f"{'':11}{line}" for line in below)
    counts = (f"{sum(check.result == result for check in found)} {result}" for result in _COLOURS)
    yield f"{len(found)} checks: {', '.join(counts)}"
