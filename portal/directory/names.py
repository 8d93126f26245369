"""How a name may be spelled at a login, and which UNIX name it means: one rule, whatever the site's directory. Pure.

A UNIX name travels into ``sudo --user``, Slurm's options, paths and addresses: what is no plain name stays here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from portal.settings.ldap_table import LdapTable

# What useradd(8) and systemd take, with capitals, dots, and digits in front; no digits alone, which sudo, squeue and
# chown would take for the number of an account.
_UNIX = re.compile(r"(?=[0-9.-]*[A-Za-z_])[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_LONGEST = 300  # with a domain


@dataclass(frozen=True)
class LoginName:
    """A name as somebody typed it.

    Attributes:
        name: without the domain.
        whole: with the domain.
    """

    name: str
    whole: str

    @property
    def key(self) -> str:
        """The same for every spelling that a directory takes for the same person: what attempts are counted by."""
        return self.name.lower()


@dataclass(frozen=True)
class NameRule:
    """What the rule needs to know of a site.

    Attributes:
        login_domains: may stand beside a name, and are taken off.
        capitals: ``refuse``, ``lower`` or ``keep``.
    """

    login_domains: tuple[str, ...] = ()
    capitals: str = "refuse"


def rule_of(settings: LdapTable) -> NameRule:
    """The rule of ``[ldap]``."""
    return NameRule(settings.login_domains, settings.capitals)


def is_unix_name(name: str) -> bool:
    """Whether a text can be the name of an account."""
    return bool(_UNIX.fullmatch(name))


def login_name(rule: NameRule, typed: object) -> LoginName | None:
    """What somebody typed, by the site's rule; ``None``: it is spelled like no name."""
    if not isinstance(typed, str) or len(typed) > _LONGEST:
        return None
    name = _without_domain(typed, rule)
    if not is_unix_name(name) or (rule.capitals == "refuse" and name != name.lower()):
        return None
    if rule.capitals == "lower":
        return LoginName(name.lower(), typed.lower())
    return LoginName(name, typed)


def _without_domain(typed: str, rule: NameRule) -> str:
    """The name without a domain of the site's; with another one it is no name, as its ``@`` or ``\\`` is left."""
    domains = {domain.lower() for domain in rule.login_domains}
    before, _, after = typed.partition("\\")
    if before.lower() in domains:
        return after
    before, _, after = typed.rpartition("@")
    return before if after.lower() in domains else typed


def unix_name(rule: NameRule, value: str) -> str:
    """The UNIX name that a value of the directory means; ``""``: none."""
    if not is_unix_name(value):  # before letters are made small: that makes a plain k of the sign for kelvins
        return ""
    return value if rule.capitals == "keep" else value.lower()
