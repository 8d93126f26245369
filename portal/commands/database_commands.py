"""``portal database``: the hub's database while no hub runs on it."""

from __future__ import annotations

import argparse
from pathlib import Path

from portal.databases import copies
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
    restore = verbs.add_parser("restore", help="bring a copy that upgrade made on a database server back")
    restore.add_argument("copy", help="its name, as upgrade said it")
    restore.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
    restore.set_defaults(command=_restore)


def _upgrade(arguments: argparse.Namespace) -> int:
    site = Site() if arguments.state else load(arguments.site)
    if site.portal.database_url:
        return _upgrade_server(site)
    folder: Path = arguments.state or Path(site.portal.state_folder)
    _check_ended(folder)
    file = folder / database.FILE
    if not file.exists():
        raise PortalError(f"There is no database {file}: the first start of the portal makes one.")
    backup = database.upgrade(file)
    said = f"has the schema of this version now; as it was before: {backup}" if backup else "needs no upgrade"
    print(f"portal: {file} {said}")
    return 0


def _upgrade_server(site: Site) -> int:
    _check_ended(Path(site.portal.state_folder))
    copy = copies.upgrade(site)
    said = f"has the schema of this version now; its tables as they were: {copy}_…" if copy else "needs no upgrade"
    print(f"portal: {site.portal.database_url} {said}")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    site = load(arguments.site)
    folder = Path(site.portal.state_folder)
    if not site.portal.database_url:
        raise PortalError(
            f"The database is a file, {folder / database.FILE}: put the copy that lies beside it in its place "
            "(docs/howto/backup.md, Restore)."
        )
    _check_ended(folder)
    people = copies.restore(site, arguments.copy)
    print(f"portal: {site.portal.database_url} is as it was in {arguments.copy}, with {people} people; the copy stays")
    return 0


def _check_ended(folder: Path) -> None:
    state_place.check_account(folder)
    if state_place.runs(folder):
        raise PortalError(f"A portal runs on {folder}: end it first (systemctl stop dsportal, or portal down).")
