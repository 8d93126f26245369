"""Checks of what a site depends on: Slurm, LDAP, modules and storage."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.catalogue import explained
from portal.catalogue.built import is_tried, stranger
from portal.catalogue.loaded import session_environ, system_of
from portal.catalogue.versions import resolved
from portal.directory.conversation import ServerFault, Servers
from portal.doctor.check import Check, dated
from portal.errors import KernelError, SiteError
from portal.login.accounts import ServiceAccount
from portal.login.directory import Directory
from portal.settings.kernel_tables import KernelTable
from portal.settings.ldap_table import LdapTable
from portal.settings.session_tables import PartitionTable
from portal.site import Site
from portal.slurm import nodes
from portal.slurm.cluster import Cluster
from portal.slurm.jobs import count_sessions, parse_ping, ping_command, sessions_command
from portal.slurm.runner import Runner, is_group

OLDEST_SLURM = (22, 5)
_NOT_TRUSTED = "CERTIFICATE_VERIFY_FAILED"  # OpenSSL's
_UNRESOLVED = "invalid server address"  # ldap3's message


# -- Slurm ----------------------------------------------------------------------------------------------


async def slurm(site: Site, run: Runner) -> list[Check]:
    """A controller is up, and the commands here are not older than those the portal was tried with."""
    done = await run(ping_command())
    answer = " ".join((done.stdout + done.stderr).split()) or "no answer"
    if parse_ping(done.stdout):
        controller = Check("Slurm", "ok", answer)
    else:
        repair = "Start slurmctld, or see slurm.conf on this host: `scontrol ping` must say UP."
        controller = Check("Slurm", "failed", answer, repair)
    version = await run(("sinfo", "--version"))
    config = await run(("scontrol", "show", "config"))
    return [controller, slurm_version(version.stdout.strip()), private_data(config.stdout)]


def private_data(config: str) -> Check:
    """``PrivateData`` out of Slurm's configuration: a hub that does not see its jobs cannot follow them."""
    found = re.search(r"^PrivateData\s*=\s*(\S+)", config, re.MULTILINE)
    shown = found[1] if found else "unknown"
    if not {"jobs", "all", "unknown"} & set(shown.split(",")):
        return Check("Slurm shows jobs", "ok", f"PrivateData = {shown}")
    repair = "The hub's account must be a Slurm operator: sacctmgr modify user NAME set adminlevel=operator"
    return Check("Slurm shows jobs", "warning", f"PrivateData = {shown}", repair)


def slurm_version(text: str) -> Check:
    """The version out of ``slurm-wlm 22.05.8``."""
    number = re.search(r"(\d+)\.(\d+)", text)
    if number is None or (int(number[1]), int(number[2])) < OLDEST_SLURM:
        oldest = "{}.{:02}".format(*OLDEST_SLURM)
        return Check("Slurm version", "failed", text or "unknown", f"The portal needs Slurm {oldest} or newer.")
    return Check("Slurm version", "ok", text)


async def answers(site: Site, run: Runner) -> list[Check]:
    """Everything that the hub reads from Slurm can be read here, whatever this version prints."""
    cluster = Cluster(site.portal.launcher, run)
    queue = await cluster.queue()
    known_nodes = await cluster.nodes()
    known = await cluster.partitions()
    faults = [snapshot.error.detail for snapshot in (queue, known_nodes, known) if snapshot.error]
    if faults:
        repair = "Until it can be read, the hub keeps every session as it was. Report it with the lines above."
        return [Check("Slurm's answers", "failed", "\n".join(faults), repair)]
    counts = f"{len(queue.jobs)} jobs, {len(known_nodes.nodes)} nodes, {len(known.partitions)} partitions"
    reserved = f"{len(known.reservations)} reservations"
    return [Check("Slurm's answers", "ok", f"read: {counts}, {reserved}; {await sessions(run)}")]


async def node_names(site: Site, run: Runner) -> list[Check]:
    """The hub and its proxy reach a session by its node's name: this host must know the address of each."""
    names = sorted((await Cluster(site.portal.launcher, run).nodes()).nodes)
    known = await asyncio.gather(*(asyncio.to_thread(_is_resolved, name) for name in names))
    unknown = [name for name, is_known in zip(names, known, strict=True) if not is_known]
    if not unknown:
        return [Check("node names", "ok", f"{len(names)} names of nodes have an address here")]
    shown = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
    repair = "Put them into DNS or /etc/hosts of this host: sessions on these nodes cannot be reached."
    return [Check("node names", "failed", f"cannot be resolved: {shown}", repair)]


