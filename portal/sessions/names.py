"""Names of sessions that are safe everywhere: in addresses, host names, cookies, logs and folders. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime

from portal.language.texts import N_, _

LONGEST = 30  # JupyterHub's, so that a person's name and this one fit a host name together
FORM = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
ALLOWED = N_(
    "A session's name has 1 to {longest} characters: small letters, digits and single '-', "
    "with a letter first and no '-' at the end."
)
# A session of such a name would take the place of pages of the session without a name, which is at /user/NAME/.
RESERVED = frozenset(
    {
        "api",
        "consoles",
        "custom",
        "doc",
        "dsportal",
        "edit",
        "favicon",
        "files",
        "hub",
        "kernelspecs",
        "lab",
        "login",
        "logout",
        "lsp",
        "metrics",
        "nbconvert",
        "nbextensions",
        "notebooks",
        "proxy",
        "robots",
        "server-proxy",
        "services",
        "sockets",
        "static",
        "tensorboard",
        "terminals",
        "tools",
        "tree",
        "user",
        "view",
    }
)


def fault(name: str) -> str:
    """What is wrong with a name, in words; ``""`` where nothing is."""
    if len(name) > LONGEST or not re.fullmatch(FORM, name, re.ASCII):
        return _(ALLOWED).format(longest=LONGEST)
    if name in RESERVED:
        return _("“{name}” is the address of a page of JupyterLab. Choose another name.").format(name=name)
    return ""


def unused(names: Collection[str]) -> str:
    """A name that none of these is: ``session-2`` and so on."""
    return next(name for number in range(2, len(names) + 3) if (name := f"session-{number}") not in names)


def left(ends_at: str, now: datetime) -> str:
    """How long it is until a moment (ISO 8601 with its zone), as ``3 h 20 min``; ``""`` where none is known."""
    if not ends_at:
        return ""
    minutes = max(0, int((datetime.fromisoformat(ends_at) - now).total_seconds()) // 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"
