"""The settings file as the launcher sees it: root's alone, readable for everybody, and the same as the hub's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from portal import launch_rules
from portal.doctor.check import Check
from portal.doctor.host_checks import closed_on_the_way
from portal.site import Site, parse

WHAT = "launcher's file"


def settings(site: Site) -> list[Check]:
    """What the launcher goes by: without such a file it takes the options of every site alone."""
    prefix = str(Path(site.portal.launcher).resolve().parent.parent)
    found = launch_rules.read(launch_rules.places(prefix))
    if found.tables is None:
        repair = "Put the settings there, as root: chown root:root, chmod 644; its folder: chmod 755."
        return [
            Check(
                WHAT,
                "failed" if _needs_it(site) else "warning",
                f"the launcher does not go by the settings: {found.why_not}",
                repair,
            )
        ]
    mode = os.stat(found.place).st_mode  # noqa: PTH116
    closed = closed_on_the_way(Path(found.place).resolve())
    if not mode & stat.S_IROTH or closed:
        repair = f"chmod 644 {found.place}; every folder above it: chmod a+x. It holds no secret."
        return [
            Check(WHAT, "warning", f"people, as whom the launcher runs, cannot read {closed or found.place}", repair)
        ]
    theirs = parse(found.tables, source=found.place)
    different = [
        name for name in ("session", "gpus", "partitions", "cluster") if getattr(theirs, name) != getattr(site, name)
    ]
    if different:
        link = f"{prefix}/etc/dsportal/site.toml"
        repair = (
            f"Use one file for both. A second portal on this host: as root, make {link} a link to its own settings."
        )
        return [
            Check(
                WHAT, "failed", f"{found.place} says otherwise than the hub's settings: {', '.join(different)}", repair
            )
        ]
    return [Check(WHAT, "ok", f"{found.place}, changed by root only, says the same as the hub's settings")]


def _needs_it(site: Site) -> bool:
    """Whether the settings have what the launcher takes from root's file alone."""
    keys = (*launch_rules.CHOICES, "comment", "exclusive", "options", "rule")
    is_more = any(getattr(one, key) for one in site.partitions for key in keys)
    return is_more or bool(site.cluster.slurm_path or site.cluster.slurm_conf or site.session.private_folder)
