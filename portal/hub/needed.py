"""What the portal itself needs of JupyterHub's settings, beside what the files of ``extra_config`` set.

The ordinary line of such a file names a whole list or table (``c.JupyterHub.services = […]``), and means to add to it.
So what the portal needs is put back after them. What is theirs alone stays, and where both say something they win.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from portal.administration import role
from portal.errors import SiteError
from portal.hub.context import RESUMER

TABLES = ("template_vars", "tornado_settings", "jinja_environment_options")
LISTS = ("template_paths", "trusted_alt_names")  # theirs first: a template of the site is found before ours
NAMED = ("services", "load_roles")
SCOPES = ("servers", "read:users:name")  # of the service that resumes sessions
WHERE = "services and roles (c.JupyterHub, in portal.extra_config or on the command line)"


def resumer_role() -> dict[str, Any]:
    """What the service may do that resumes sessions which waited, for ``c.JupyterHub.load_roles``."""
    return {"name": RESUMER, "services": [RESUMER], "scopes": list(SCOPES)}


def copied(c: Any) -> dict[str, Any]:
    """What the portal has set, before a site's files come."""
    return {key: copy.deepcopy(c.JupyterHub[key]) for key in (*TABLES, *LISTS, *NAMED) if key in c.JupyterHub}


def put_back(c: Any, ours: Mapping[str, Any]) -> None:
    """Complete what a site's files have left.

    Arguments:
        ours: what :func:`copied` answered before they were read.

    Raises:
        SiteError: a service or a role of theirs has a name that the portal needs.
    """
    theirs = c.JupyterHub
    for key in TABLES:
        if key in ours:
            theirs[key] = _both(ours[key], theirs.get(key) or {})
    for key in LISTS:
        if key in ours:
            found = list(theirs.get(key) or ())
            theirs[key] = [*found, *(one for one in ours[key] if one not in found)]
    for key in NAMED:
        if key in ours:
            found = list(theirs.get(key) or ())
            known = {_name(one) for one in found}
            theirs[key] = [*found, *(one for one in ours[key] if one["name"] not in known)]
    if "services" in ours:
        check(theirs.services, theirs.load_roles)
        _check_own(ours["services"], theirs.services)


def check(services: Iterable[Mapping[str, Any]], roles: Iterable[Mapping[str, Any]]) -> None:
    """What a hub must have before it starts: else sessions that waited would be lost, and their jobs run for nobody.

    Raises:
        SiteError: something is missing; the words say what, and the way out.
    """
    faults = []
    service = next((one for one in services if _name(one) == RESUMER), None)
    given = next((one for one in roles if _name(one) == RESUMER), {})
    if service is None or not service.get("api_token"):
        faults.append(f"the service {RESUMER!r} is missing: without it sessions that wait are lost at a restart")
    if RESUMER not in given.get("services", ()) or not set(SCOPES) <= set(given.get("scopes", ())):
        faults.append(f"the role {RESUMER!r} is not as the portal needs it: services {[RESUMER]}, scopes {[*SCOPES]}")
    if not any(_name(one) == role.NAME for one in roles):
        faults.append(f"the role {role.NAME!r} is missing: administrators would have no rights")
    if faults:
        raise SiteError(WHERE, [f"{fault}. {_ADVICE}" for fault in faults])


_ADVICE = f"Take out what changes it; a service or a role of the site has another name than {RESUMER!r}"


def _check_own(ours: Sequence[Mapping[str, Any]], services: Iterable[Mapping[str, Any]]) -> None:
    """The service with our name has our token: one of the site's own would not be known to the hub."""
    (token,) = (one["api_token"] for one in ours if one["name"] == RESUMER)
    if [one.get("api_token") for one in services if _name(one) == RESUMER] != [token]:
        raise SiteError(WHERE, [f"the service {RESUMER!r} is the portal's own. {_ADVICE}"])


def _both(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables; where both have a key theirs counts, and of two tables again both."""
    merged = {**ours, **theirs}
    for key in ours.keys() & theirs.keys():
        if isinstance(ours[key], Mapping) and isinstance(theirs[key], Mapping):
            merged[key] = _both(ours[key], theirs[key])
    return merged


def _name(one: Any) -> str:
    """The name of a service or a role, however wrong it is written; JupyterHub itself says what is wrong."""
    return str(one.get("name", "")) if isinstance(one, Mapping) else ""
