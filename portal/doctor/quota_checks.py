"""Checks of the site's own command for quotas: it is there, and root's."""

from __future__ import annotations

import os
from pathlib import Path

from portal.doctor.check import Check
from portal.doctor.host_checks import loose_on_the_way
from portal.site import Site


def command(site: Site) -> list[Check]:
    """Who can change the command runs what they like as the hub's account, which has everybody's tokens."""
    if not site.quota.command:
        return []
    program = Path(site.quota.command[0])
    repair = "See quota.command in the settings."
    try:
        there = program.resolve(strict=True)
        loose = loose_on_the_way(program)
    except OSError as error:
        return [Check("quota command", "failed", f"{program}: {error.strerror or error}", repair)]
    if not there.is_file() or not os.access(there, os.X_OK):
        return [Check("quota command", "failed", f"{program} is not a program that may be run", repair)]
    if loose:
        repair = "Let root own these and nobody else write them (chown -h root: …; chmod go-w …):\n" + "\n".join(loose)
        return [Check("quota command", "failed", f"others than root can change {loose[0]}", repair)]
    return [Check("quota command", "ok", f"{program}, changed by root only")]
