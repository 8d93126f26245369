"""The role of the people of ``ldap.admin_groups``: they see and end sessions, and are nobody else.

JupyterHub's own role ``admin`` may also act as everybody (tokens, access, starts), and comes with the flag ``admin`` of
a person. So nobody gets that flag from a group, and who has it from a version before loses it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jupyterhub import orm
from jupyterhub.roles import get_roles_for, strip_role
from sqlalchemy import or_

NAME = "portal-admin"
STOCK = "admin"
SCOPES = (
    "admin-ui",
    "list:users",
    "read:users",
    "delete:users",
    "read:servers",
    "delete:servers",  # to stop them
    "list:groups",
    "read:groups",
    "list:services",
    "read:services",
    "read:hub",
    "read:metrics",
)
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]


def role(groups: Iterable[str]) -> dict[str, Any]:
    """The role, for ``c.JupyterHub.load_roles``; groups that do not exist yet are made at the hub's start."""
    described = "Sees who uses the portal, stops sessions, and deletes people; acts as nobody else"
    return {"name": NAME, "description": described, "scopes": list(SCOPES), "groups": list(groups)}


def has_role(person: Any) -> bool:
    """Whether a person has it, by a group or by name.

    Arguments:
        person: the row of ``orm.User``.
    """
    return any(role.name == NAME for role in get_roles_for(person))


def named_admins(admin_users: Collection[str], roles: Iterable[Mapping[str, Any]]) -> set[str]:
    """Who has JupyterHub's own role by the settings of the site.

    Arguments:
        admin_users: ``c.Authenticator.admin_users``.
        roles: ``c.JupyterHub.load_roles``.
    """
    return set(admin_users) | {name for role in roles if role["name"] == STOCK for name in role.get("users", ())}


def take_back_flags(db: Any, kept: Collection[str], log: Log) -> None:
    """Take JupyterHub's own role from everybody but those whom the settings name.

    Arguments:
        db: JupyterHub's database session.
        kept: their names.
    """
    with_flag = or_(orm.User.admin == True, orm.User.roles.any(orm.Role.name == STOCK))  # noqa: E712
    for person in db.query(orm.User).filter(with_flag).all():
        if person.name not in kept:
            person.admin = False
            strip_role(db, person, STOCK)
            log.warning("%s has no longer JupyterHub's role admin: no setting names them", person.name)
    db.commit()
