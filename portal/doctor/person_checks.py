"""What people need on this host before a session can be started, and what one does: `portal doctor --person NAME`."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from portal.doctor.check import Check
from portal.doctor.host_checks import hub_account
from portal.errors import AccountGone, ActingRefused, PortalError
from portal.homes.private_folder import site_part
from portal.site import Site
from portal.slurm.runner import Result, Runner, is_account
from portal.slurm.submission import LauncherAsPerson

NOTHING = {"verb": "nothing"}  # portal-launch refuses it, which proves that it was reached
LOOK = {"verb": "look"}


def environments(site: Site) -> list[Check]:
    """Whether people can make their environments where ``environments.folder`` says."""
    what = "environments"
    form = site.environments.folder
    if form.startswith("~/"):
        return [Check(what, "ok", f"in {form} of each person")]
    folder = site_part(form)
    if not folder.is_dir():
        repair = "It is enough that the nodes have it; else make it, or correct environments.folder."
        return [Check(what, "warning", f"there is no folder {folder} on this host, of {form}", repair)]
    there = folder.resolve()
    if loose := next((one for one in (there, *there.parents) if _is_of_others(one.stat())), None):
        found = f"others than root can change {loose}, and so the environments of people: none is made there"
        return [Check(what, "failed", found, f"chown root {loose}; chmod +t,go-w as is fit: /tmp has mode 1777")]
    if not there.stat().st_mode & stat.S_IWOTH:
        return [Check(what, "ok", f"{there} is the site's: each person needs a folder there, theirs, mode 700")]
    return [Check(what, "ok", f"people can make {form}")]


def _is_of_others(found: os.stat_result) -> bool:
    """Whether others than root can put something else in the place of what is in a folder."""
    is_sticky = bool(found.st_mode & stat.S_ISVTX)
    return found.st_uid != 0 or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky)


async def person(name: str, site: Site, run: Runner) -> list[Check]:
    """The person has an account here, and sudo starts the launcher as that person."""
    what = f"person {name}"
    if not await is_account(name):
        repair = (
            f"`getent passwd {name}` must answer here and on the nodes: let this host use the name service of\n"
            "the nodes (sssd, nslcd). The name of the login is the name of the account."
        )
        return [Check(what, "failed", "no account on this host", repair)]
    account = hub_account(site)
    if not account:
        return [Check(what, "warning", "not checked: the state folder has no owner yet", "Make that folder first.")]
    acts = await acting(name, account, site, run)
    found = [Check(what, "ok", "has an account on this host"), acts]
    return [*found, await private_folder(name, account, site, run)] if acts.result == "ok" else found


async def private_folder(name: str, account: str, site: Site, run: Runner) -> Check:
    """The place for the private files of a person's sessions is there on this host, and can be written by her."""
    what = f"files of {name}"
    key = "session.private_folder" if site.session.private_folder else "the home"
    repair = f"Sessions keep their environment and log there ({key}); see Homes in docs/howto/install.md."
    try:
        answer = await _launcher(account, site, run).call(name, LOOK)
    except PortalError as error:
        return Check(what, "failed", error.detail, repair)
    if not answer.get("ok"):
        return Check(what, "failed", str(answer.get("message", "no answer")), repair)
    return Check(
        what, "ok", f"{answer.get('folder')} can be written here; the nodes are looked at by the first session"
    )


def _launcher(account: str, site: Site, run: Runner) -> LauncherAsPerson:
    return LauncherAsPerson(site.portal.launcher, acting_as(account, run))


async def acting(name: str, account: str, site: Site, run: Runner) -> Check:
    """The hub's account reaches the launcher as one person; nothing is done there."""
    what = f"sudo as {name}"
    try:
        await _launcher(account, site, run).call(name, NOTHING)
    except (AccountGone, ActingRefused) as error:
        repair = (
            f"{account} may act as those whom its line in sudoers names: put {name} into that group (`id {name}`\n"
            "shows the groups), or widen the line: "
            f'{account} ALL=(%PEOPLE, !root, !#0) NOPASSWD: {site.portal.launcher} ""'
        )
        return Check(what, "failed", error.detail, repair)
    except PortalError as error:
        repair = f"Run it by hand, as {account}: echo '{{}}' | sudo -n -H -u {name} -- {site.portal.launcher}"
        return Check(what, "failed", error.detail, repair)
    return Check(what, "ok", f"{account} may run the launcher as {name}, which answers")


def acting_as(account: str, run: Runner) -> Runner:
    """Run as the hub's account: for root; others are that account."""
    if os.geteuid() != 0:
        return run

    async def switched(
        argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = 10
    ) -> Result:
        return await run(("runuser", "-u", account, "--", *argv), stdin=stdin, env=env, timeout_s=timeout_s)

    return switched
