"""Checks of more time for sessions: portal-extend is reached as the account of ``[extend]``, an operator of Slurm."""

from __future__ import annotations

from pathlib import Path

from portal.doctor.check import Check
from portal.doctor.host_checks import hub_account
from portal.doctor.person_checks import NOTHING, acting_as
from portal.errors import AccountGone, PortalError
from portal.site import Site
from portal.slurm.runner import Runner
from portal.slurm.submission import EXTENDER, LauncherAsPerson

WHAT = "more time"


async def extend(site: Site, run: Runner) -> list[Check]:
    """Nothing where no session is given more time."""
    if not site.extend.times:
        return []
    account = hub_account(site)
    if not account:
        return [Check(WHAT, "warning", "not checked: the state folder has no owner yet", "Make that folder first.")]
    operator = site.extend.account
    program = Path(site.portal.launcher).with_name(EXTENDER)
    try:
        await LauncherAsPerson(str(program), acting_as(account, run)).call(operator, NOTHING)
    except PortalError as error:
        rule = f'In sudoers: {account} ALL=({operator}) NOPASSWD: {program} ""'
        repair = "extend.account names an account of this host." if isinstance(error, AccountGone) else rule
        return [Check(WHAT, "failed", error.detail, repair)]
    if not await is_operator(operator, run):
        repair = f"sacctmgr modify user {operator} set adminlevel=operator"
        return [Check(WHAT, "failed", f"Slurm does not know {operator} as an operator", repair)]
    return [Check(WHAT, "ok", f"{account} may run {program} as {operator}, an operator of Slurm")]


async def is_operator(name: str, run: Runner) -> bool:
    """Whether Slurm lets an account give jobs more time: SlurmUser, or an operator in its accounting."""
    shown = await run(("scontrol", "show", "config"))
    if any(line.split("=")[0].strip() == "SlurmUser" and f"={name}(" in line.replace(" ", "")
           for line in shown.stdout.splitlines()):  # fmt: skip
        return True
    level = await run(("sacctmgr", "--noheader", "--parsable2", "show", "user", name, "format=AdminLevel"))
    return level.stdout.strip() in ("Operator", "Administrator")
