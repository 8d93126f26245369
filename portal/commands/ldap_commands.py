"""``portal ldap``: the directory of ``[ldap]``, as a login sees it."""

from __future__ import annotations

import argparse

from portal.site import load


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], default_site: str) -> None:
    """Add the command to those of ``portal``."""
    ldap = commands.add_parser("ldap", help="the directory of [ldap]").add_subparsers(required=True)
    attempt = ldap.add_parser("try", help="a login, step by step, and what its page would say")
    attempt.add_argument("name", help="as it is typed at a login")
    attempt.add_argument("--no-password", action="store_true", help="only what can be seen without the password")
    attempt.add_argument("--site", default=default_site, help="the settings file (default: %(default)s)")
    attempt.set_defaults(command=_try)


def _try(arguments: argparse.Namespace) -> int:
    from portal.login import trial

    return trial.main(load(arguments.site), arguments.name, with_password=not arguments.no_password)
