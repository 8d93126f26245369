"""The verbs of ``portal ldap``; what they do is imported when one runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from portal.site import load

WithSite = Callable[[argparse.ArgumentParser, Callable[[argparse.Namespace], int]], None]


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], with_site: WithSite) -> None:
    """``portal ldap try NAME``; ``with_site`` gives a verb its ``--site``."""
    ldap = commands.add_parser("ldap", help="the directory of [ldap]").add_subparsers(required=True)
    attempt = ldap.add_parser("try", help="a login, step by step, and what its page would say")
    attempt.add_argument("name", help="as it is typed at a login")
    attempt.add_argument("--no-password", action="store_true", help="only what can be seen without the password")
    with_site(attempt, _try)


def _try(arguments: argparse.Namespace) -> int:
    from portal.login import trial

    return trial.main(load(arguments.site), arguments.name, with_password=not arguments.no_password)
