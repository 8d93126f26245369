"""What the pages say while Slurm or the directory of people does not answer: since when, and what still works.

It is what the hub has heard of them anyway: a page asks neither of the two.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from jupyterhub.apihandlers import APIHandler
from tornado import web

from portal.language.texts import N_, _

ROUTE = r"/api/dsportal/silences"
# In a second or two a daemon is restarted, and a page that was drawn meanwhile would frighten for longer.
NOT_TOLD_S = 3.0
SLURM = N_("Running sessions go on, and those that wait keep their place. New ones cannot start until it answers.")
DIRECTORY = N_(
    "Who is logged in stays so, and sessions run and start as ever. New logins may fail until it answers; "
    "nothing is wrong with your password."
)


@dataclass(frozen=True)
class SilentPart:
    """One part of the site that does not answer.

    Attributes:
        what: ``slurm`` or ``directory``.
        name: as a sentence begins with it.
        since: ISO 8601 with its zone.
        words: what still works.
    """

    what: str
    name: str
    since: str
    words: str


def show(hub: Any) -> None:
    """Have every template of a hub know what is silent."""
    hub.template_vars = {**hub.template_vars, "silences": partial(shown_to, hub)}


def shown_to(hub: Any, user: Any) -> list[SilentPart]:
    """What a page of somebody says; one that nobody has logged in for says nothing."""
    return silences(hub) if user else []


def silences(hub: Any) -> list[SilentPart]:
    """What is silent now, by what the hub has heard last."""
    cluster = hub.context.cluster
    access = vars(hub.authenticator).get("access")  # once somebody was asked about; a site's own login has none
    found = [
        ("slurm", "Slurm", cluster.silence.for_s if cluster else 0.0, SLURM),
        ("directory", _("The cluster’s login service"), access.people.silent_s if access else 0.0, DIRECTORY),
    ]
    now = datetime.now(UTC).astimezone()
    return [
        SilentPart(what, name, (now - timedelta(seconds=for_s)).isoformat(timespec="seconds"), _(words))
        for what, name, for_s, words in found
        if for_s > NOT_TOLD_S
    ]


class SilencesHandler(APIHandler):  # type: ignore[misc]
    """For a page that shows one: what of it is over."""

    def get(self) -> None:
        """All of them, for who has logged in."""
        if self.current_user is None:
            raise web.HTTPError(403, "Log in, or bring a token.")
        self.write({"silences": [asdict(one) for one in silences(self.app)]})
