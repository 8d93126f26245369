"""``portal state``: what a state folder is that is not where its portal was."""

from __future__ import annotations

import argparse
from pathlib import Path

from portal.errors import PortalError
from portal.hub import database, state_place
from portal.site import load


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the command to those of ``portal``."""
    state = commands.add_parser("state", help="a state folder that was moved or copied").add_subparsers(required=True)
    words = {"adopt": "the portal has moved here", "separate": "this is a copy: a portal of its own from now on"}
    for (name, text), act in zip(words.items(), (_adopt, _separate), strict=True):
        parser = state.add_parser(name, help=text)
        parser.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
        parser.set_defaults(command=act)


def _adopt(arguments: argparse.Namespace) -> int:
    folder = Path(load(arguments.site).portal.state_folder)
    was = state_place.adopt(folder)
    print(f"portal: {folder} is the portal's own place now (before: {was or 'nowhere'}); its sessions go on")
    return 0


def _separate(arguments: argparse.Namespace) -> int:
    site = load(arguments.site)
    folder = Path(site.portal.state_folder)
    if site.portal.database_url:
        raise PortalError(
            f"{site.portal.database_url} may be the first portal's own, and its sessions would be forgotten there. "
            "Start the copy with an empty state folder and an empty database instead."
        )
    forgotten = state_place.separate(folder, database.url_of(site))
    print(f"portal: {folder} is a portal of its own now; it has forgotten {forgotten} sessions, which go on elsewhere")
    return 0