def _is_resolved(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


async def sessions(run: Runner) -> str:
    """How many jobs are sessions of a portal, of whatever hub. Names are their owners' texts: the count is a hint."""
    listing = await run(sessions_command())
    return f"sessions of a portal: {count_sessions(listing.stdout)}"


async def partitions(site: Site, run: Runner) -> list[Check]:
    """Every partition of the site is one of Slurm's, open, and long enough for what the portal offers."""
    done = await run(nodes.partitions_command())
    if done.returncode:
        raise ValueError(" ".join(done.stderr.split()) or "scontrol failed without a word")
    known = nodes.parse_partitions(done.stdout)
    if not site.partitions:
        repair = f"Add a [[partition]] to the settings. Slurm has: {', '.join(known)}."
        return [Check("partitions", "failed", "the settings name none", repair)]
    checks = [partition(offered, site.hours_max(offered), known) for offered in site.partitions]
    opened = [known[offered.name] for offered in site.partitions if offered.name in known]
    return checks + [check for one in opened if (check := await unknown_groups(one))]


async def unknown_groups(found: nodes.Partition) -> Check | None:
    """Groups to which Slurm opens a partition, and which this host does not know: here it is seen who is offered it."""
    names = sorted(found.allow_groups or ())
    unknown = [name for name in names if not await is_group(name)]
    if not unknown:
        return None
    whom = "nobody" if unknown == names else "none of their people"
    is_none = "is no UNIX group of this host" if len(unknown) == 1 else "are no UNIX groups of this host"
    said = f"Slurm opens it to {', '.join(unknown)} (AllowGroups), which {is_none}: {whom} is offered it"
    repair = f"Make it known here, as on Slurm's own host (getent group {unknown[0]}), or correct AllowGroups."
    return Check(f"partition {found.name}", "warning", said, repair)


def partition(offered: PartitionTable, hours: int, known: Mapping[str, nodes.Partition]) -> Check:
    """One partition of the site, which offers sessions of up to ``hours``."""
    what = f"partition {offered.name}"
    found = known.get(offered.name)
    if found is None:
        repair = f"Slurm has: {', '.join(known)}. Correct the name in the settings, or take the partition out."
        return Check(what, "failed", "Slurm has no such partition", repair)
    if not found.is_up:
        repair = f"scontrol update PartitionName={offered.name} State=UP"
        return Check(what, "warning", f"it is {found.state}: sessions wait", repair)
    if found.time_limit_min is not None and found.time_limit_min < hours * 60:
        limits = f"Slurm allows {found.time_limit_min / 60:g} h, the portal offers {hours} h"
        repair = f"Set hours_max = {found.time_limit_min // 60} for it, or raise its MaxTime in Slurm."
        return Check(what, "warning", limits, repair)
    return Check(what, "ok", f"up, sessions of up to {hours} h")


# -- LDAP -----------------------------------------------------------------------------------------------


async def ldap(site: Site, run: Runner) -> Sequence[Check]:
    """Every LDAP server answers inside TLS with a certificate that is trusted and in date."""
    if site.ldap is None:
        return [await asyncio.to_thread(other_authenticator, site.portal.extra_config)]
    directory = Directory(site.ldap)
    checks = (asyncio.to_thread(ldap_server, directory, site.ldap, server) for server in site.ldap.servers)
    return [*await asyncio.gather(*checks), await asyncio.to_thread(who_left, site.ldap)]


def other_authenticator(folder: str) -> Check:
    """Without the table ``[ldap]``: the site's own configuration sets another authenticator, after the site's rules."""
    texts = {file: file.read_text() for file in sorted(Path(folder).glob("*.py"))} if folder else {}
    setting = [
        file for file, text in texts.items() if re.search(r"^[^#\n]*\bauthenticator_class\b", text, re.MULTILINE)
    ]
    if not setting:
        repair = (
            "Add the table [ldap] to the settings, or another authenticator to portal.extra_config\n"
            "(docs/howto/ldap.md): nobody can log in without."
        )
        return Check("LDAP", "failed", "the settings name no server", repair)
    found = f"not asked: {setting[-1]} sets another authenticator; nobody is noticed who leaves"
    if not any("SiteRules" in text for text in texts.values()):
        repair = "Put portal.login.other.SiteRules before it; see docs/howto/ldap.md."
        return Check("LDAP", "warning", f"{found}, and no name is checked against the accounts of this host", repair)
    return Check("LDAP", "ok", found)


def ldap_server(directory: Directory, settings: LdapTable, server: str) -> Check:
    """One LDAP server."""
    what = f"LDAP {server}"
    try:
        found = dated(what, "answers, its certificate is valid", directory.certificate_end(server))
        return found if found.result != "ok" else in_form(settings, server) or found
    except ServerFault as fault:
        if _UNRESOLVED in str(fault):
            repair = "Correct it in ldap.servers, or see /etc/resolv.conf."
            return Check(what, "failed", "its name cannot be resolved", repair)
        repair = (
            f"The host name in ldap.servers must be one of the certificate's names, and {settings.ca_file}\n"
            "(ldap.ca_file) must hold the authority that signed it. docs/howto/ldap.md shows how to look."
        )
        return Check(what, "failed", str(fault), repair)


def in_form(settings: LdapTable, server: str) -> Check | None:
    """A warning where the certificates have faults of form that the portal takes, and other programs do not."""
    try:
        Servers(settings, is_strict=True).certificate_end(server)
    except ServerFault as fault:
        if _NOT_TRUSTED not in str(fault):
            return None  # it answered a moment ago
        words = re.sub(r".*certificate verify failed: | \(_ssl.*", "", str(fault))
        repair = (
            "The portal goes on with it; programs on Python 3.13 and later refuse it unless they are told otherwise.\n"
            f"Have the authority in {settings.ca_file} (ldap.ca_file) and its certificates made anew with keyUsage,\n"
            "subjectKeyIdentifier and authorityKeyIdentifier: docs/howto/ldap.md has the lines."
        )
        return Check(f"LDAP {server}", "warning", f"answers; its certificate is not in form: {words}", repair)
    return None


def who_left(settings: LdapTable) -> Check:
    """The account that is asked who may use the portal still is let in everywhere, and sees people and groups."""
    what = "LDAP, who left"
    if not settings.bind_dn:
        found = "this host's name service is asked, not LDAP: who leaves a group there may stay logged in"
        return Check(what, "warning", found, "Set ldap.bind_dn and ldap.bind_password_file; see docs/howto/ldap.md.")
    account = ServiceAccount(settings)
    faults: list[str] = []
    hidden: list[str] = []
    for server in settings.servers:
        try:
            if unseen := account.check(server):
                hidden.append(f"{server}: {settings.bind_dn} does not see {unseen}")
        except SiteError as error:
            return Check(what, "failed", error.message, "Make it a file of the hub's account alone: chown, chmod 600.")
        except ServerFault as fault:
            faults.append(f"{server}: {fault}")
    if faults:
        repair = (
            "Until then nobody who leaves is noticed by these. Correct ldap.bind_dn or the password in\n"
            f"{settings.bind_password_file}, and let that account read people and groups (docs/howto/ldap.md)."
        )
        return Check(what, "failed", "\n".join(faults), repair)
    if hidden:
        repair = (
            "Accounts that are disabled or expired, and new passwords, are not noticed. Let that account read them:\n"
            "make it a member of 'Pre-Windows 2000 Compatible Access', or grant it what docs/howto/ldap.md names."
        )
        return Check(what, "warning", "\n".join(hidden), repair)
    return Check(what, "ok", f"{settings.bind_dn} sees people{' and groups' if settings.group_base else ''}")


# -- modules and storage --------------------------------------------------------------------------------


async def modules(site: Site, run: Runner) -> list[Check]:
    """The module command is there, and each kernel of the site starts with its modules loaded."""
    found = [await asyncio.to_thread(kernel, one, site) for one in site.kernel]
    if not any(one.modules for one in site.kernel):
        return found
    command = system_of(site).find_command(session_environ(site))
    return [Check("module command", "ok", command), *found]


def kernel(one: KernelTable, site: Site) -> Check:
    """One kernel, made as `portal kernels sync` makes it, but not written."""
    what = f"kernel {one.name}"
    loaded = " ".join(one.modules)
    try:
        entries = resolved(one, site)
        if os.geteuid() and any(is_tried(entry.kernel) and stranger(entry.kernel, site) for entry in entries):
            repair = "Run `portal kernels explain` as root, which tries it with the rights of who can change it."
            return Check(what, "warning", "not tried: others can change it, and would have this account", repair)
        faults = [fault for entry in entries if (fault := explained.fault_of(entry, site))]
    except KernelError as error:
        faults = [error.message]
    if faults:
        repair = f"`module load {loaded}` in a shell tells more." if loaded else "Install it, or take the kernel out."
        return Check(what, "failed", "\n".join(faults), repair)
    if untried := explained.untried(entries[0]):
        return Check(what, "ok", untried)
    return Check(what, "ok", f"answers with {loaded} loaded" if loaded else "answers")


def storage(site: Site) -> list[Check]:
    """The storage folders are there, as far as this host can see."""
    return [storage_folder(place.name, Path(place.path)) for place in site.storage]


def storage_folder(name: str, path: Path) -> Check:
    """One storage folder."""
    try:
        is_folder = path.is_dir()
    except PermissionError:
        is_folder = True  # people may pass where the hub's account may not
    if not is_folder:
        repair = "Mount it here and on the nodes, or correct its path in the settings."
        return Check(f"storage {name}", "failed", f"there is no folder {path} on this host", repair)
    return Check(f"storage {name}", "ok", str(path))
