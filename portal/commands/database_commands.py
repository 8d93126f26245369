"""``portal database``: the hub's database while no hub runs on it."""

from __future__ import annotations

import argparse
from pathlib import Path

from portal.errors import PortalError
from portal.hub import database, state_place
from portal.site import Site, load


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the command to those of ``portal``."""
    verbs = commands.add_parser("database", help="the hub's database").add_subparsers(required=True)
    upgrade = verbs.add_parser("upgrade", help="bring it to the schema of this version; a copy is kept")
    upgrade.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
    upgrade.add_argument("--state", type=Path, help="the state folder itself, for portal up --local")
    upgrade.set_defaults(command=_upgrade)


def _upgrade(arguments: argparse.Namespace) -> int:
    site = Site() if arguments.state else load(arguments.site)
    if site.portal.database_url:
        raise PortalError(
            f"{site.portal.database_url} is a server: stop the portal, make a copy of it (pg_dump), and start it once "
            "with c.JupyterHub.upgrade_db = True in a file of portal.extra_config."
        )
    folder: Path = arguments.state or Path(site.portal.state_folder)
    file = folder / database.FILE
    if not file.exists():
        raise PortalError(f"There is no database {file}: the first start of the portal makes one.")
    if state_place.runs(folder):
        raise PortalError(f"A portal runs on {folder}: end it first (systemctl stop dsportal, or portal down).")
    backup = database.upgrade(file)
    said = f"has the schema of this version now; as it was before: {backup}" if backup else "needs no upgrade"
    print(f"portal: {file} {said}")
    return 0
